"""Sample data for situations: readings of machines that run hot, of their doors and their load, with known answers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from episode.samples import DAY, PLANTED, TIMESTAMP, Sample

MACHINES = ("press", "lathe", "mill", "saw", "oven", "pump")
READINGS = pa.schema(
    [
        ("machine", pa.string()),
        ("ts", TIMESTAMP),
        ("temperature", pa.float64()),
        ("load", pa.int64()),
        ("door", pa.string()),
    ]
)
HOT = 80.0
"""Degrees above which a machine is hot; no reading outside a planted episode comes near."""
PERIOD = 5
"""Seconds between two readings of a machine."""
SLOT = 240
"""Readings to every episode: twenty minutes, of which the longest takes less than half."""
KINDS = ("aired", "checked", "heat", "door")


def machine_readings(seed: int = 9, *, machines: tuple[str, ...] = MACHINES, hours: int = 6) -> Sample:
    """Readings of all machines, ordered by time. Planted, one to every twenty minutes of a machine: `aired` (the door
    is opened while it is hot, and closed after it has cooled), `checked` (opened and closed again while it is hot),
    `heat` (hot, and the door stays closed) and `door` (open for a while, and never hot)."""
    rng = np.random.default_rng(seed)
    count = hours * 3600 // PERIOD
    warmth = np.cumsum(rng.normal(0.0, 0.35, size=(len(machines), count)), axis=1)
    temperature = 58.0 + 9.0 * np.tanh(warmth / 9.0) + rng.normal(0.0, 0.4, size=warmth.shape)
    load = np.clip(np.round(45 + 25 * np.tanh(warmth[:, ::-1] / 8) + rng.normal(0, 4, size=warmth.shape)), 0, 100)
    is_open = np.zeros(warmth.shape, dtype=bool)
    found: list[tuple[str, int, int, int]] = []
    for machine in range(len(machines)):
        for slot in range(count // SLOT):
            kind = KINDS[int(rng.integers(len(KINDS)))]
            first = slot * SLOT + int(rng.integers(10, SLOT // 2))
            length = int(rng.integers(30, 80))
            last = first + length
            opened = first + int(rng.integers(length // 4, length // 2))
            if kind != "door":
                shape = np.sin(np.linspace(0.25, np.pi - 0.25, length))
                temperature[machine, first:last] = HOT + 2 + 14 * shape + rng.normal(0, 0.3, size=length)
            if kind == "aired":
                is_open[machine, opened : last + int(rng.integers(5, 20))] = True
            elif kind == "checked":
                is_open[machine, opened : last - int(rng.integers(5, length // 4))] = True
            elif kind == "door":
                is_open[machine, first:last] = True
            found.append((kind, machine, first, last))

    seconds = 6 * 3600 + PERIOD * np.arange(count)
    times = DAY + (seconds * 1_000_000).astype("timedelta64[us]")
    by_time = (array.T.reshape(-1) for array in (np.round(temperature, 1), load.astype(np.int64), is_open))
    degrees, loads, doors = by_time
    names = np.tile(np.array(machines), count)
    table = pa.table(
        [
            pa.array(names, pa.string()),
            pa.array(np.repeat(times, len(machines)), TIMESTAMP),
            pa.array(degrees),
            pa.array(loads),
            pa.array(np.where(doors, "open", "closed"), pa.string()),
        ],
        schema=READINGS,
    )
    which, first_row, last_row = np.array([place for _, *place in found], dtype=np.int64).reshape(-1, 3).T
    planted = pa.table(
        [
            pa.array([kind for kind, *_ in found], pa.string()),
            pa.array([machines[machine] for machine in which], pa.string()),
            pa.array(times[first_row], TIMESTAMP),
            pa.array(times[last_row], TIMESTAMP),
        ],
        schema=PLANTED,
    )
    return Sample(table, planted)
