"""How an archive is partitioned by time: by day or by hour, or where time is an integer by ranges of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from episode.plan.types import is_integer
from episode.store.declaration import Declaration

DAY = 86_400_000_000
HOUR = 3_600_000_000
HOURLY_RATE = 24_000_000
"""Events a day from which on an archive has a directory for each hour."""
RANGE_ROWS = 4_000_000
"""Events that a range of integer time should hold."""


@dataclass(frozen=True)
class Partitioning:
    """column: the name of the partition directories' column. width: of a partition, in units of event time."""

    column: str
    width: int
    unit: str

    def places(self, times: np.ndarray) -> np.ndarray:
        """The number of the partition of each time (int64)."""
        return np.floor_divide(times, self.width)

    def directory(self, place: int) -> str:
        """The name of a partition's directory."""
        if self.unit == "range":
            return f"{self.column}={place * self.width}"
        text = str(np.datetime64(place, "D" if self.unit == "day" else "h"))
        return f"{self.column}={text.replace('T', '-')}"

    def split(self, table: pa.Table, times: np.ndarray) -> Iterator[tuple[str, pa.Table]]:
        """(directory, its rows in the order that they come in) for each partition."""
        places = self.places(times)
        if not len(places):
            return
        if places[0] == places[-1] and (places == places[0]).all():
            yield self.directory(int(places[0])), table
            return
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [len(ordered)]])
        for begin, end in pairwise(cuts.tolist()):
            yield self.directory(int(ordered[begin])), table.take(pa.array(order[begin:end]))


def chosen(declaration: Declaration, rows: int, least: int, greatest: int) -> Partitioning:
    """The partitioning of a stream that has had so many rows between two times; an option of the stream decides."""
    wish = declaration.options.get("partition", "").lower()
    if is_integer(declaration.time_type):
        width = int(wish) if wish else _range(rows, greatest - least)
        return Partitioning(_column(declaration, "range"), width, "range")
    days = max(1, greatest - least) / DAY
    unit = wish or ("hour" if rows / max(days, 1 / 24) >= HOURLY_RATE and greatest > least else "day")
    return Partitioning(_column(declaration, unit), DAY if unit == "day" else HOUR, unit)


def _range(rows: int, span: int) -> int:
    """A power of ten that holds about RANGE_ROWS events at this rate."""
    wanted = max(1, span) * RANGE_ROWS // max(1, rows)
    return min(10 ** len(str(wanted)), 10**18)


def _column(declaration: Declaration, name: str) -> str:
    taken = {column.lower() for column, _ in declaration.columns}
    while name in taken:
        name = f"archive_{name}"
    return name
