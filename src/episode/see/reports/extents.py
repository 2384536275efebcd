"""Key, times and number of rows of every match of a pattern, and nothing else: what reports count.

The pattern is planned again with these values in place of its measures, so that the times are there whatever the query
puts out: ALL ROWS PER MATCH, RETURN without times, measures that hide the key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from episode.lang.lexer import tokenize
from episode.lang.syntax import NOWHERE
from episode.plan.correlation.plan import LIVE_PREFIX
from episode.plan.events.returns import KEEP
from episode.plan.output import MATCH_END, MATCH_START, MeasurePlan, Output, PlannedMeasure, with_atoms
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote
from episode.queries.origins import PlacedPattern, QueryOrigin
from episode.queries.planning import plan_pair
from episode.queries.substitution import mentioned_names
from episode.see.inspecting import filter_pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START, END, ROWS = "__extent_start", "__extent_end", "__extent_rows"
_KEY = "__extent_key_"


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
    return Extents(frame, keys, start, end, rows, plan.order[0].column if plan.order else None)


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
    time = live.order[0].column
    return Extents(frame, {name: f"{LIVE_PREFIX}{name}" for name in before}, MATCH_START, MATCH_END, None, time)


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
