"""Bars as SVG: of matches over time and by length, in bins of round widths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from episode.words import DAY, HOUR, MILLISECOND, MINUTE, SECOND, count_of

if TYPE_CHECKING:
    from episode.see.reports.data import Histogram, PatternPart
    from episode.see.reports.tables import TimeFormat


_STEPS = (
    *(step * scale for scale in (1, 10, 100) for step in (1, 2, 5)),
    *(step * MILLISECOND * scale for scale in (1, 10, 100) for step in (1, 2, 5)),
    *(step * SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * HOUR for step in (1, 2, 3, 6, 12)),
    *(step * DAY for step in (1, 2, 7, 14, 28, 91, 182, 364)),
)
LOGARITHMIC_FROM = 50
"""Lengths are shown on a logarithmic scale if the 99th percentile is more than this multiple of the median."""
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


def time_bins(first: float, last: float, clock: TimeFormat, most: int = 60) -> Bins:
    """For the starts of matches."""
    width = round_step((last - first) / most, clock.clock)
    origin = _floor(first, width, clock)
    return Bins(origin, width, int((last - origin) // width) + 1)


def length_bins(lengths: tuple[float, ...], clock: TimeFormat, most: int = 40) -> Bins:
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


def _floor(value: float, width: float, clock: TimeFormat) -> float:
    """The last round value up to one; of hours and days, on the clock that is shown."""
    wall = clock.wall(value)
    return value - (wall - floor(wall / width) * width)


WIDE, NARROW, HEIGHT = 1040, 500, 220
"""Sizes of pictures, about as large as they are shown, so that all have letters of one size."""
LEFT, RIGHT, TOP, BOTTOM = 56, 30, 12, 34
_TICK_SPACE = 90


def over_time(histogram: Histogram, clock: TimeFormat, pattern: PatternPart) -> str:
    label = f"{pattern.many.capitalize()} by the time at which they begin"
    bins = histogram.bins

    def tick(value: float) -> str:
        return _tick_of_clock(value, bins, clock) if clock.clock else clock.moment(value)

    return _bars(histogram, label, tick, clock.moment, pattern, clock.wall(bins.origin), WIDE, clock.clock)


def by_length(histogram: Histogram, clock: TimeFormat, pattern: PatternPart) -> str:
    label = f"{pattern.many.capitalize()} by their length" + (
        ", on a logarithmic scale" if histogram.bins.logarithmic else ""
    )
    return _bars(histogram, label, clock.length, clock.length, pattern, histogram.bins.origin, NARROW, clock.clock)


def _bars(
    histogram: Histogram,
    label: str,
    tick: Callable[[float], str],
    full: Callable[[float], str],
    pattern: PatternPart,
    origin: float,
    width: int,
    clock: bool,
) -> str:
    """tick, full: a value at the axis, and in full. origin: of the bins, on the scale whose round values get ticks."""
    bins, counts = histogram.bins, histogram.counts
    numbers = [number for number in bins.numbers if number >= 0 or counts.get(number)]
    most = max(counts.values(), default=0) or 1
    level = max(1.0, round_step(most / 4, clock=False))
    levels = [level * number for number in range(ceil(most / level) + 1)]
    high = levels[-1]
    plot_width, plot_height = width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = plot_width / len(numbers)

    def y(value: float) -> float:
        return TOP + plot_height * (1 - value / high)

    parts = [
        f'<svg viewBox="0 0 {width} {HEIGHT}" role="img" aria-label="{escape(label)}" class="chart">',
        *(_level(y(level), f"{level:,.0f}", width) for level in levels),
    ]
    for place, number in enumerate(numbers):
        count = counts.get(number, 0)
        if count:
            height = max(1.0, y(0) - y(count))
            low, above = full(bins.low(number)), full(bins.low(number + 1))
            parts.append(
                f'<rect x="{LEFT + place * step + 0.5:.2f}" y="{y(0) - height:.2f}" width="{max(step - 1, 0.8):.2f}" '
                f'height="{height:.2f}" class="bar"><title>{escape(low)} – {escape(above)}: '
                f"{escape(count_of(count, pattern.one, pattern.many))}</title></rect>"
            )
    parts.append(f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y(0)}" y2="{y(0)}" class="axis"/>')
    parts += [_tick(LEFT + place * step, text) for place, text in _ticks(bins, numbers, step, tick, origin, clock)]
    return "".join([*parts, "</svg>"])


def _level(y: float, text: str, width: int) -> str:
    return (
        f'<line x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
        f'<text x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{escape(text)}</text>'
    )


def _tick(x: float, text: str) -> str:
    y = HEIGHT - BOTTOM
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}" class="axis"/>'
        f'<text x="{x:.1f}" y="{y + 17}" text-anchor="middle">{escape(text)}</text>'
    )


def _ticks(
    bins: Bins, numbers: list[int], step: float, tick: Callable[[float], str], origin: float, clock: bool
) -> list[tuple[int, str]]:
    """Places and texts of ticks, at edges of bins, up to the number that fits."""
    if bins.logarithmic:
        edges = [place for place, number in enumerate(numbers) if number >= 0 and number % bins.width == 0]
        every = max(1, round(_TICK_SPACE / (step * bins.width)))
        return [(place, tick(bins.low(numbers[place]))) for place in edges[::every]]
    every = _bins_per_tick(bins, _TICK_SPACE / step, clock)
    first = -round(origin / bins.width) % every
    return [(place, tick(bins.low(numbers[0] + place))) for place in range(first, len(numbers) + 1, every)]


def _bins_per_tick(bins: Bins, room: float, clock: bool) -> int:
    """Return the number of bins from a tick to the next, so that the texts fit and ticks are round."""
    wanted = bins.width * max(1.0, room)
    for _ in range(12):
        found = round_step(wanted, clock)
        if abs(found / bins.width - round(found / bins.width)) < 1e-9:
            return round(found / bins.width)
        wanted = found * 1.001
    return max(1, ceil(room))


def _tick_of_clock(value: float, bins: Bins, clock: TimeFormat) -> str:
    """Return the parts of a time that tell one bin from the next."""
    try:
        moment = clock.at(value)
    except OverflowError:
        return clock.moment(value)
    if bins.width >= DAY:
        return f"{moment:%Y-%m-%d}"
    whole = bins.width * bins.count
    if whole > DAY:
        return f"{moment:%m-%d %H:%M}"
    if bins.width >= MINUTE or whole > HOUR:
        return f"{moment:%H:%M}"
    return f"{moment:%H:%M:%S}" if bins.width >= 1_000_000 else f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
