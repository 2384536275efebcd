"""The plan of aggregates over all matches of an event pattern, which are never enumerated.

A pattern is places in order, with links between those that may follow each other in a match; conditions are about one
event (bits of rows), or belong to a link or to the first event (`aggregated_conditions`); others are refused. Two
engines: `sliding` where conditions are about one event only, `by start` otherwise. See decision 95.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import cast

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    EventAggregate,
    EventQuery,
    GroupAttribute,
    MatchAggregates,
    MatchCount,
    Negation,
    Strategy,
    classes_of,
    nodes_of,
)
from episode.lang.syntax import ReturnItem, Span
from episode.plan.compilable import to_float
from episode.plan.event_time import Delays, EventTime, in_units_of_time
from episode.plan.events.aggregated_conditions import FirstTest, Link, LinkTest, TrendPlace, with_tests
from episode.plan.events.automaton import Loop, Step, Take, linear, variables_in
from episode.plan.events.binding import BoundEventQuery, check_size, members, pull_local
from episode.plan.events.classes import EventClasses
from episode.plan.events.conditions import conjunct_of, same_attributes
from episode.plan.events.postponed import RUNS
from episode.plan.events.returns import EventTimes
from episode.plan.events.tree import simplify
from episode.plan.expressions import Condition, Expression, Load
from episode.plan.output import ATOM_PREFIX, MeasurePlan, Output, OutputAtom, PlannedMeasure, Result, columns_read
from episode.plan.parameters import bound_duration
from episode.plan.pattern import OrderColumn, PatternPlan
from episode.plan.places import substitute
from episode.plan.scalars import refuse_depth
from episode.plan.schema import quote
from episode.plan.types import decimal_of, is_float, is_integer, is_numeric, is_wide, lane_of
from episode.words import DAY

BUCKET_START, BUCKET_END = "bucket_start", "bucket_end"
MOST_PLACES = 48
EXACT_COUNT = "decimal(38,0)"
ONLY_ANY = "Aggregates over all matches are evaluated without enumerating them under skip-till-any-match only."
OR_RETURN = "or return the matches and aggregate them in SQL."


@dataclass(frozen=True)
class OverMatches:
    """An aggregate over all matches: what the matcher delivers.

    labels: variables whose events are aggregated; None: the matches themselves are counted. argument: row-local; None
    counts. type: of the result.
    """

    function: str
    labels: frozenset[str] | None
    argument: Expression | None
    type: str


class GroupedBy(str, Enum):
    """Whose attribute a match is grouped by: of a key (the same in all events), of its first or its last event."""

    KEY = "key"
    FIRST = "first event"
    LAST = "last event"


@dataclass(frozen=True)
class GroupColumn:
    """A column of GROUP BY: the input column, its name in the output, whose it is."""

    column: str
    name: str
    of: GroupedBy


@dataclass(frozen=True)
class Alternative:
    """Places of a match in order, the links between them, and what relates events to the first one.

    starts, ends: places of the first and of the last event."""

    places: tuple[TrendPlace, ...]
    links: tuple[Link, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    first_tests: tuple[FirstTest, ...]

    @property
    def tests(self) -> list[LinkTest]:
        return [*(test for link in self.links for test in link.tests), *self.first_tests]


@dataclass(frozen=True, kw_only=True)
class AggregatedPlan(PatternPlan):
    """Aggregates over all matches of one event pattern.

    keys: what the output is by; same: further columns that are equal in all events of a match. every: the length of
    buckets in units of event time. doubles: numbers of matches and sums as doubles.
    """

    times: EventTimes
    variables: tuple[str, ...]
    same: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    groups: tuple[GroupColumn, ...]
    every: int | None
    clause: Span
    every_span: Span | None
    doubles: bool
    notes: tuple[str, ...] = ()

    @property
    def values(self) -> dict[OverMatches, str]:
        """Return the values that the matcher delivers, with the names of its columns."""
        return cast("dict[OverMatches, str]", self.measures.atoms)

    @property
    def per_start(self) -> bool:
        """Does dynamic programming begin anew for each start event?"""
        related = any(alternative.tests for alternative in self.alternatives)
        return related or any(group.of is GroupedBy.FIRST for group in self.groups)

    @property
    def named_keys(self) -> tuple[tuple[str, str], ...]:
        """Key columns with their names in the output: those of GROUP BY, else their own."""
        groups = [group for group in self.groups if group.of is GroupedBy.KEY]
        return tuple(
            (key, name) for key in self.keys for name in [one.name for one in groups if one.column == key] or [key]
        )

    @property
    def before(self) -> tuple[str, ...]:
        """The columns of the output before the aggregates."""
        named = tuple(name for _, name in self.named_keys)
        grouped = tuple(group.name for group in self.groups if group.of is not GroupedBy.KEY)
        return (*named, *grouped, *((BUCKET_START, BUCKET_END) if self.every is not None else ()))

    @property
    def result(self) -> Result:
        """Keys, groups and buckets, then AGGREGATE's columns."""
        return Result(self.source, self.measures, tuple(self.measures.measures), before=self.before)

    def event_time(self, limited: bool) -> EventTime:
        """A stream needs buckets, which are over at some time, and a window, which bounds what is held."""
        if self.every is None:
            raise self.source.error(
                EpisodeAnalysisError,
                "AGGREGATE over a stream needs EVERY: without it the result is there only at the end of the stream.",
                self.clause,
                "Write for example EVERY 10 minutes after the aggregates (and GROUP BY).",
            )
        if self.within is None:
            message = "An event pattern over a stream needs WITHIN: without it every event is held forever."
            hint = "Write for example WITHIN 10 minutes after the conditions."
            raise self.source.error(EpisodeAnalysisError, message, self.source.pattern, hint)
        return EventTime(self.times.end, self.times.type)

    def delays(self) -> Delays:
        """A row is reported when its bucket is over."""
        return {} if self.every is None else {BUCKET_START: self.every, BUCKET_END: 0}


def plan_aggregated(
    query: EventQuery,
    classes: EventClasses,
    times: EventTimes,
    keys: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    doubles: bool = False,
) -> AggregatedPlan:
    """Bind a query with AGGREGATE to its input, check it, classify its conditions."""
    _check_pattern(query, times, strategy)
    with refuse_depth(query.source, "The pattern or the expressions of this query", query.source.pattern.beginning):
        assert query.aggregate is not None
        return _Planner(query, classes, times, keys, strategy, RUNS, exact=True).plan(query.aggregate, doubles)


def _check_pattern(query: EventQuery, times: EventTimes, option: Strategy | None) -> None:
    """Refuse patterns that cannot be aggregated without enumerating their matches."""
    strategy = query.strategy or option or Strategy.ANY
    source = query.source
    if strategy is not Strategy.ANY:
        span = query.strategy_span if query.strategy is not None else source.pattern
        hint = f"Leave {strategy.value} out, {OR_RETURN}"
        raise source.error(EpisodeUnsupportedError, ONLY_ANY, span, hint)
    if times.start is not None:
        message = "Aggregates over all matches are not evaluated for events that last."
        raise source.error(EpisodeUnsupportedError, message, source.pattern, f"Leave start out, {OR_RETURN}")
    for node in nodes_of(query.pattern):
        if isinstance(node, Negation):
            what, hint = "of patterns with a negation", f"Leave the negated part out, {OR_RETURN}"
        elif isinstance(node, Conjunction):
            what, hint = "of conjunctions", "Write the orders as alternatives: SEQ(A a, B b) | SEQ(B b, A a)."
        elif isinstance(node, Closure) and node.groups:
            what = "of groups (all events between their neighbours)"
            hint = "Write SEQ(A a, B+ b[], C c), where a closure takes every choice of events."
        else:
            continue
        message = f"Aggregates over all matches {what} are not evaluated."
        raise source.error(EpisodeUnsupportedError, message, node.span, hint)


class _Planner(BoundEventQuery):
    clause: MatchAggregates
    doubles: bool

    def plan(self, clause: MatchAggregates, doubles: bool) -> AggregatedPlan:
        self.clause, self.doubles = clause, doubles
        self.atoms: dict[OverMatches, str] = {}
        query = self.query
        check_size(self)
        self.classes.check()
        within = self.within()
        every = self._every()
        conjuncts = [conjunct_of(scalar, self.closures) for scalar in query.conditions]
        local = members(self)
        given = tuple(self.keys)
        same_attributes(self, conjuncts, local)
        equal = tuple(name for name in self.keys if name not in given)
        related = pull_local(self, conjuncts, local)
        rewriting = simplify(query.pattern)
        self.notes += [f"rewritten: {step}" for step in rewriting.steps]
        groups = linear(query, rewriting.pattern, together=False)
        alternatives = [self._alternative(steps) for group in groups for steps in group]
        alternatives = [with_tests(query, self.scalars, related, alternative) for alternative in alternatives]
        grouped = tuple(self._group(attribute, (*given, *equal), alternatives) for attribute in self.clause.group_by)
        keyed = tuple(group.column for group in grouped if group.of is GroupedBy.KEY and group.column in equal)
        keys = (*given, *dict.fromkeys(keyed))
        planned = [self._item(item) for item in self.clause.items]
        measures = MeasurePlan(planned, cast("dict[OutputAtom, str]", self.atoms))
        expressions = [part for parts in local.values() for part in parts]
        for alternative in alternatives:
            expressions += [side for test in alternative.tests for side in (test.current, test.other)]
        expressions += [value.argument for value in self.atoms if value.argument is not None]
        same = tuple(name for name in equal if name not in keys)
        read = columns_read(expressions, MeasurePlan([]))
        needed = [*keys, *same, self.times.end, *(group.column for group in grouped), *read]
        plan = AggregatedPlan(
            source=query.source,
            output=Output(self.labels, measures),
            order=(OrderColumn(self.times.end),),
            keys=keys,
            times=self.times,
            within=within,
            window=None if query.within is None else query.within.span,
            conditions={name: Condition(name, tuple(parts), ()) for name, parts in local.items()},
            input_columns=tuple(dict.fromkeys(needed)),
            derived=self.derived.selections(set(needed)),
            types=self.derived.types,
            variables=self.variables,
            same=same,
            alternatives=tuple(alternatives),
            groups=grouped,
            every=every,
            clause=self.clause.span,
            every_span=None if self.clause.every is None else self.clause.every.span,
            doubles=self.doubles,
            notes=tuple(self.notes),
        )
        self._check_names(plan)
        return plan

    # ---- clauses -------------------------------------------------------------------------------------------

    def _every(self) -> int | None:
        every = self.clause.every
        if every is None:
            return None
        every = bound_duration(every, self.schema.arguments, self.query.source)
        length = in_units_of_time(every, self.query.source, self.times.end, self.times.type, what="EVERY")
        hint = "Write for example EVERY 1 day."
        if length == 0:
            raise self._fail(EpisodeAnalysisError, "EVERY needs some time.", every.span, hint)
        if self.times.type == "date" and length % DAY:
            message = f"The event time {self.times.end} is a date: EVERY takes whole days."
            raise self._fail(EpisodeAnalysisError, message, every.span, hint)
        return length

    def _check_names(self, plan: AggregatedPlan) -> None:
        names = [name.lower() for name in plan.before]
        found = [(one.name, one.span) for one in self.clause.group_by if names.count(one.name.lower()) > 1]
        found += [(one.name, one.span) for one in self.clause.items if one.name.lower() in names]
        for name, span in found:
            hint = "Keys and groups precede the aggregates under their names; choose another name with AS."
            raise self._fail(EpisodeAnalysisError, f"Two columns are called {name}.", span, hint)

    def _group(self, attribute: GroupAttribute, equal: tuple[str, ...], alternatives: list[Alternative]) -> GroupColumn:
        name = attribute.column.variable
        column = self.plain_column(self.classes.column(name, attribute.column.path, attribute.column.span))
        if lane_of(self.type_of(column)) is None:
            message = f"{attribute.name} is of type {self.type_of(column)}: matches are not grouped by it."
            hint = "Group by an attribute of an atomic type."
            raise self._fail(EpisodeUnsupportedError, message, attribute.span, hint)
        if column in equal:
            return GroupColumn(column, attribute.name, GroupedBy.KEY)
        if len(alternatives) > 1:
            message = "Where a pattern has alternatives, GROUP BY takes what is equal in all events of a match."
            hint = "Relate the events by [attribute] in WHERE, or write a query for each alternative."
            raise self._fail(EpisodeUnsupportedError, message, attribute.span, hint)
        places = alternatives[0].places
        if places[-1].variable == name and alternatives[0].ends == (len(places) - 1,):
            return GroupColumn(column, attribute.name, GroupedBy.LAST)
        if places[0].variable == name and alternatives[0].starts == (0,):
            return GroupColumn(column, attribute.name, GroupedBy.FIRST)
        message = f"{name} is neither the first nor the last event: matches are not grouped by its attributes."
        hint = f"Group by the first or the last event or by what is equal in all events ([attribute]), {OR_RETURN}"
        raise self._fail(EpisodeUnsupportedError, message, attribute.span, hint)

    def _fail(self, kind: type[EpisodeError], message: str, span: Span, hint: str) -> EpisodeError:
        return self.query.source.error(kind, message, span, hint)

    # ---- aggregates --------------------------------------------------------------------------------------------

    def _item(self, item: ReturnItem) -> PlannedMeasure:
        scalar = item.expression
        parts = {name: self._value(atom) for name, atom in scalar.atoms}
        return PlannedMeasure(item.name, substitute(scalar.text, parts), scalar.original, item.span)

    def _value(self, atom: object) -> str:
        count = "double" if self.doubles else EXACT_COUNT
        if isinstance(atom, MatchCount):
            return self._output(OverMatches("count", None, None, count))
        assert isinstance(atom, EventAggregate)
        members = self.labels.members(atom.variable)
        if not atom.arguments:
            return self._output(OverMatches("count", members, None, count))
        argument = self.scalars.argument(atom.arguments[0])
        if atom.function == "count":
            return self._output(OverMatches("count", members, argument, count))
        if atom.function in ("min", "max"):
            lane = lane_of(argument.type)
            if lane is None or is_wide(argument) or (lane == "code" and not isinstance(argument, Load)):
                raise self._of_type(atom, argument)
            return self._output(OverMatches(atom.function, members, argument, argument.type))
        return self._output(self._sum(atom, members, argument))

    def _sum(self, atom: EventAggregate, members: frozenset[str] | None, argument: Expression) -> OverMatches:
        if not is_numeric(argument.type) or lane_of(argument.type) == "code" or is_wide(argument):
            raise self._of_type(atom, argument)
        if is_float(argument.type) or self.doubles:
            return OverMatches(atom.function, members, to_float(argument), "double")
        if atom.function == "avg":
            return OverMatches("avg", members, argument, "double")
        decimal = decimal_of(argument.type)
        assert decimal is not None or is_integer(argument.type)
        return OverMatches("sum", members, argument, f"decimal(38,{decimal[1] if decimal else 0})")

    def _of_type(self, atom: EventAggregate, argument: Expression) -> EpisodeError:
        message = f"{atom.function} of {argument.type} over all matches is not evaluated."
        return self._fail(EpisodeUnsupportedError, message, atom.span, "Cast it to double, or to decimal(18, …).")

    def _output(self, value: OverMatches) -> str:
        if value not in self.atoms:
            self.atoms[value] = f"{ATOM_PREFIX}{len(self.atoms)}"
        return quote(self.atoms[value])

    # ---- places ------------------------------------------------------------------------------------------------

    def _alternative(self, steps: tuple[Step, ...]) -> Alternative:
        places = [place for step in steps for place in self._places(step)]
        if len(places) > MOST_PLACES:
            message = f"The pattern has {len(places):,} places; at most {MOST_PLACES} are supported here."
            raise self._fail(EpisodeUnsupportedError, message, self.query.source.pattern, "Repeat fewer events.")
        links = []
        for at, place in enumerate(places):
            if place.repeats:
                links.append(Link(at, at))
            for other in range(at + 1, len(places)):
                links.append(Link(at, other))
                if not places[other].optional:
                    break
        starts = _until_certain(places)
        ends = [len(places) - 1 - at for at in _until_certain(places[::-1])]
        return Alternative(tuple(places), tuple(links), tuple(starts), tuple(sorted(ends)), ())

    def _places(self, step: Step) -> list[TrendPlace]:
        if isinstance(step, Take):
            return [TrendPlace(step.variable)]
        only = step.only if isinstance(step, Loop) else None
        if not isinstance(step, Loop) or only is None:
            message = "Aggregates over all matches are evaluated for closures of one class."
            hint = f"Write B+ b[] with one class, {OR_RETURN}"
            names = set(variables_in((step,)))
            closures = [node for node in nodes_of(self.query.pattern) if isinstance(node, Closure)]
            spans = (node.span for node in closures if names & {one.variable for one in classes_of(node)})
            raise self._fail(EpisodeUnsupportedError, message, next(spans, self.query.source.pattern), hint)
        name = only.variable
        if step.minimum == 0:
            return [TrendPlace(name, True, True)]
        last = TrendPlace(name, step.maximum is None)
        return [*[TrendPlace(name)] * (step.minimum - 1), last]


def _until_certain(places: list[TrendPlace]) -> list[int]:
    """Places up to the first that is not optional."""
    found = []
    for at, place in enumerate(places):
        found.append(at)
        if not place.optional:
            break
    return found
