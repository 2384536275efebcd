"""TPStream's random events (EDBT 2018, section 6.1): boolean columns, each a stream of situations, one event a second.

A situation lasts 10 to 100 seconds, a gap 10 to 50, both uniform; `seldom` and `lasting` change that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

SEED = 2018
FEED = 1_000_000
"""Rows of a table."""
NAMES = "abcdefghij"


@dataclass(frozen=True)
class Stream:
    """Least and greatest seconds of situations and of the gaps between them."""

    duration: tuple[int, int] = (10, 100)
    gap: tuple[int, int] = (10, 50)

    @property
    def average(self) -> float:
        return sum(self.duration) / 2

    @property
    def period(self) -> float:
        """Seconds from one situation to the next."""
        return self.average + sum(self.gap) / 2

    def seldom(self, times: float) -> Stream:
        """Situations as long as these, but so many times as rare."""
        scale = (times * self.period - self.average) / (self.period - self.average)
        return Stream(self.duration, (round(self.gap[0] * scale), round(self.gap[1] * scale)))

    def lasting(self, times: float) -> Stream:
        """Situations so many times as long, with the same gaps."""
        return Stream((round(self.duration[0] * times), round(self.duration[1] * times)), self.gap)

    def values(self, rows: int, random: np.random.Generator) -> np.ndarray:
        """bool[rows]: does the situation hold? Begins somewhere within a gap or a situation."""
        pairs = int(1.1 * rows / self.period) + 100
        lengths = np.empty((pairs, 2), np.int64)
        lengths[:, 0] = random.integers(self.gap[0], self.gap[1] + 1, pairs)
        lengths[:, 1] = random.integers(self.duration[0], self.duration[1] + 1, pairs)
        begin = int(random.integers(0, round(self.period)))
        values = np.repeat(np.arange(2 * pairs) % 2 == 1, lengths.ravel())[begin : begin + rows]
        assert len(values) == rows
        return values


USUAL = Stream()


def schema_of(streams: int) -> pa.Schema:
    return pa.schema([("ts", pa.int64()), *((name, pa.bool_()) for name in NAMES[:streams])])


def types_of(streams: int) -> dict[str, str]:
    return {"ts": "bigint", **dict.fromkeys(NAMES[:streams], "boolean")}


def intervals(
    rows: int, streams: Sequence[Stream], first: int = 0, seed: int = SEED, feed: int = FEED
) -> Iterator[pa.Table]:
    """Events in order of time from `first` on, in tables of `feed` rows."""
    random = np.random.default_rng([seed, first])
    columns = [stream.values(rows, random) for stream in streams]
    for start in range(0, rows, feed):
        stop = min(rows, start + feed)
        time = np.arange(first + start, first + stop)
        arrays = [pa.array(time), *(pa.array(column[start:stop]) for column in columns)]
        yield pa.Table.from_arrays(arrays, schema=schema_of(len(streams)))
