"""Recency correlation without Spark: cases of the generator run by the Matcher, pairs in the form of the oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import classes_of
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.matchers.correlation.spec import CorrelationSpec, SidePlan
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import END_OF_TIME, MatcherSpec, OrderKey
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import LocalRun
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.correlation.pairs import SIDE_COLUMN
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX, CorrelationPlan
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.rows.plan import RowPatternPlan, plan_row_pattern
from episode.plan.rows.stream import with_match_times
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import COMPLETE, plan_situation_pattern
from tests.reference.correlation import Found, Pair, correlated
from tests.reference.generate_correlation import ARCHIVE, BOTH, LIVE, Case, EventSide, Row, RowSide, Side
from tests.reference.scalars import grouping
from tests.support import events, rows, situations

Comparable = tuple[int, int, tuple, tuple]
"""Start, end, values of the live match, values of the archive match."""

COMMON = {"k": "bigint", "ts": "bigint", "pos": "bigint"}
OWN = {
    "rows": {"v": "int", "f": "double", "s": "string"},
    "events": {"type": "string", "x": "bigint", "y": "bigint", "s": "string"},
    "situations": {"a": "boolean", "b": "boolean", "c": "boolean", "d": "boolean", "x": "double", "n": "bigint",
                   "s": "string"},
}  # fmt: skip
ARROW = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "double": pa.float64(), "boolean": pa.bool_()}


# ---- specs ----------------------------------------------------------------------------------------


def inner_spec(side: Side, **options: Any) -> Any:
    """The spec of one pattern. options: of its own language."""
    types = COMMON | OWN[side.language]
    schema = pa.schema([(name, ARROW[type_]) for name, type_ in types.items()])
    if isinstance(side, RowSide):
        return RowPatternSpec(_row_plan(side.text), schema, **options)
    if isinstance(side, EventSide):
        query = events.returning_positions(parse_event_query(side.text))
        variables = {one.variable: one for one in classes_of(query.pattern)}
        classes = EventClasses(query, InputSchema(types), "type" if side.typed else None, {}, variables)
        plan = plan_event_pattern(query, classes, EventTimes("ts", None, "bigint"), side.keys, side.strategy, "auto")
        return EventPatternSpec(plan, schema, **options)
    parsed = parse_situation_query(side.text)
    early = side.pattern.detect != COMPLETE
    return SituationPatternSpec(
        plan_situation_pattern(parsed, InputSchema(types), "ts", side.keys, early), schema, **options
    )


@lru_cache(maxsize=16)
def _row_plan(text: str) -> RowPatternPlan:
    """Planned once for the runs of a case."""
    types = COMMON | OWN["rows"]
    return plan_row_pattern(with_match_times(parse_clause(text), types), InputSchema(types))


def column_of(spec: Any, measure: str) -> str:
    """The output column of a matcher that a measure is nothing but."""
    (sql,) = (one.sql for one in spec.plan.measures.measures if one.name == measure)
    (name,) = re.findall(r"`([^`]+)`", sql)
    return name


def side_plan(case: Case, of: int, **options: Any) -> SidePlan:
    side = case.live if of == LIVE else case.archive
    spec = inner_spec(side, **options)
    columns = tuple((name, case.column(of, name)) for name in spec.input_columns)
    end = "detected_at" if isinstance(spec, SituationPatternSpec) else "match_end"
    return SidePlan(spec, columns, column_of(spec, "match_start"), column_of(spec, end))


def outer_schema(case: Case) -> pa.Schema:
    fields = {name: ARROW[type_] for name, type_ in COMMON.items()}
    for of, side in ((LIVE, case.live), (ARCHIVE, case.archive)):
        fields |= {case.column(of, name): ARROW[type_] for name, type_ in OWN[side.language].items()}
    return pa.schema([*fields.items(), *([(SIDE_COLUMN, pa.int8())] if case.apart else [])])


def spec_of(case: Case, plan: CorrelationPlan | None = None, **further: Any) -> CorrelationSpec:
    """further: fields of the spec."""
    return CorrelationSpec(
        live=side_plan(case, LIVE),
        archive=side_plan(case, ARCHIVE),
        recency=case.recency,
        keys=case.on,
        order=(OrderKey("ts"),),
        input_schema=outer_schema(case),
        plan=plan or CorrelationPlan(),
        side=SIDE_COLUMN if case.apart else None,
        **further,
    )


def table_of(case: Case, some: Sequence[Row]) -> pa.Table:
    """Rows of the case as a table in order of arrival."""
    named = [{SIDE_COLUMN if name == "side" else name: value for name, value in row.items()} for row in some]
    return pa.Table.from_pylist(named, schema=outer_schema(case))


@dataclass(frozen=True)
class TableHistory:
    """A whole table as history, in order of (time, arrival): also of what is still to be fed, as in a store."""

    table: pa.Table

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        time = self.table.column("ts")
        found = self.table.filter(pc.and_(pc.greater_equal(time, lo), pc.less_equal(time, hi)))
        if keys is not None:
            wanted = {tuple(row.values()) for row in keys.to_pylist()}
            names = keys.column_names
            kept = [tuple(row[name] for name in names) in wanted for row in found.select(names).to_pylist()]
            found = found.filter(pa.array(kept, pa.bool_()))
        return found.select(list(columns))

    def earliest(self) -> int | None:
        return pc.min(self.table.column("ts")).as_py()

    def latest(self) -> int | None:
        return pc.max(self.table.column("ts")).as_py()


# ---- runs -----------------------------------------------------------------------------------------


def until_of(pieces: Sequence[Sequence[Row]]) -> list[int]:
    """Up to where the input is complete with each piece: a piece may end inside an instant."""
    ends = []
    for number in range(1, len(pieces)):
        following = [row["ts"] for later in pieces[number:] for row in later]
        ends.append(min(following, default=END_OF_TIME) - 1)
    return [*ends, END_OF_TIME][: len(pieces)]


def run_whole(spec: CorrelationSpec, case: Case) -> list[Comparable]:
    return [pair for pairs in run_in_pieces([spec], case, [case.rows], restore=False) for pair in pairs]


def run_in_pieces(
    specs: Sequence[CorrelationSpec], case: Case, pieces: Sequence[Sequence[Row]], restore: bool
) -> list[list[Comparable]]:
    """The pairs of each piece, and those of the end of input. specs: in turn; another one goes on from the state."""
    running = LocalRun(specs[0])
    found = []
    for number, (piece, until) in enumerate(zip(pieces, until_of(pieces), strict=True)):
        spec = specs[number % len(specs)]
        if number and (restore or spec is not running.spec):
            running.spec = spec
            running.move()
        found.append(comparable(spec, running.feed(table_of(case, piece), until)))
    return [*found, comparable(running.spec, running.finish())]


def comparable(spec: CorrelationSpec, output: pa.Table) -> list[Comparable]:
    """The pairs of an output in its order."""
    assert output.schema.equals(spec.output_schema)
    live = _values(spec.live, output, LIVE_PREFIX)
    archive = _values(spec.archive, output, ARCHIVE_PREFIX)
    starts, ends = output.column("match_start").to_pylist(), output.column("match_end").to_pylist()
    return list(zip(starts, ends, live, archive, strict=True))


def _values(plan: SidePlan, output: pa.Table, prefix: str) -> list[tuple]:
    names = [name for name in output.column_names if name.startswith(prefix)]
    inner = output.select(names).rename_columns([name.removeprefix(prefix) for name in names])
    return [match.values for match in found_in(plan, inner)]


def found_in(plan: SidePlan, inner: pa.Table) -> list[Found]:
    """Matches of one pattern, from the output of its matcher; their keys are not in it."""
    spec: MatcherSpec = plan.spec
    starts, ends = inner.column(plan.start).to_pylist(), inner.column(plan.end).to_pylist()
    if isinstance(spec, RowPatternSpec):
        printed = rows.finished(spec, inner)
        values = [_plain(tuple(item for item in row.items() if item[0] not in TIMES)) for row in printed]
    elif isinstance(spec, EventPatternSpec):
        bound = events.bound(spec, inner)
        values = [tuple(sorted((name.lower(), places) for name, places in row if places)) for row in bound]
    else:
        assert isinstance(spec, SituationPatternSpec)
        values = [_plain(row[:-2]) for row in situations.rows_of(spec, inner)]
    return [Found(start, end, {}, found) for start, end, found in zip(starts, ends, values, strict=True)]


TIMES = ("match_start", "match_end")


def expected(pairs: Sequence[Pair]) -> list[Comparable]:
    """The oracle's pairs in the same form."""
    return [(pair.start, pair.end, _plain(pair.live.values), _plain(pair.archive.values)) for pair in pairs]


def _plain(value: Any) -> Any:
    """Comparable, and floats without their last digits."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    return tuple(_plain(part) for part in value) if isinstance(value, list | tuple) else value


def certain_pairs(case: Case, pieces: Sequence[Sequence[Row]]) -> list[tuple[int, Comparable]]:
    """Pairs of the matches that the matchers of the two patterns report, with the number of the piece at which both are
    reported: the end of input comes after the last piece. Keys are run one by one."""
    found = []
    for key in {tuple(grouping(row[name]) for name in case.on) for row in case.rows}:
        mine = [[row for row in piece if tuple(grouping(row[name]) for name in case.on) == key] for piece in pieces]
        ends = until_of(pieces)
        live, archive = (reported(case, of, mine, ends) for of in (LIVE, ARCHIVE))
        for at, one in live:
            for then, other in archive:
                if correlated([one], [other], case.recency):
                    found += [(max(at, then), pair) for pair in expected([Pair(one, other)])]
    return found


def reported(case: Case, of: int, pieces: Sequence[Sequence[Row]], ends: Sequence[int]) -> list[tuple[int, Found]]:
    """The matches of one pattern, with the number of the piece at which its own matcher reports them."""
    plan = side_plan(case, of)
    running = LocalRun(plan.spec)
    schema = pa.schema([plan.spec.input_schema.field(inner) for inner, _ in plan.columns])
    outputs = []
    for piece, until in zip(pieces, ends, strict=True):
        own = [
            {inner: row[outer] for inner, outer in plan.columns} for row in piece if row.get("side", BOTH) in (of, BOTH)
        ]
        outputs.append(running.feed(pa.Table.from_pylist(own, schema=schema), until))
    outputs.append(running.finish())
    return [(number, one) for number, output in enumerate(outputs) for one in found_in(plan, output)]
