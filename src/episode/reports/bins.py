"""Bins of histograms: of round widths, as many as a picture shows."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

from episode.reports.wording import Clock
from episode.words import DAY, HOUR, MILLISECOND, MINUTE, SECOND

_STEPS = (
    *(step * scale for scale in (1, 10, 100) for step in (1, 2, 5)),
    *(step * MILLISECOND * scale for scale in (1, 10, 100) for step in (1, 2, 5)),
    *(step * SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * HOUR for step in (1, 2, 3, 6, 12)),
    *(step * DAY for step in (1, 2, 7, 14, 28, 91, 182, 364)),
)
LOGARITHMIC_FROM = 50
"""Lengths are shown on a logarithmic scale where the 99 of 100 are so many times the median."""
PER_DECADE = 6


@dataclass(frozen=True)
class Bins:
    """Bins 0 … count - 1. Linear: bin i is from origin + i * width on. Logarithmic: from origin * 10 ** (i / width) on,
    and what is less is in bin -1."""

    origin: float
    width: float
    count: int
    logarithmic: bool = False

    def low(self, number: int) -> float:
        if self.logarithmic:
            return 0.0 if number < 0 else self.origin * 10 ** (number / self.width)
        return self.origin + number * self.width

    @property
    def numbers(self) -> range:
        return range(-1 if self.logarithmic else 0, self.count)


def time_bins(first: float, last: float, clock: Clock, most: int = 60) -> Bins:
    """For the starts of matches."""
    width = round_step((last - first) / most, clock.clock)
    origin = _floor(first, width, clock)
    return Bins(origin, width, int((last - origin) // width) + 1)


def length_bins(lengths: tuple[float, ...], clock: Clock, most: int = 40) -> Bins:
    """For lengths: least, median, 90 and 99 of 100, greatest, mean."""
    least, median, _, large, greatest, _ = lengths
    if median > 0 and large > LOGARITHMIC_FROM * median and greatest > 0:
        origin = least if least > 0 else median / 100
        origin = 10 ** floor(log10(origin))
        return Bins(origin, PER_DECADE, max(1, ceil(log10(greatest / origin) * PER_DECADE + 1e-9)), logarithmic=True)
    whole = not clock.clock and least == int(least) and greatest == int(greatest)
    width = round_step((greatest - least) / most, clock.clock)
    width = max(width, 1) if whole else width
    origin = floor(least / width) * width
    return Bins(origin, width, int((greatest - origin) // width) + 1)


def round_step(least: float, clock: bool) -> float:
    """The next round width."""
    if clock:
        for step in _STEPS:
            if step >= least:
                return float(step)
        return ceil(least / (364 * DAY)) * 364.0 * DAY
    if least <= 0:
        return 1.0
    scale = 10.0 ** floor(log10(least))
    return next(scale * step for step in (1, 2, 5, 10) if scale * step >= least * (1 - 1e-9))


def _floor(value: float, width: float, clock: Clock) -> float:
    """The last round value up to one; of hours and days, on the clock that is shown."""
    wall = clock.wall(value)
    return value - (wall - floor(wall / width) * width)
