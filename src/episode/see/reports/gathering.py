"""Contents of a report, gathered from the DataFrame of a query: a few passes on Spark, single matches in process.

Matches are counted by their extents: key, times and number of rows. The pattern is planned again with these values in
place of its measures, so that the times are there whatever the query puts out: ALL ROWS PER MATCH, RETURN without
times, measures that hide the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeError, EpisodeUnsupportedError, install
from episode.lang.lexer import tokenize
from episode.lang.syntax import NOWHERE
from episode.plan.correlation.plan import LIVE_PREFIX
from episode.plan.events.returns import KEEP
from episode.plan.output import MATCH_END, MATCH_START, MeasurePlan, Output, PlannedMeasure, with_atoms
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote
from episode.queries.explaining import explain_pattern
from episode.queries.origins import PlacedPattern, QueryOrigin, origin_of
from episode.queries.planning import plan_pair
from episode.queries.substitution import mentioned_names
from episode.see.inspecting import Inspected, LocalRows, filter_pairs, patterns_at
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
from episode.see.reports.tables import TimeFormat, key_text
from episode.words import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.see.pictures.look import Look
    from episode.spark.inspection import KeyCount, Match, MatchTable, Totals

START, END, ROWS = "__extent_start", "__extent_end", "__extent_rows"
_KEY = "__extent_key_"


@dataclass(frozen=True)
class Extents:
    """A row for each match. keys: the columns of the input that partition it, and how they are called here. start, end,
    rows: names of columns; None where matches have none."""

    frame: DataFrame
    keys: dict[str, str]
    start: str | None
    end: str | None
    rows: str | None


@dataclass(frozen=True)
class NoExtents:
    """Reason why extents are missing."""

    reason: str


def extents_of(origin: QueryOrigin, placed: PlacedPattern) -> Extents | NoExtents:
    """The matches of one pattern of a query, lazily."""
    from episode.spark.query import plan_query

    if len(placed.events) == 2:
        return _of_pairs(origin, placed)
    plan: Any = placed.planned.pattern
    reason = placed.language.no_extent(plan)
    if reason is not None:
        return NoExtents(reason)
    measured = _with_extents(placed, plan)
    frame = plan_query(origin.spark, placed.events[0].frame, measured, placed.run).frame()
    columns = frame.columns
    keys = {name: name if name in columns else f"{_KEY}{number}" for number, name in enumerate(plan.keys)}
    start, end, rows = (name if name in columns else None for name in (START, END, ROWS))
    return Extents(frame, keys, start, end, rows)


def _of_pairs(origin: QueryOrigin, placed: PlacedPattern) -> Extents:
    """Pairs of matches: the keys are those of the live match, as far as its output has them."""
    correlated: Any = placed.planned.pattern
    live: PatternPlan = correlated.live
    before = [name for name in live.result.before if name in live.keys]
    before += [name for column, name in live.output.leading if column in live.keys]
    later = [one for one in correlated.conditions if isinstance(one, str)]
    mentioned = mentioned_names([token for text in later for token in tokenize(text)])
    names = (*(name.lower() for name in before), MATCH_START, MATCH_END)
    wanted = None if mentioned is None else mentioned | frozenset(names)
    pairs = plan_pair(origin.spark, placed.query, placed.events[0], placed.events[1], placed.run, wanted).frame()
    frame = filter_pairs(pairs, placed.query, later, pairs.columns, placed.run.arguments) if later else pairs
    return Extents(frame, {name: f"{LIVE_PREFIX}{name}" for name in before}, MATCH_START, MATCH_END, None)


def _with_extents(placed: PlacedPattern, plan: PatternPlan) -> PatternPlan:
    """Replace the measures of a pattern by its extents, and the conditions that Spark tests on matches."""
    plan, extent = placed.language.with_extent(plan)
    rows: dict[str, str] = {}
    if extent.count is not None:
        plan, rows = with_atoms(plan, {ROWS: extent.count})
    handed = tuple(name for name in plan.keys if quote(name) in extent.key.values())  # also of matches without rows
    values = {START: extent.start, END: extent.end, **rows}
    if not handed:
        values |= {f"{_KEY}{number}": sql for number, sql in enumerate(extent.key.values())}
    measures = [PlannedMeasure(name, sql, name, NOWHERE) for name, sql in values.items() if sql is not None]
    measures += [measure for measure in plan.measures.measures if measure.name.startswith(KEEP)]
    atoms = {
        atom: name for atom, name in plan.measures.atoms.items() if any(quote(name) in one.sql for one in measures)
    }
    found = MeasurePlan(measures, atoms)
    output = Output(plan.labels, found, handed, len(handed), timed_out=plan.output.timed_out)
    return replace(plan, output=output)


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


def telling_matches(
    table: MatchTable, totals: Totals, top: list[KeyCount], rarest: KeyCount | None, most: int
) -> list[tuple[str, Match]]:
    """Return matches that differ from one another, up to so many, each with what is special about it."""
    examples = totals.examples
    found = [(_SPECIAL["longest"], examples["longest"])]
    typical = table.nearest(totals.lengths[1])
    if typical is not None:
        found.append(("A typical match: its length is the median", typical))
    found += [(_SPECIAL[name], examples[name]) for name in ("shortest", "most rows") if name in examples]
    if rarest is not None and rarest.longest is not None and top and rarest.matches < top[0].matches:
        few = count_of(rarest.matches, "match")
        found.append((f"A match of the rarest key: it has {few}", rarest.longest))
    if top and top[0].longest is not None:
        many = count_of(top[0].matches, "match")
        found.append((f"The longest match of the busiest key, which has {many}", top[0].longest))
    found += [(_SPECIAL[name], examples[name]) for name in ("first of all", "last of all")]
    found += [
        (f"The longest of {count_of(one.matches, 'match')} of {key_text(one.key)}", one.longest)
        for one in top[1:]
        if one.longest is not None
    ]
    different: dict[tuple[object, ...], tuple[str, Match]] = {}
    for why, match in found:
        different.setdefault((match.key, match.start, match.end), (why, match))
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

    def pictures(self, chosen: list[tuple[str, Match]]) -> tuple[tuple[ReportPicture, ...], str]:
        """Return a picture of each match; or the reason for not drawing any."""
        from episode.see.pictures.plotting import check_installed

        try:
            check_installed()
        except EpisodeError:
            return (), NOT_INSTALLED
        with ThreadPoolExecutor(AT_ONCE) as threads:  # Spark's answers to small questions are mostly waited for
            looks = threads.map(self._look, *zip(*chosen, strict=True))
            return tuple(self._picture(*one, seen) for one, seen in zip(chosen, looks, strict=True)), ""

    def _picture(self, why: str, match: Match, seen: Look | EpisodeError) -> ReportPicture:
        from episode.see.pictures.plotting import chart_of

        caption = self._caption(match)
        if isinstance(seen, EpisodeError):
            return ReportPicture(why, caption, None, f"It could not be drawn: {seen.message}")
        if len(seen.title) > LONGEST_TITLE:  # a title that is wider than the picture would make the picture smaller
            seen = replace(seen, title=f"{seen.title[: LONGEST_TITLE - 1]}…")
        return ReportPicture(why, caption, chart_of(seen, WIDTH).to_svg())

    def _look(self, why: str, match: Match) -> Look | EpisodeError:
        """Return the look of a match, or why it cannot be drawn."""
        from episode.see.pictures.plotting import look

        length = match.end - match.start
        around = max(0.75 * length, min(self.least, length)) if length else self.least
        first, last = match.start - around, match.end + around
        between = (self.clock.at(first), self.clock.at(last)) if self.clock.clock else (first, last)
        key = dict(zip(self.keys, match.key, strict=True)) if self.keys else None
        choose = "shortest" if why == _SPECIAL["shortest"] else "longest"
        try:
            return look(self.result, pattern=self.pattern, of=key, between=between, choose=choose, width=WIDTH)
        except EpisodeError as error:
            return error

    def _caption(self, match: Match) -> str:
        """Return the key and the time of a match in words."""
        rows = "" if match.rows is None else f", {count_of(match.rows, 'row')}"
        key = f"{', '.join(self.keys)} {key_text(match.key)}, " if self.keys else ""
        return f"{key}from {self.clock.moment(match.start)} on, {self.clock.length(match.end - match.start)}{rows}"


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
    def __call__(self, step: str, of: str = "") -> Iterator[None]:
        self.what(f"{step}{of}")
        began = perf_counter()
        yield
        self.steps.append((f"{step}{of}", perf_counter() - began))


def gather(
    result: DataFrame, title: str | None, plots: int, rows: int, begins: Callable[[str], None] = lambda step: None
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
            _pattern(result, origin, number, plots, zone, partial(steps, of=f" of pattern {number}" if several else ""))
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


def _title(origin: QueryOrigin) -> str:
    tables = dict.fromkeys(name for placed in origin.patterns for events in placed.events for name in events.names)
    where = f" in {' and '.join(tables)}" if tables else ""
    count = len(origin.patterns)
    return f"Matches of {origin.patterns[0].language.one if count == 1 else f'{count} patterns'}{where}"


def _pattern(
    result: DataFrame, origin: QueryOrigin, number: int, plots: int, zone: str, step: Callable[[str], Any]
) -> PatternPart:
    from episode.see.pictures.plans.formats import fragment

    placed = origin.patterns[number - 1]
    sides = patterns_at(placed)
    with step("the rows that are searched"):
        inputs = _inputs(placed, sides)
    with step("the plan"):
        explained = explain_pattern(placed, analyze=False)
        plan = fragment([explained.section], "\n".join(explained.lines))
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
        rows = inputs[0].rows if inputs[0].keys is None else inputs[0].keys[1]
        spacing = ((found.last or 0.0) - (found.first or 0.0)) / max(1, rows)  # from a row of a key to the next, about
        with step("the pictures"):
            drawing = MatchDrawing(result, number, tuple(extents.keys), found.clock, spacing * AROUND)
            pictures, no_pictures = drawing.pictures(chosen)
    return PatternPart(placed.language.name, text, labels, found, "", inputs, plan, pictures, no_pictures)


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

    assert not isinstance(side.source, LocalRows)  # a report is made by Spark
    frame = side.source.frame
    derived = {name for reader in readers for _, name in reader.plan.derived}
    read = dict.fromkeys(name for reader in readers for name in reader.plan.input_columns)
    columns = [name for name in read if name not in derived and name in frame.columns]
    rows, keys, ranges = input_numbers(frame, side.keys, columns)
    roles = {**dict.fromkeys(side.keys, "key"), **({side.time: "time"} if side.time else {})}
    shown = tuple(
        ColumnRow(name, roles.get(name, "value"), type_, nulls, least, greatest)
        for name, type_, nulls, least, greatest in ranges
    )
    return InputPart(title, rows, keys, shown)


def _matches(extents: Extents, zone: str, plots: int) -> tuple[MatchPart, list[tuple[str, Match]]]:
    """Return the matches in numbers, and those that are worth a picture."""
    from episode.spark.inspection import cache_frame, is_clock, match_table

    table = match_table(extents.frame, list(extents.keys.values()), extents.start, extents.end, extents.rows)
    type_ = "bigint" if extents.start is None else extents.frame.schema[extents.start].dataType.simpleString()
    clock = TimeFormat(is_clock(type_), zone if type_ == "timestamp" else "UTC")
    with cache_frame(table.frame):
        totals = table.totals()
        keys, top, rarest = table.by_key(TOP_KEYS)
        over_time, by_length = _histograms(table, totals, clock)
        chosen = telling_matches(table, totals, top, rarest, plots) if plots and totals.placed else []
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
    by_length = length_bin(lengths.origin, lengths.width, lengths.logarithmic)
    counts = table.counts({"time": time_bin(times.origin, times.width), "length": by_length})
    return Histogram(times, counts["time"]), Histogram(lengths, counts["length"])
