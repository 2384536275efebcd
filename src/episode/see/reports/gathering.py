"""Contents of a report, gathered from the DataFrame of a query: a few passes on Spark, single matches in process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from time import perf_counter
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeError, EpisodeUnsupportedError, install
from episode.queries.explaining import explain_pattern
from episode.queries.origins import PlacedPattern, QueryOrigin, origin_of
from episode.see.input_rows import SparkRows
from episode.see.inspecting import Inspected, patterns_at
from episode.see.reports.charts import length_bins, time_bins
from episode.see.reports.data import (
    ColumnRow,
    Histogram,
    InputPart,
    KeyRow,
    MatchPart,
    PatternPart,
    Report,
    ReportPicture,
    ResultPart,
)
from episode.see.reports.extents import Extents, NoExtents, extents_of
from episode.see.reports.tables import TimeFormat, key_text
from episode.words import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.see.pictures.look import Look
    from episode.spark.inspection import KeyCount, Match, MatchTable, Totals


# The matches that tell most: the longest and the shortest, a typical one, those of rare and of busy keys.


_SPECIAL = {
    "longest": "The longest match",
    "shortest": "The shortest match",
    "most rows": "The match with the most rows",
    "first of all": "The first match",
    "last of all": "The last match",
}
WIDTH = 520
"""Width of a picture in pixels, so that two fit next to each other."""
LONGEST_TITLE = 62
AT_ONCE = 4
NOT_INSTALLED = f"Pictures of single matches are left out: a package that draws them is missing. {install('plot')}."


@dataclass(frozen=True)
class TellingMatch:
    """One match, and what is special about it."""

    why: str
    match: Match


def telling(
    table: MatchTable, totals: Totals, top: list[KeyCount], rarest: KeyCount | None, most: int
) -> list[TellingMatch]:
    """Matches that differ from one another, up to so many."""
    examples = totals.examples
    found = [TellingMatch(_SPECIAL["longest"], examples["longest"])]
    typical = table.nearest(totals.lengths[1])
    if typical is not None:
        found.append(TellingMatch("A typical match: its length is the median", typical))
    found += [TellingMatch(_SPECIAL[name], examples[name]) for name in ("shortest", "most rows") if name in examples]
    if rarest is not None and rarest.longest is not None and top and rarest.matches < top[0].matches:
        found.append(
            TellingMatch(f"A match of the rarest key: it has {count_of(rarest.matches, 'match')}", rarest.longest)
        )
    if top and top[0].longest is not None:
        few = count_of(top[0].matches, "match")
        found.append(TellingMatch(f"The longest match of the busiest key, which has {few}", top[0].longest))
    found += [TellingMatch(_SPECIAL[name], examples[name]) for name in ("first of all", "last of all")]
    found += [
        TellingMatch(f"The longest of {count_of(one.matches, 'match')} of {key_text(one.key)}", one.longest)
        for one in top[1:]
        if one.longest is not None
    ]
    different: dict[tuple[object, ...], TellingMatch] = {}
    for one in found:
        different.setdefault((one.match.key, one.match.start, one.match.end), one)
    return list(different.values())[:most]


@dataclass(frozen=True)
class MatchDrawing:
    """Settings of pictures of single matches. pattern: its number, if the query has several. least: the least time
    around a match that is shown."""

    result: DataFrame
    pattern: int | None
    keys: tuple[str, ...]
    clock: TimeFormat
    least: float

    def pictures(self, chosen: list[TellingMatch]) -> tuple[tuple[ReportPicture, ...], str]:
        """Return a picture of each match; or the reason for not drawing any."""
        from episode.see.pictures.plotting import check_installed

        try:
            check_installed()
        except EpisodeError:
            return (), NOT_INSTALLED
        with ThreadPoolExecutor(AT_ONCE) as threads:  # Spark's answers to small questions are mostly waited for
            looks = threads.map(self._look, chosen)
            return tuple(map(self._picture, chosen, looks)), ""

    def _picture(self, chosen: TellingMatch, seen: Look | EpisodeError) -> ReportPicture:
        from episode.see.pictures.plotting import chart_of

        caption = self._caption(chosen.match)
        if isinstance(seen, EpisodeError):
            return ReportPicture(chosen.why, caption, None, f"It could not be drawn: {seen.message}")
        if len(seen.title) > LONGEST_TITLE:  # a title that is wider than the picture would make the picture smaller
            seen = replace(seen, title=f"{seen.title[: LONGEST_TITLE - 1]}…")
        return ReportPicture(chosen.why, caption, chart_of(seen, WIDTH).to_svg())

    def _look(self, chosen: TellingMatch) -> Look | EpisodeError:
        """Return the look of a match, or why it cannot be drawn."""
        from episode.see.pictures.plotting import look

        match = chosen.match
        length = match.end - match.start
        around = max(0.75 * length, min(self.least, length)) if length else self.least
        between = (self._time(match.start - around), self._time(match.end + around))
        key = dict(zip(self.keys, match.key, strict=True)) if self.keys else None
        choose = "shortest" if chosen.why == _SPECIAL["shortest"] else "longest"
        try:
            return look(self.result, pattern=self.pattern, of=key, between=between, choose=choose, width=WIDTH)
        except EpisodeError as error:
            return error

    def _time(self, value: float) -> object:
        return self.clock.at(value) if self.clock.clock else value

    def _caption(self, match: Match) -> str:
        """Return the key and the time of a match in words."""
        rows = "" if match.rows is None else f", {count_of(match.rows, 'row')}"
        key = f"{', '.join(self.keys)} {key_text(match.key)}, " if self.keys else ""
        return f"{key}from {self.clock.moment(match.start)} on, {self.clock.length(match.end - match.start)}{rows}"


# Contents of a report, gathered from the DataFrame of a query: a few passes on Spark, single matches in this process.
#
# The query runs twice: once for its result, and once with the extents of its matches in place of its columns. Both are
# kept by Spark while they are counted; neither is collected.


TOP_KEYS = 15
AROUND = 12
"""Rows that are shown before and after a match, at least about."""


@dataclass
class _Clockwork:
    """Steps and how long they took; what: called when one begins."""

    what: Callable[[str], None]
    steps: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        self.what(step)
        began = perf_counter()
        yield
        self.steps.append((step, perf_counter() - began))


def gather(
    result: DataFrame,
    title: str | None,
    plots: int,
    rows: int,
    begins: Callable[[str], None] = lambda step: None,
) -> Report:
    """Gather the report of a query. begins: called with the name of each step."""
    from importlib.metadata import version

    from episode.spark.inspection import cache_frame, first_rows, session_line, session_zone

    origin = origin_of(result)
    check_table(result, origin)
    steps = _Clockwork(begins)
    with cache_frame(result):
        with steps("the query and its result"):
            count, first = first_rows(result, rows)
        zone = session_zone(origin.spark)
        several = len(origin.patterns) > 1
        parts = [
            _pattern(result, origin, number, plots, zone, _name_steps(steps, number if several else None))
            for number in range(1, len(origin.patterns) + 1)
        ]
    return Report(
        title=title or _title(origin),
        query=origin.text,
        arguments=dict(origin.patterns[0].run.arguments),
        result=ResultPart(count, tuple(result.columns), tuple(map(tuple, first))),
        patterns=tuple(parts),
        written=datetime.now(timezone.utc),
        version=version("episode"),
        session=session_line(result),
        timings=tuple(steps.steps),
    )


def check_table(result: DataFrame, origin: QueryOrigin) -> None:
    """A report is about a query that ends."""
    if result.isStreaming or any(events.frame.isStreaming for one in origin.patterns for events in one.events):
        raise EpisodeUnsupportedError(
            "This query is over a stream, which does not end: a report needs all of its matches.",
            hint="Run the query over a table of the events so far, or over the archive of a declared stream.",
        )


def _name_steps(steps: _Clockwork, number: int | None) -> Callable[[str], Any]:
    return lambda step: steps(step if number is None else f"{step} of pattern {number}")


def _title(origin: QueryOrigin) -> str:
    tables = dict.fromkeys(name for placed in origin.patterns for events in placed.events for name in events.names)
    where = f" in {' and '.join(tables)}" if tables else ""
    count = len(origin.patterns)
    return f"Matches of {origin.patterns[0].language.one if count == 1 else f'{count} patterns'}{where}"


def _pattern(
    result: DataFrame, origin: QueryOrigin, number: int, plots: int, zone: str, step: Callable[[str], Any]
) -> PatternPart:
    placed = origin.patterns[number - 1]
    sides = patterns_at(placed)
    with step("the rows that are searched"):
        inputs = _inputs(placed, sides)
    with step("the plan"):
        plan = _plan(placed)
    extents = extents_of(origin, placed)
    labels = tuple(dict.fromkeys(name for side in sides for name in side.plan.labels.names))
    text = placed.source.text_at(placed.source.span)
    if isinstance(extents, NoExtents):
        return PatternPart(placed.language.name, text, labels, None, extents.reason, inputs, plan)
    with step("the times and keys of its matches"):
        found, chosen = _matches(extents, zone, plots)
    pictures: tuple[ReportPicture, ...] = ()
    no_pictures = ""
    if plots and chosen:
        with step("the pictures"):
            drawing = MatchDrawing(
                result, number, tuple(extents.keys), found.clock, _spacing(found, inputs[0]) * AROUND
            )
            pictures, no_pictures = drawing.pictures(chosen)
    return PatternPart(placed.language.name, text, labels, found, "", inputs, plan, pictures, no_pictures)


def _spacing(found: MatchPart, rows: InputPart) -> float:
    """About how much time there is from a row of a key to the next."""
    most = rows.rows if rows.keys is None else rows.keys[1]
    return ((found.last or 0.0) - (found.first or 0.0)) / max(1, most)


def _plan(placed: PlacedPattern) -> str:
    from episode.see.pictures.plans.html import fragment

    one = explain_pattern(placed, analyze=False)
    return fragment([one.section], "\n".join(one.lines))


def _inputs(placed: PlacedPattern, sides: tuple[Inspected, ...]) -> tuple[InputPart, ...]:
    """Return the rows of the pattern; of a correlation those of both, once if they are the same."""
    pattern: Any = placed.planned.pattern
    if len(sides) == 1 or pattern.shared:
        return (_input(sides[0], "", sides),)
    titles = ("The rows of the live pattern", "The rows of the archive pattern")
    return tuple(_input(side, title, (side,)) for side, title in zip(sides, titles, strict=True))


def _input(side: Inspected, title: str, readers: tuple[Inspected, ...]) -> InputPart:
    """readers: all whose columns are looked at."""
    from episode.spark.inspection import input_numbers

    assert isinstance(side.source, SparkRows)  # a report is made by Spark
    frame = side.source.frame
    derived = {name for reader in readers for _, name in reader.plan.derived}
    read = dict.fromkeys(name for reader in readers for name in reader.plan.input_columns)
    columns = [name for name in read if name not in derived and name in frame.columns]
    numbers = input_numbers(frame, side.keys, columns)
    roles = {**dict.fromkeys(side.keys, "key"), **({side.time: "time"} if side.time else {})}
    rows = tuple(
        ColumnRow(one.name, roles.get(one.name, "value"), one.type, one.nulls, one.least, one.greatest)
        for one in numbers.columns
    )
    return InputPart(title, numbers.rows, numbers.keys, rows)


def _matches(extents: Extents, zone: str, plots: int) -> tuple[MatchPart, list[TellingMatch]]:
    """Return the matches in numbers, and those that are worth a picture."""
    from episode.spark.inspection import cache_frame, is_clock, match_table

    table = match_table(extents.frame, list(extents.keys.values()), extents.start, extents.end, extents.rows)
    type_ = "bigint" if extents.start is None else extents.frame.schema[extents.start].dataType.simpleString()
    clock = TimeFormat(is_clock(type_), zone if type_ == "timestamp" else "UTC")
    with cache_frame(table.frame):
        totals = table.totals()
        keys, top, rarest = table.by_key(TOP_KEYS)
        over_time, by_length = _histograms(table, totals, clock)
        chosen = telling(table, totals, top, rarest, plots) if plots and totals.placed else []
    part = MatchPart(
        matches=totals.matches,
        placed=totals.placed,
        rows=totals.rows,
        first=totals.first,
        last=totals.last,
        lengths=totals.lengths,
        clock=clock,
        over_time=over_time,
        by_length=by_length,
        key_names=tuple(extents.keys),
        keys=keys,
        top_keys=tuple(KeyRow(one.key, one.matches) for one in top),
        rarest=None if rarest is None else KeyRow(rarest.key, rarest.matches),
    )
    return part, chosen


def _histograms(table: MatchTable, totals: Totals, clock: TimeFormat) -> tuple[Histogram | None, Histogram | None]:
    from episode.spark.inspection import length_bin, time_bin

    if not totals.placed or totals.first is None or totals.last is None:
        return None, None
    times = time_bins(totals.first, totals.last, clock)
    lengths = length_bins(totals.lengths, clock)
    counts = table.counts(
        {
            "time": time_bin(times.origin, times.width),
            "length": length_bin(lengths.origin, lengths.width, lengths.logarithmic),
        }
    )
    return Histogram(times, counts["time"]), Histogram(lengths, counts["length"])
