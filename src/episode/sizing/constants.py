"""Measured constants: the cost of each part of a run, the machine, and the method.

They are data, in `constants.json`, which `python -m bench.sizing calibrate` writes. Values are seconds of a core unless
the unit differs. The `how` of a value that was not measured begins with "assumed".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from episode.errors import EpisodeError

STORED = Path(__file__).with_name("constants.json")
ASSUMED = "assumed"

_BY_UNIT = {
    "ns/byte": "scan transport snapshot",
    "ns/row": "pack order match_rows match_events match_situations spark_row moved_row jvm_row",
    "ns/match": "hand_over write",
    "ns/event": "batch_event live_event",
    "bytes/row": "row_bytes envelope_bytes state_bytes",
    "bytes": "worker heap heap_core",
    "bytes/s": "network",
    "s": "session query query_cores commit task dispatch batch_floor live_median live_99 restart",
    "matches/row": "matches",
    "share": "wire_share",
    "cores": "busy_slot",
    "times": "contention worker_factor state_factor",
}
UNITS = {name: unit for unit, names in _BY_UNIT.items() for name in names.split()}
"""Every constant that the model needs, and its unit."""

OF_PROCESSOR = ("ns/byte", "ns/row", "ns/match", "ns/event")
"""Units of values that scale with the speed of a core."""


@dataclass(frozen=True)
class MeasuredConstant:
    """One measured value. how: the command and the figure used, or the page it is from."""

    value: float
    unit: str
    how: str
    machine: str
    date: str


@dataclass(frozen=True)
class Constants(Mapping[str, float]):
    """All constants by name. scaled: the factor for another machine; None: as stored."""

    known: Mapping[str, MeasuredConstant]
    scaled: float | None = None

    def __post_init__(self) -> None:
        for name, unit in UNITS.items():
            one = self.known.get(name)
            if one is None or one.unit != unit or not one.value >= 0:
                hint = "Measure them again: python -m bench.sizing calibrate, in a clone of the repository."
                raise EpisodeError(f"The constants of sizing lack {name} in {unit}.", hint=hint)

    def __getitem__(self, name: str) -> float:
        return self.known[name].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    @property
    def machine(self) -> str:
        """The machine on which most of them were measured."""
        return self.known["transport"].machine

    @property
    def date(self) -> str:
        return self.known["transport"].date

    def scaled_by(self, times: float, contention: float, machine: str, date: str) -> Constants:
        """Return the constants for a machine whose cores take `times` as long."""

        def one(name: str, constant: MeasuredConstant) -> MeasuredConstant:
            if name == "contention":
                return MeasuredConstant(contention, constant.unit, "episode size --calibrate", machine, date)
            if constant.unit not in OF_PROCESSOR:
                return constant
            how = f"{constant.how}; times {times:.2f} by episode size --calibrate"
            return replace(constant, value=constant.value * times, how=how)

        return Constants({name: one(name, constant) for name, constant in self.known.items()}, times)

    def to_json(self) -> str:
        return json.dumps({name: asdict(constant) for name, constant in self.known.items()}, indent=2) + "\n"


def load_constants(path: Path = STORED) -> Constants:
    """Read the constants that are stored with the package."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return Constants({name: MeasuredConstant(**constant) for name, constant in found.items()})
