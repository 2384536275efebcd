"""What a report says, gathered from the DataFrame of a query: a few passes on Spark, single matches in this process.

The query runs twice: once for its result, and once with the extents of its matches in place of its columns. Both are
kept by Spark while they are counted; neither is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from time import perf_counter
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeUnsupportedError
from episode.queries.explaining import explained
from episode.queries.extents import Extents, NoExtents, extents_of
from episode.queries.inspecting import Inspected, inspected
from episode.queries.origins import Origin, PlacedPattern, origin_of
from episode.reports.bins import length_bins, time_bins
from episode.reports.data import (
    ColumnRow,
    Histogram,
    InputPart,
    KeyRow,
    MatchPart,
    PatternPart,
    Picture,
    Report,
    ResultPart,
)
from episode.reports.telling import Drawing, TellingMatch, telling
from episode.reports.wording import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.spark.statistics import MatchTable, Totals

TOP_KEYS = 15
AROUND = 12
"""At least about so many rows are shown before and after a match."""


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
    """All that the report of a query says. begins: called with the name of each step."""
    from importlib.metadata import version

    from episode.spark.statistics import first_rows, kept, session_line, session_zone

    origin = origin_of(result)
    check_table(result, origin)
    steps = _Clockwork(begins)
    with kept(result):
        with steps("the query and its result"):
            count, first = first_rows(result, rows)
        zone = session_zone(origin.spark)
        several = len(origin.patterns) > 1
        parts = [
            _pattern(result, origin, number, plots, zone, _named(steps, number if several else None))
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


def check_table(result: DataFrame, origin: Origin) -> None:
    """A report is about a query that ends."""
    if result.isStreaming or any(events.frame.isStreaming for one in origin.patterns for events in one.events):
        raise EpisodeUnsupportedError(
            "This query is over a stream, which does not end: a report needs all of its matches.",
            hint="Run the query over a table of the events so far, or over the archive of a declared stream.",
        )


def _named(steps: _Clockwork, number: int | None) -> Callable[[str], Any]:
    return lambda step: steps(step if number is None else f"{step} of pattern {number}")


def _title(origin: Origin) -> str:
    tables = dict.fromkeys(name for placed in origin.patterns for events in placed.events for name in events.names)
    where = f" in {' and '.join(tables)}" if tables else ""
    count = len(origin.patterns)
    return f"Matches of {origin.patterns[0].language.one if count == 1 else f'{count} patterns'}{where}"


def _pattern(
    result: DataFrame, origin: Origin, number: int, plots: int, zone: str, step: Callable[[str], Any]
) -> PatternPart:
    placed = origin.patterns[number - 1]
    sides = inspected(placed)
    with step("the rows that are searched"):
        inputs = _inputs(placed, sides)
    with step("the plan"):
        plan = _plan(placed)
    extents = extents_of(origin, placed)
    labels = tuple(dict.fromkeys(name for side in sides for name in side.bound.plan.labels.names))
    text = placed.source.written(placed.source.span)
    if isinstance(extents, NoExtents):
        return PatternPart(placed.language.name, text, labels, None, extents.reason, inputs, plan)
    with step("the times and keys of its matches"):
        found, chosen = _found(extents, zone, plots)
    pictures: tuple[Picture, ...] = ()
    no_pictures = ""
    if plots and chosen:
        with step("the pictures"):
            drawing = Drawing(result, number, tuple(extents.keys), found.clock, _spacing(found, inputs[0]) * AROUND)
            pictures, no_pictures = drawing.pictures(chosen)
    return PatternPart(placed.language.name, text, labels, found, "", inputs, plan, pictures, no_pictures)


def _spacing(found: MatchPart, rows: InputPart) -> float:
    """About how much time there is from a row of a key to the next."""
    most = rows.rows if rows.keys is None else rows.keys[1]
    return ((found.last or 0.0) - (found.first or 0.0)) / max(1, most)


def _plan(placed: PlacedPattern) -> str:
    from episode.pictures.plans.html import fragment
    from episode.pictures.plans.sections import section_of

    one = explained(placed, analyze=False)
    return fragment([section_of(one)], "\n".join(one.lines))


def _inputs(placed: PlacedPattern, sides: tuple[Inspected, ...]) -> tuple[InputPart, ...]:
    """The rows of the pattern; of a correlation those of both, once where they are the same."""
    pattern: Any = placed.planned.pattern
    if len(sides) == 1 or pattern.shared:
        return (_input(sides[0], "", sides),)
    titles = ("The rows of the live pattern", "The rows of the archive pattern")
    return tuple(_input(side, title, (side,)) for side, title in zip(sides, titles, strict=True))


def _input(side: Inspected, title: str, readers: tuple[Inspected, ...]) -> InputPart:
    """readers: all whose columns are looked at."""
    from episode.spark.statistics import input_numbers

    frame = side.events.frame
    derived = {name for reader in readers for _, name in reader.bound.derived}
    read = dict.fromkeys(name for reader in readers for name in reader.bound.input_columns)
    columns = [name for name in read if name not in derived and name in frame.columns]
    numbers = input_numbers(frame, side.keys, columns)
    roles = {**dict.fromkeys(side.keys, "key"), **({side.time: "time"} if side.time else {})}
    rows = tuple(
        ColumnRow(one.name, roles.get(one.name, "value"), one.type, one.nulls, one.least, one.greatest)
        for one in numbers.columns
    )
    return InputPart(title, numbers.rows, numbers.keys, rows)


def _found(extents: Extents, zone: str, plots: int) -> tuple[MatchPart, list[TellingMatch]]:
    """The matches in numbers, and those that are worth a picture."""
    from episode.spark.statistics import is_clock, kept, match_table

    table = match_table(extents.frame, list(extents.keys.values()), extents.start, extents.end, extents.rows)
    type_ = "bigint" if extents.start is None else extents.frame.schema[extents.start].dataType.simpleString()
    clock = Clock(is_clock(type_), zone if type_ == "timestamp" else "UTC")
    with kept(table.frame):
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


def _histograms(table: MatchTable, totals: Totals, clock: Clock) -> tuple[Histogram | None, Histogram | None]:
    from episode.spark.statistics import length_bin, time_bin

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
