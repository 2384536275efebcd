"""Of every match of a pattern its key, its times and its number of rows, and nothing else: what reports count.

The pattern is planned again with these values in place of its measures, so that the times are there whatever the query
puts out: ALL ROWS PER MATCH, RETURN without times, measures that hide the key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from episode.lang.correlation.syntax import Correlation
from episode.lang.events.syntax import EventQuery
from episode.lang.lexer import tokenize
from episode.lang.rows.syntax import MatchRecognize
from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import NOWHERE
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.events.returns import KEEP
from episode.plan.output import (
    ATOM_PREFIX,
    MATCH_END,
    MATCH_START,
    ColumnAtPlace,
    MeasurePlan,
    Output,
    OutputAtom,
    Place,
    PlannedMeasure,
    RowAggregate,
    RowMode,
)
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote
from episode.plan.situations.returns import DETECTED_AT
from episode.queries.languages.aggregated import BoundAggregatedPattern
from episode.queries.origins import Origin, PlacedPattern
from episode.queries.pairs import PAIRS, escaped, lateral, mentioned_names, tables_text
from episode.queries.planning import plan_pair

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.matchers.bound import BoundPattern

START, END, ROWS = "__extent_start", "__extent_end", "__extent_rows"
_KEY = "__extent_key_"
_FIRST, _LAST = Place(None, True, 0, 0, True), Place(None, False, 0, 0, True)
_COUNT = RowAggregate("count", None, True, None, "bigint")


@dataclass(frozen=True)
class Extents:
    """A row for each match. keys: the columns of the input that partition it, and how they are called here. start, end,
    rows: names of columns; None where matches have none. time: the column of the input that orders the events."""

    frame: DataFrame
    keys: dict[str, str]
    start: str | None
    end: str | None
    rows: str | None
    time: str | None


@dataclass(frozen=True)
class NoExtents:
    """Why there are none."""

    reason: str


def extents_of(origin: Origin, placed: PlacedPattern) -> Extents | NoExtents:
    """The matches of one pattern of a query, lazily."""
    from episode.spark.query import plan_query

    if isinstance(placed.query, Correlation):
        return _of_pairs(origin, placed)
    bound: Any = placed.planned.pattern
    if isinstance(bound, BoundAggregatedPattern):
        return NoExtents("AGGREGATE counts matches without making any, so that there is none to place in time.")
    if not isinstance(placed.query, (MatchRecognize, EventQuery, SituationQuery)):
        return NoExtents("A row pattern in a window gives each row a value, and puts out no match of its own.")
    measured = _measured(placed.query, bound)
    frame = plan_query(origin.spark, placed.events[0].frame, measured, placed.run).frame()
    return _named(frame, bound.plan)


def _of_pairs(origin: Origin, placed: PlacedPattern) -> Extents:
    """Pairs of matches: the keys are those of the live match, as far as its output has them."""
    correlated: Any = placed.planned.pattern
    live: BoundPattern = correlated.live
    before = [name for name in live.result.before if name in live.plan.keys]
    before += [name for column, name in live.plan.output.leading if column in live.plan.keys]
    later = [one for one in correlated.conditions if isinstance(one, str)]
    mentioned = mentioned_names([token for text in later for token in tokenize(text)])
    names = (*(name.lower() for name in before), MATCH_START, MATCH_END)
    wanted = None if mentioned is None else mentioned | frozenset(names)
    pairs = plan_pair(origin.spark, placed.query, placed.events[0], placed.events[1], placed.run, wanted).frame()
    frame = _tested(origin, placed, pairs, later) if later else pairs
    time = live.plan.order[0].column
    return Extents(frame, {name: f"{LIVE_PREFIX}{name}" for name in before}, MATCH_START, MATCH_END, None, time)


def _tested(origin: Origin, placed: PlacedPattern, pairs: DataFrame, conditions: list[str]) -> DataFrame:
    """The pairs for which conditions beside RECENCY hold that are tested after the join."""
    from episode.spark.places import Copies
    from episode.spark.tables import run_sql

    namings = []
    for name, columns in zip(placed.query.names, placed.query.columns, strict=True):
        listed = f" ({', '.join(escaped(quote(one)) for one in columns)})" if columns else ""
        namings.append(f"AS {escaped(quote(name))}{listed}" if name else "")
    sides = [
        lateral(pairs.columns, prefix, naming)
        for prefix, naming in zip((LIVE_PREFIX, ARCHIVE_PREFIX), namings, strict=True)
    ]
    tables = tables_text("pairs", sides[0], sides[1], [escaped(one) for one in conditions])
    items = ", ".join(f"{PAIRS}.{escaped(quote(name))}" for name in pairs.columns)
    text = f"SELECT {items} FROM {tables}"
    return run_sql(origin.spark, text, {"pairs": pairs}, placed.run.arguments, Copies("", ()))


def _named(frame: DataFrame, plan: PatternPlan) -> Extents:
    columns = frame.columns
    keys = {name: name if name in columns else f"{_KEY}{number}" for number, name in enumerate(plan.keys)}
    start, end, rows = (name if name in columns else None for name in (START, END, ROWS))
    return Extents(frame, keys, start, end, rows, plan.order[0].column if plan.order else None)


def _measured(query: object, bound: Any) -> BoundPattern:
    """The pattern with other measures."""
    plan: PatternPlan = bound.plan
    if isinstance(query, MatchRecognize):
        output = _of_rows(plan)
    elif isinstance(query, EventQuery):
        output = _of_events(plan)
    else:
        output = _of_situations(plan)
    return replace(bound, plan=replace(plan, output=output))


def _of_rows(plan: PatternPlan) -> Output:
    """Of a row pattern: the times of the first and the last row, which are in order of time, or against it. Matches
    without rows have a key, too."""
    found = _Values()
    if plan.order:
        first, last = (ColumnAtPlace(plan.order[0].column, place) for place in (_FIRST, _LAST))
        ends = (first, last) if plan.order[0].ascending else (last, first)
        found.add(START, ends[0])
        found.add(END, ends[1])
    found.add(ROWS, _COUNT)
    kept = plan.output.timed_out
    return Output(plan.labels, found.plan, plan.keys, len(plan.keys), RowMode.ONE_ROW, kept)


def _of_events(plan: PatternPlan) -> Output:
    """Of an event pattern: its own times, and the conditions that Spark tests on matches."""
    kept = [measure for measure in plan.measures.measures if measure.name.startswith(KEEP)]
    found = _Values()
    found.take(plan.measures, kept, {MATCH_START: START, MATCH_END: END})
    for number, key in enumerate(plan.keys):
        found.add(f"{_KEY}{number}", ColumnAtPlace(key, _FIRST))
    if getattr(plan, "collapse", None) is None:
        found.add(ROWS, _COUNT)
    found.measures += kept
    return Output(plan.labels, found.plan)


def _of_situations(plan: PatternPlan) -> Output:
    """Of a situation pattern: from the first start to the moment when the match was certain."""
    found = _Values()
    found.take(plan.measures, [], {MATCH_START: START, DETECTED_AT: END})
    some = Place(frozenset((plan.labels.names[0],)), True, 0, 0, True)
    for number, key in enumerate(plan.keys):
        found.add(f"{_KEY}{number}", ColumnAtPlace(key, some))
    return Output(plan.labels, found.plan)


class _Values:
    """Measures, each one value of the matcher."""

    def __init__(self) -> None:
        self.measures: list[PlannedMeasure] = []
        self.atoms: dict[OutputAtom, str] = {}

    @property
    def plan(self) -> MeasurePlan:
        return MeasurePlan(self.measures, self.atoms)

    def take(self, plan: MeasurePlan, kept: list[PlannedMeasure], renamed: dict[str, str]) -> None:
        """Measures of another plan under new names, with the values that they and `kept` are made of."""
        taken = [replace(one, name=renamed[one.name]) for one in plan.measures if one.name in renamed]
        texts = [measure.sql for measure in (*taken, *kept)]
        self.atoms |= {atom: name for atom, name in plan.atoms.items() if any(quote(name) in text for text in texts)}
        self.measures += taken

    def add(self, name: str, atom: OutputAtom) -> None:
        if atom not in self.atoms:
            used = {int(one.removeprefix(ATOM_PREFIX)) for one in self.atoms.values()}
            self.atoms[atom] = f"{ATOM_PREFIX}{max(used, default=-1) + 1}"
        self.measures.append(PlannedMeasure(name, quote(self.atoms[atom]), name, NOWHERE))
