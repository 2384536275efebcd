"""The plan of one event pattern: everything the matcher needs, with nothing left to resolve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from itertools import combinations

from episode.errors import EpisodeAnalysisError
from episode.lang.events.syntax import EventQuery, Strategy, classes_of
from episode.plan.event_time import UNBOUNDED, Delays, EventTime, column_at_event, plain_values
from episode.plan.events.alternatives import MARK, first_places, presences, take_first_alternatives
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.binding import BoundEventQuery, check_closure, check_conjuncts, check_size, members, pull_local
from episode.plan.events.classes import EventClasses
from episode.plan.events.closures import check_groups_and_choices, choosing_variables, with_negated_closures
from episode.plan.events.conditions import JoinTest, conjunct_of, same_attributes
from episode.plan.events.consistency import ClosurePredicate, closure_predicate
from episode.plan.events.cost import Actual, PhysicalPlan, Statistics
from episode.plan.events.counting import Collapse
from episode.plan.events.engines import Engines, choose_engines, evaluated_expressions
from episode.plan.events.imprecise import WIDER, ImprecisePlan
from episode.plan.events.postponed import AUTO, Construction
from episode.plan.events.returns import CONFIDENCE, COUNTED, KEEP, EventTimes, Returns
from episode.plan.events.tree import Group, InSequence, Leaf, Node, OneOf, is_open_ended, simplify
from episode.plan.expressions import Expression
from episode.plan.output import (
    MATCH_END,
    Extreme,
    FinalMatches,
    MatchConfidence,
    MeasurePlan,
    Output,
    OutputAtom,
    Result,
    columns_read,
    expressions_of,
)
from episode.plan.pattern import CarriedReport, OrderColumn, PatternPlan
from episode.plan.scalars import refuse_depth

# Reports of matchers of event patterns.


@dataclass(frozen=True)
class StatisticChange:
    """A statistic that is no longer what a plan was made for. of: a variable (its events per window), or the number of
    a test (its selectivity)."""

    of: str | int
    before: float
    now: float


@dataclass(frozen=True)
class PlanChange:
    """A plan taken because a statistic has moved, in place of another one (old_cost: by what is known now); or as the
    first one."""

    round: int
    moved: StatisticChange | None
    old_cost: float | None
    new_cost: float
    plan: PhysicalPlan


@dataclass(frozen=True)
class EventReport(CarriedReport):
    """The work of one matcher.

    tree: the tree of its plans, if they have one. nodes: pairs tried and records emitted, by the name of a node.
    plan, statistics: the last ones. actual: the work of that plan since it was taken, if it was counted.
    """

    tree: Node | None
    rounds: int
    matches: int
    nodes: dict[str, tuple[int, int]]
    statistics: Statistics | None
    plan: PhysicalPlan | None
    actual: Actual | None
    changes: tuple[PlanChange, ...]


@dataclass
class AggregatedReport(CarriedReport):
    """The work of matchers of aggregates: passes, the events in them (also of windows before), rows returned."""

    passes: int = 0
    events: int = 0
    rows: int = 0

    @staticmethod
    def sum_of(texts: Iterable[str]) -> AggregatedReport:
        """Return the work of all matchers of a run."""
        reports = [AggregatedReport.from_json(text) for text in texts]
        return AggregatedReport(*(sum(counts) for counts in zip(*map(astuple, reports), strict=True)))


@dataclass(frozen=True, kw_only=True)
class EventPlan(PatternPlan):
    """One event pattern over one input.

    variables: all of them, also negated ones; a row's qualification for variable i is bit i. local: the conditions on
    a row by itself, per variable. tree, tests: the logical tree, and the conditions that relate single events.
    absent_tests, group_tests: the tests that make an event a negating one (by name of the negation), or one of a group
    (by variable). automaton: for all other patterns, and the alternative for plain sequences. construction: makes
    matches from those of the tree, if these have all events that closures choose from; why_runs: the reason if there is
    no construction. keeps: the number of conditions that Spark tests on the matches, the last measures. predicates: the
    conjuncts about closures that choose their events, with their classes. collapse: the count of final matches, if
    intermediate ones are asked for. imprecise: set if time is imprecise. overlapping: may an event be of two variables
    of the match, or of two of negations?
    """

    strategy: Strategy
    variables: tuple[str, ...]
    closures: frozenset[str]
    times: EventTimes
    local: dict[str, tuple[Expression, ...]]
    overlapping: bool
    tree: Node | None
    tests: tuple[JoinTest, ...]
    absent_tests: dict[str, tuple[JoinTest, ...]]
    group_tests: dict[str, tuple[JoinTest, ...]]
    automaton: AutomatonPlan | None
    keeps: int
    imprecise: ImprecisePlan | None = None
    notes: tuple[str, ...] = ()
    construction: Construction | None = None
    why_runs: str | None = None
    predicates: tuple[ClosurePredicate, ...] = ()
    collapse: Collapse | None = None

    @property
    def result(self) -> Result:
        """RETURN's columns, then the times of the match."""
        every = self.measures.measures
        return Result(
            source=self.source,
            measures=self.measures,
            columns=tuple(one for one in every if not one.name.startswith(KEEP)),
            conditions=tuple(one for one in every if one.name.startswith(KEEP)),
        )

    @property
    def match_values(self) -> tuple[OutputAtom, ...]:
        final = () if self.collapse is None else (FinalMatches(self.collapse.exact),)
        return (*final, *(() if self.imprecise is None else (MatchConfidence(),)))

    def event_time(self, limited: bool) -> EventTime:
        """Refuse a pattern of which every event would be held forever."""
        if self.within is None:
            message = "An event pattern over a stream needs WITHIN: without it every event is held forever."
            hint = "Write for example WITHIN 10 minutes after the conditions."
            raise self.source.error(EpisodeAnalysisError, message, self.source.pattern, hint)
        if self.times.imprecise is not None and self.times.imprecise.width is None:
            message = "Imprecise time over a stream needs WIDTH: without it every event is held forever."
            raise self.source.error(EpisodeAnalysisError, message, self.source.pattern, WIDER)
        return EventTime(self.times.end, self.times.type)

    def delays(self) -> Delays:
        """The delay of every output column that holds times of the match's events.

        A match is reported with its last event; if the pattern waits, when its window has passed. If time is
        imprecise, intervals reach beyond the window by their width, at either end.
        """
        longest, imprecise = self.within, self.times.imprecise
        if imprecise is not None and longest is not None:
            longest = UNBOUNDED if imprecise.width is None else longest + 2 * imprecise.width
        times = {self.times.end} if self.times.start is None else {self.times.end, self.times.start}
        delays: Delays = {}
        for name, atom in plain_values(self.measures):
            if column_at_event(atom) in times:
                of_match = name == MATCH_END and isinstance(atom, Extreme) and atom.labels is None
                delays[name] = 0 if of_match and not self.waits else longest
        return delays

    @property
    def waits(self) -> bool:
        """Are matches decided only when their window has passed? Then what lies before them is kept for as long."""
        if self.tree is not None:
            late = self.construction is not None and self.construction.automaton.waits
            return late or is_open_ended(self.tree)
        return self.automaton is not None and self.automaton.waits

    @property
    def windows(self) -> int:
        """The number of windows before a time whose events matter to the matches that are decided after it.

        Two if matches wait; and if a run passes over events that would end it too near to a negating event before its
        start: this is decided anew for every run that began in the last window.
        """
        passes_over = self.strategy is Strategy.NEXT and self.automaton is not None and self.automaton.looks_before
        return 2 if self.waits or passes_over else 1


def plan_event_pattern(
    query: EventQuery,
    classes: EventClasses,
    times: EventTimes,
    keys: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    closure: str = AUTO,
    exact: bool = True,
) -> EventPlan:
    """Bind a query to its input, check it, choose how it is evaluated. closure: one of `postponed.ENGINES`.

    exact: are collapsed matches counted exactly?"""
    with refuse_depth(query.source, "The pattern or the expressions of this query", query.source.pattern.beginning):
        return _plan(BoundEventQuery(query, classes, times, keys, strategy, closure, exact))


def _plan(bound: BoundEventQuery) -> EventPlan:
    query = bound.query
    check_size(bound)
    check_closure(bound)
    bound.classes.check()
    within = bound.within()
    conjuncts = [conjunct_of(scalar, bound.closures | bound.alone) for scalar in query.conditions]
    check_conjuncts(bound, conjuncts)
    local = members(bound)
    same = same_attributes(bound, conjuncts, local)
    related = pull_local(bound, conjuncts, local)
    take_first_alternatives(first_places(query.pattern, bound.alone), local, bound.classes)
    choosing = choosing_variables(query.pattern) if bound.imprecise is None else frozenset()
    predicates = tuple(
        closure_predicate(conjunct, bound.scalars.compile(conjunct.scalar, conjunct.iterated), choosing, local)
        for conjunct in conjuncts
        if conjunct.variables & choosing
    )
    pattern = with_negated_closures(query, query.pattern, conjuncts)
    gone = set(bound.variables) - {one.variable for one in classes_of(pattern)}
    related = [conjunct for conjunct in related if not conjunct.variables & gone]
    if bound.strategy is Strategy.ANY:
        check_groups_and_choices(query, pattern)
    rewriting = simplify(pattern)
    bound.notes += [f"rewritten: {step}" for step in rewriting.steps]
    engines = choose_engines(bound, rewriting.pattern, related, same, local)
    measures = _measures(bound, engines)
    evaluated = [part for parts in local.values() for part in parts]
    evaluated += evaluated_expressions(engines.tests.all, engines.automaton, engines.construction, engines.collapse)
    read = columns_read(expressions_of(evaluated, measures), measures)
    times = [time for time in (bound.times.end, bound.times.start) if time]
    probabilities = bound.times.imprecise and bound.times.imprecise.probabilities
    needed = dict.fromkeys([*bound.keys, *times, *read, *([probabilities] if probabilities else [])])
    pairs = (*combinations(bound.positives, 2), *combinations(bound.negated, 2))
    return EventPlan(
        source=query.source,
        output=Output(bound.labels, measures),
        order=(OrderColumn(bound.times.end),),
        strategy=bound.strategy,
        variables=bound.variables,
        closures=bound.closures,
        keys=tuple(bound.keys),
        times=bound.times,
        within=within,
        window=None if query.within is None else query.within.span,
        local={name: tuple(parts) for name, parts in local.items()},
        overlapping=any(not bound.classes.exclusive(one, other) for one, other in pairs),
        tree=engines.tree,
        tests=engines.tests.related,
        absent_tests=engines.tests.absent,
        group_tests=engines.tests.group,
        automaton=engines.automaton,
        keeps=len(engines.kept),
        imprecise=bound.imprecise,
        input_columns=tuple(needed),
        derived=bound.derived.selections(needed),
        types=bound.derived.types,
        notes=tuple(bound.notes),
        construction=engines.construction,
        why_runs=engines.why_runs,
        predicates=predicates,
        collapse=engines.collapse,
    )


def _measures(bound: BoundEventQuery, engines: Engines) -> MeasurePlan:
    """Plan the output: RETURN, the times of a match, its count or confidence, and the conditions that Spark tests."""
    query = bound.query
    inputs = (query.source, bound.schema, bound.labels, bound.derived)
    closures = bound.closures | {name.split(MARK)[0] for name in bound.closures}
    returns = Returns(*inputs, classes=bound.classes, closures=closures, presences=presences(query.pattern))
    if query.returns is None:
        written = dict.fromkeys(name.split(MARK)[0] for name in bound.positives)
        planned = [returns.whole(name) for name in written]
    else:
        planned = [returns.item(item) for item in query.returns]
    planned += returns.times(bound.times)
    if engines.collapse is not None:
        planned.append(returns.measure_of(COUNTED, FinalMatches(engines.collapse.exact)))
    if bound.imprecise is not None:
        planned.append(returns.measure_of(CONFIDENCE, MatchConfidence()))
    planned += [returns.condition(conjunct, number) for number, conjunct in enumerate(engines.kept)]
    return MeasurePlan(planned, returns.atoms)


__all__ = ["EventPlan", "Strategy", "plan_event_pattern"]


def required_events(plan: EventPlan) -> tuple[frozenset[str], ...]:
    """Return sets of variables; every match has an event of one variable of each set."""
    if plan.tree is not None:
        return tuple(_required_of_node(plan.tree))
    return () if plan.automaton is None else tuple(one for one in plan.automaton.required if one)


def _required_of_node(node: Node) -> list[frozenset[str]]:
    if isinstance(node, Leaf):
        return [frozenset((node.variable,))]
    if isinstance(node, OneOf):
        chosen = [_required_of_node(part) for part in node.parts]
        return [frozenset().union(*(sets[0] for sets in chosen))] if all(chosen) else []
    if isinstance(node, InSequence):
        groups = [item for gap in node.gaps for item in gap if isinstance(item, Group)]
        present = [frozenset(one.variables) for one in groups if one.minimum > 0 and not one.follows]
        return [*(one for part in node.parts for one in _required_of_node(part)), *present]
    return [one for part in node.parts for one in _required_of_node(part)]
