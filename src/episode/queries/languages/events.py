"""Event patterns: PATTERN … WHERE … WITHIN … RETURN …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    EventClass,
    EventPattern,
    EventQuery,
    Interval,
    Negation,
    Strategy,
    classes_of,
    event_atoms,
    nodes_of,
)
from episode.lang.lexer import words_of
from episode.lang.syntax import Scalar, Span
from episode.plan.event_time import time_column
from episode.plan.events.aggregated import BUCKET_END, BUCKET_START, AggregatedPlan, plan_aggregated
from episode.plan.events.classes import EventClasses, declared_time, one_stream_of
from episode.plan.events.explain import aggregated_section, event_section
from episode.plan.events.imprecise import check_aggregated, duration_of, imprecise_times
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import MATCH_END, MATCH_START, EventTimes
from episode.plan.options import DOUBLE, EXACT, RunOptions
from episode.plan.output import COUNT, FIRST, Extent, key_at, measure_named, with_atoms
from episode.plan.pattern import PatternPlan
from episode.plan.schema import EventTable, InputSchema, quote
from episode.plan.sections import Section
from episode.queries.language import Given, Input, Language, given_for_input, keys_of_input

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.queries.languages.class_names import Rows
    from episode.see.inspecting import Inspected
    from episode.see.pictures.choosing import Wish
    from episode.see.pictures.look import Look
    from episode.see.reasons.finding import Expectation, Finding

SAY_WHICH = "Give time='ts' (in SQL: ORDER BY ts before PATTERN)."


class EventPatterns(Language[EventQuery]):
    syntax = EventQuery
    plans = (EventPlan, AggregatedPlan)
    name = "event pattern"
    times = (MATCH_START, MATCH_END)
    called = "the event pattern"
    method = "match_events"
    options = frozenset({"step_budget", "match_times", "closure", "counts"})
    arguments = words_of("time start key type_column strategy interval granularity probabilities interval_width")

    def table(self, query: EventQuery) -> tuple[str, Span] | None:
        given = query.input
        return None if given.table is None else (given.table, given.table_span)

    def check_given_events(self, query: EventQuery) -> None:
        span = query.input.table_span
        if query.input.table is not None:
            hint = "Leave FROM out, or run the text with episode.sql."
            raise query.source.error(EpisodeAnalysisError, "match is given its events; FROM is for SQL.", span, hint)

    def classes(self, query: EventQuery) -> dict[str, Span]:
        places: dict[str, Span] = {}
        for one in classes_of(query.pattern):
            places.setdefault(one.name, one.span)
        return places

    def unite(self, query: EventQuery, schemas: Mapping[str, InputSchema], given: Given) -> dict[str, EventTable]:
        type_column = given.type_column or query.input.type_column
        if type_column is not None:
            span = query.input.type_span if query.input.type_column is not None else query.source.pattern
            message = f"The type column {type_column} has no meaning where each class has its table."
            hint = "Leave it out, or give one table of all events: match(df, …), in SQL FROM events."
            raise query.source.error(EpisodeAnalysisError, message, span, hint)
        time, start = given.time or query.input.time or declared_time(schemas), given.start or query.input.start
        interval = self._interval(query, given)
        if interval is not None:
            time, start = interval.hi, interval.lo
        return one_stream_of(query, schemas, time, start, given.key or query.input.partition_by)

    def bind(self, query: EventQuery, events: Input, given: Given, run: RunOptions) -> PatternPlan:
        schema = events.schema
        times = self._times(query, schema, given)
        keys = keys_of_input(schema, query.input, given)
        type_column = given.type_column or query.input.type_column
        if type_column is not None:
            type_column = schema.find(type_column) or type_column
        classes = EventClasses(query, schema, type_column, dict(events.tables))
        if run.correlated:
            self._check_correlated(query, times)
        if query.aggregate is not None:
            self._check_aggregated(query, run)
            check_aggregated(query, times)
            option = strategy_of(given.strategy)
            return plan_aggregated(query, classes, times, keys, option, run.tuning.counts == DOUBLE)
        exact = run.tuning.counts == EXACT
        plan = plan_event_pattern(query, classes, times, keys, strategy_of(given.strategy), run.tuning.closure, exact)
        if not exact and plan.collapse is None:
            message = "Tuning(counts='double') sets how matches are counted, and this query does not count them."
            raise EpisodeAnalysisError(message, hint="RETURN COLLAPSED and AGGREGATE count them.")
        return replace(plan, step_budget=run.tuning.step_budget)

    def spec(self, plan: EventPlan | AggregatedPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        from episode.matchers.events.aggregated import AggregatedSpec
        from episode.matchers.events.spec import EventPatternSpec

        if isinstance(plan, AggregatedPlan):
            return AggregatedSpec(plan.for_workers(), schema, limit)
        return EventPatternSpec(plan.for_workers(), schema, plan.step_budget, limit)

    def section(
        self, plan: EventPlan | AggregatedPlan, reports: Sequence[str] | None = None, query: EventQuery | None = None
    ) -> Section:
        if isinstance(plan, AggregatedPlan):
            return aggregated_section(plan, reports)
        return event_section(plan, reports)

    def warn_of_rows(self, query: EventQuery, given: Given, rows: Rows) -> None:
        from episode.queries.languages.class_names import warn_of_class_names

        warn_of_class_names(query, given, rows)

    def rule_arguments(self, query: EventQuery, given: Given) -> Given:
        own = query.input
        return replace(
            given_for_input(own, given),
            type_column=None if own.type_column is not None else given.type_column,
            start=None if own.start is not None else given.start,
            strategy=given.strategy,
        )

    def conditions(self, query: EventQuery) -> list[Scalar]:
        return list(query.conditions)

    def no_extent(self, plan: EventPlan | AggregatedPlan) -> str | None:
        if isinstance(plan, AggregatedPlan):
            return "AGGREGATE counts matches without making any, so that there is none to place in time."
        return None

    def expand(self, query: EventQuery) -> tuple[EventQuery, dict[str, bool]]:
        if query.aggregate is not None:
            message = "expand gives matches; AGGREGATE has none."
            raise query.source.error(EpisodeAnalysisError, message, query.aggregate.span, "Write RETURN in its place.")
        inner, closures = of_variables(query), variables_under(query.pattern, Closure)
        return inner, {one.variable: one.variable in closures for one in classes_of(inner.pattern)}

    def reasons(self, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
        from episode.see.reasons.events import reasons

        return reasons(inspected, asked)

    def look(self, sides: tuple[Inspected, ...], wish: Wish, zone: str) -> Look:
        from episode.see.pictures.events import look_at_events

        return look_at_events(sides[0], wish, zone)

    def with_extent(self, plan: EventPlan | AggregatedPlan) -> tuple[PatternPlan, Extent]:
        """A match has its times anyway. Aggregates are by key and bucket, which are returned with them."""
        if isinstance(plan, AggregatedPlan):
            keys = {column: quote(name) for column, name in plan.named_keys}
            if plan.every is None:
                return plan, Extent(keys)
            return plan, Extent(keys, quote(BUCKET_START), quote(BUCKET_END), plan.times.type)
        count = COUNT if plan.collapse is None else None
        plan, places = with_atoms(plan, key_at(plan, FIRST))
        start, end = (measure_named(plan, name) for name in (MATCH_START, MATCH_END))
        return plan, Extent(places, start, end, plan.times.type, count)

    def _check_correlated(self, query: EventQuery, times: EventTimes) -> None:
        """A correlation joins matches by their times."""
        if query.aggregate is not None:
            message = "AGGREGATE gives no matches that could be correlated."
            raise query.source.error(EpisodeAnalysisError, message, query.aggregate.span, "Write RETURN in its place.")
        if times.start is not None:
            what = "imprecise events" if times.imprecise is not None else "events that last"
            message = f"A pattern of {what} cannot be correlated: an event has one time there."
            hint = "Give one column of event time."
            raise query.source.error(EpisodeUnsupportedError, message, query.source.pattern, hint)

    def _check_aggregated(self, query: EventQuery, run: RunOptions) -> None:
        """Options for matches have no meaning where no match is enumerated."""
        assert query.aggregate is not None
        for group, name in run.changes():
            if name not in ("closure", "step_budget", "match_times"):
                continue
            message = f"{group.place(name)} has no meaning for AGGREGATE, which enumerates no matches."
            raise query.source.error(EpisodeAnalysisError, message, query.aggregate.span, "Leave the option out.")

    def _times(self, query: EventQuery, schema: InputSchema, given: Given) -> EventTimes:
        interval = self._interval(query, given)
        if interval is not None:
            return imprecise_times(query, schema, interval)
        time = time_column(query.source, schema, given.time or query.input.time, SAY_WHICH)
        return EventTimes(time, self._start(query, schema, time, given), schema.columns[time])

    def _interval(self, query: EventQuery, given: Given) -> Interval | None:
        """Return the columns between which imprecise time lies, from the query or from `match`."""
        written = query.input.interval
        if given.interval is not None:
            if written is not None:
                message = "The query has TIME BETWEEN, and match has time=."
                raise query.source.error(EpisodeAnalysisError, message, written.span, "Leave one of the two out.")
            granularity, width = (
                None if value is None else duration_of(name, value)
                for name, value in (("granularity", given.granularity), ("interval_width", given.interval_width))
            )
            written = Interval(*given.interval, given.probabilities, granularity, width, query.source.pattern)
        others = given.time or query.input.time or given.start or query.input.start
        if written is not None and others is not None:
            message = f"Time lies between {written.lo} and {written.hi}, and {others} is another column of time."
            hint = "Imprecise events are instants: leave ORDER BY, START BY, and start= out."
            raise query.source.error(EpisodeAnalysisError, message, written.span, hint)
        return written

    def _start(self, query: EventQuery, schema: InputSchema, time: str, given: Given) -> str | None:
        """Return the column of the events' start, if events last."""
        name = given.start or query.input.start
        if name is None:
            return None
        start = time_column(query.source, schema, name, SAY_WHICH)
        if schema.columns[start] != schema.columns[time]:
            message = f"{start} is of type {schema.columns[start]} and {time} of type {schema.columns[time]}."
            raise EpisodeAnalysisError(message, hint="Start and end of an event must be of one type: cast one of them.")
        return start


def strategy_of(name: str | None) -> Strategy | None:
    """A selection strategy by its name, with hyphens or underscores."""
    if name is None:
        return None
    try:
        return Strategy(name.lower().replace("_", "-"))
    except ValueError:
        known = ", ".join(strategy.value for strategy in Strategy)
        raise EpisodeAnalysisError(f"There is no selection strategy {name!r}.", hint=f"There are: {known}.") from None


def of_variables(query: EventQuery) -> EventQuery:
    """Return the plain query over events that have their variables already: each is a class. Negations were tested
    when the matches were collapsed."""
    negated = variables_under(query.pattern, Negation)
    conditions = tuple(
        one for one in query.conditions if not any(atom.variable in negated for atom in event_atoms(one))
    )
    given = replace(query.input, table=None, type_column=None, partition_by=())
    pattern = _of_variables(query.pattern)
    return replace(query, pattern=pattern, conditions=conditions, collapsed=None, input=given)


def _of_variables(pattern: EventPattern) -> EventPattern:
    if isinstance(pattern, EventClass):
        return replace(pattern, name=pattern.variable)
    if isinstance(pattern, (Negation, Closure)):
        return replace(pattern, part=_of_variables(pattern.part))
    parts = tuple(_of_variables(part) for part in pattern.parts if not isinstance(part, Negation))
    return replace(pattern, parts=parts)


def variables_under(pattern: EventPattern, kind: type) -> set[str]:
    return {one.variable for node in nodes_of(pattern) if isinstance(node, kind) for one in classes_of(node)}
