"""Correlation by recency: two patterns, of any languages, whose matches are joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.lang.correlation.syntax import Correlation, Equality, Recency
from episode.lang.statement import Statement
from episode.lang.syntax import Duration, Source
from episode.matchers.bound import BoundPattern
from episode.plan.correlation.conditions import PairColumns, PairTest, named, pair_tests
from episode.plan.correlation.explain import explain_correlation
from episode.plan.correlation.inputs import JointInput, joint_input
from episode.plan.correlation.plan import CorrelationPlan, Strategy
from episode.plan.correlation.report import explain_reports
from episode.plan.event_time import UNBOUNDED, Delays, EventTime, in_units_of_time, plain_values, widest
from episode.plan.output import MATCH_END, MATCH_START, ColumnAtPlace
from episode.plan.parameters import bound_duration
from episode.plan.pattern import PatternPlan, RunOptions
from episode.plan.schema import quote
from episode.plan.situations.plan import EARLIEST
from episode.queries.language import ARCHIVE, LIVE, Given, Input, Language

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.correlation.archive import History
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan
    from episode.matchers.protocol import StateLimit

AUTO = "auto"


class Correlations(Language[Correlation]):
    name = "pattern correlation"
    called = "the correlation"
    options = frozenset({"correlation", "result_cache", "recent_buffer"})

    def source(self, query: Correlation) -> Source:
        return query.source

    def bind(self, query: Correlation, events: Input, given: Given, run: RunOptions) -> CorrelatedPatterns:  # type: ignore[override]
        """Both patterns over one input."""
        return self.correlate(query, (events, events), (given, given), run, one_table=True)

    def correlate(
        self,
        query: Correlation,
        events: tuple[Input, Input],
        given: tuple[Given, Given],
        run: RunOptions,
        one_table: bool,
    ) -> CorrelatedPatterns:
        """The live and the archive pattern over their inputs. one_table: which are the same rows."""
        from episode.queries.languages import language_of

        sides = []
        for role, pattern, own, said in zip((LIVE, ARCHIVE), (query.live, query.archive), events, given, strict=True):
            language = language_of(pattern)
            language.check_correlated(pattern, role)
            eager = run.eager if said.detect is None else said.detect == EARLIEST
            bound = language.bind(pattern, own, said, replace(run, correlated=True, eager=eager))
            sides.append(_Side(bound, bound.plan, *_time_columns(bound.plan, language.times)))
        live, archive = sides
        duration = bound_duration(query.duration, run.arguments, query.source)
        equal = _equal_keys(query, live, archive)
        inputs = joint_input(live.plan, archive.plan, tuple(equal.values()), one_table, query.source, duration.span)
        time = live.plan.order[0].column
        recency = in_units_of_time(
            duration,
            query.source,
            time,
            live.plan.types[time],
            what="RECENCY",
            plain="Write for example RECENCY = 200, in the unit of that column.",
            with_unit=f"Write for example RECENCY = {duration.amount} seconds.",
        )
        strategy = None if run.correlation == AUTO else Strategy(run.correlation)
        plan = CorrelationPlan(strategy, run.result_cache, run.recent_buffer, query.ordered)
        conditions = tuple(pair_tests(query, (live.pair_columns, archive.pair_columns), equal))
        return CorrelatedPatterns(live, archive, inputs, recency, duration, query.source, plan, conditions)


@dataclass(frozen=True)
class _Side:
    """One of the patterns. start, end: measures that hold the times of a match, and the matcher's columns of them."""

    bound: BoundPattern
    plan: PatternPlan
    start: tuple[str, str]
    end: tuple[str, str]

    @property
    def names(self) -> list[str]:
        """The columns of its output."""
        return [one.name for one in self.bound.result.outputs]

    @property
    def partition_columns(self) -> dict[str, str]:
        """Columns of its output that have the value of a partition column, by name in lower case."""
        found = {name.lower(): name for name in self.bound.result.before if name in self.plan.keys}
        found |= {name.lower(): column for column, name in self.plan.output.leading if column in self.plan.keys}
        for name, atom in plain_values(self.plan.measures):
            if isinstance(atom, ColumnAtPlace) and atom.column in self.plan.keys:
                found[name.lower()] = atom.column
        return found

    @property
    def pair_columns(self) -> PairColumns:
        atoms = self.plan.measures.atoms
        values = {
            name.lower(): (atoms[atom], self.plan.types[atom.column])
            for name, atom in plain_values(self.plan.measures)
            if isinstance(atom, ColumnAtPlace)
        }
        return PairColumns(tuple(self.names), values)

    def delay(self, which: tuple[str, str]) -> int | None:
        return self.bound.delays().get(which[0], UNBOUNDED)


def _time_columns(plan: PatternPlan, names: tuple[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    """The measures with the start and the end of a match, with the matcher's columns that they are."""
    columns = {name: plan.measures.atoms[atom] for name, atom in plain_values(plan.measures)}
    start, end = names
    return (start, columns[start]), (end, columns[end])


def _equal_keys(query: Correlation, live: _Side, archive: _Side) -> dict[Equality, tuple[str, str]]:
    """Conjuncts that make partition columns equal, and these, of the live and the archive pattern."""
    found: dict[Equality, tuple[str, str]] = {}
    for equality in query.equalities:
        one, other = (_resolve(query, path, (live, archive)) for path in (equality.left, equality.right))
        if one is not None and other is not None and one[0] != other[0]:
            pair = sorted((one, other))
            found[equality] = pair[0][1], pair[1][1]
    return found


def _resolve(query: Correlation, path: tuple[str, ...], sides: tuple[_Side, _Side]) -> tuple[int, str] | None:
    """The side and the partition column of it that a name in the condition means, if it means one for sure."""
    meant = []
    for number, side in enumerate(sides):
        name = named(path, query, number, side.names)
        if name is not None:
            meant.append((number, side.partition_columns.get(name)))
    if len(meant) != 1 or meant[0][1] is None:
        return None
    return meant[0][0], meant[0][1]


@dataclass(frozen=True)
class CorrelatedPatterns:
    """Two patterns bound to their inputs, and their correlation. conditions: over pairs: those that the join
    tests, and those, as written, that are tested after it."""

    live_side: _Side
    archive_side: _Side
    inputs: JointInput
    recency: int
    duration: Duration
    source: Source
    plan: CorrelationPlan
    conditions: tuple[PairTest | str, ...] = ()
    history: History | None = None
    closed: bool = False

    def check_buffer(self) -> CorrelatedPatterns:
        """What a recent buffer does not hold must be there to be read again."""
        if self.plan.recent_buffer is not None and (self.history is None or self.closed):
            raise EpisodeAnalysisError(
                f"Options(recent_buffer={self.plan.recent_buffer}): older rows are read from the archive, and here is "
                "none to read from.",
                hint="It is for a declared stream with its archive. Leave it out: what recency needs is kept.",
            )
        return self

    def with_history(self, opened: Callable[[str, tuple[str, ...]], History], closed: bool) -> CorrelatedPatterns:
        """With events of the archive pattern that are read as they are needed. opened: by its own columns of time and
        keys. closed: these are all of them."""
        from episode.matchers.correlation.archive import MappedHistory

        own = self.archive_columns
        history = opened(own[self.inputs.time], tuple(own[key] for key in self.inputs.keys))
        return replace(self, history=MappedHistory(history, tuple(own.items())), closed=closed)

    @property
    def archive_columns(self) -> dict[str, str]:
        """The columns of the archive's table after those of the input; not those that are computed."""
        quoted = {quote(name): name for name, _ in self.inputs.archive.columns}
        return {outer: quoted[sql] for sql, outer in self.inputs.archive.selections if sql in quoted}

    @property
    def live(self) -> BoundPattern:
        return self.live_side.bound

    @property
    def archive(self) -> BoundPattern:
        return self.archive_side.bound

    @property
    def shared(self) -> bool:
        return self.inputs.shared

    @property
    def selections(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        return self.inputs.live.selections, self.inputs.archive.selections

    @property
    def input_columns(self) -> tuple[str, ...]:
        from episode.matchers.correlation.spec import SIDE_COLUMN

        return (*self.inputs.columns, *(() if self.inputs.shared else (SIDE_COLUMN,)))

    @property
    def derived(self) -> tuple[tuple[str, str], ...]:
        if not self.inputs.shared:
            return ()
        return tuple((sql, name) for sql, name in self.inputs.selections if sql != quote(name))

    def spec(self, schema: pa.Schema, limit: StateLimit | None = None) -> CorrelationSpec:
        from episode.matchers.correlation.spec import SIDE_COLUMN, CorrelationSpec
        from episode.matchers.protocol import OrderKey

        order = tuple(OrderKey(one.column, one.ascending, one.nulls_first) for one in self.inputs.order)
        return CorrelationSpec(
            live=self._side(self.live_side, self.inputs.live.columns, schema, limit),
            archive=self._side(self.archive_side, self.inputs.archive.columns, schema, limit),
            recency=self.recency,
            keys=self.inputs.keys,
            order=order,
            input_schema=schema,
            plan=self.plan,
            side=None if self.inputs.shared else SIDE_COLUMN,
            history=self.history,
            closed=self.closed,
            tests=tuple(one for one in self.conditions if isinstance(one, PairTest)),
        )

    def _side(
        self, side: _Side, columns: tuple[tuple[str, str], ...], schema: pa.Schema, limit: StateLimit | None
    ) -> SidePlan:
        import pyarrow as pa

        from episode.matchers.correlation.spec import SidePlan

        own = pa.schema([schema.field(outer).with_name(name) for name, outer in columns])
        return SidePlan(side.bound.spec(own, limit), columns, side.start[1], side.end[1])

    def event_time(self, limited: bool) -> EventTime:
        for side in (self.live_side, self.archive_side):
            side.bound.event_time(limited)
        time = self.live_side.plan.order[0].column
        return EventTime(self.inputs.time, self.live_side.plan.types[time])

    def delays(self) -> Delays:
        """A pair is reported when both matches are certain, and the archive's ends before the live one. In order, it
        also waits for all matches that come before it."""
        live, archive = self.live_side, self.archive_side
        ends = [live.delay(live.end), archive.delay(archive.end)]
        waited = widest([*ends, archive.delay(archive.start)] if self.plan.ordered else ends)
        if waited is UNBOUNDED:
            return {MATCH_START: UNBOUNDED, MATCH_END: UNBOUNDED}
        late = waited + (self.recency if self.plan.ordered else 0)
        return {MATCH_START: late + self.recency, MATCH_END: late}

    def explain(self) -> list[str]:
        written = self.source.written(self.duration.span) or str(self.recency)
        inside = [one.text for one in self.conditions if isinstance(one, PairTest)]
        after = [one for one in self.conditions if isinstance(one, str)]
        own = explain_correlation(self.plan, self.inputs, written, inside, after)
        for role, bound in ((LIVE, self.live), (ARCHIVE, self.archive)):
            own += [f"  {role} pattern:", *(f"    {line}" for line in bound.explain())]
        return own

    def explain_reports(self, reports: list[str]) -> list[str]:
        return explain_reports(reports)


def correlation_of(statement: Statement, recency: Recency) -> tuple[Correlation, bool]:
    """Two patterns of a statement, and whether the live one stands first: row patterns say which they are by their
    match mode; where none does, it does."""
    from episode.queries.languages import language_of

    queries = [statement.pattern_at(table.span).query for table in recency.tables]
    first, second = (language_of(query).role(query) for query in queries)
    live_first = first in (second, LIVE) or second == ARCHIVE
    order = (0, 1) if live_first else (1, 0)
    tables = [recency.tables[at] for at in order]
    correlation = Correlation(
        live=queries[order[0]],
        archive=queries[order[1]],
        duration=recency.duration,
        ordered=recency.ordered,
        equalities=recency.equalities,
        comparisons=recency.comparisons,
        source=recency.source,
        names=(tables[0].alias, tables[1].alias),
        columns=(tables[0].columns, tables[1].columns),
    )
    return correlation, live_first
