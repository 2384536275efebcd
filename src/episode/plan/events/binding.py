"""A query bound to its input: variables with unique names, the schema, how columns and conditions are compiled.

The steps of planning share one `BoundEventQuery`: they may add keys (columns that are equal in all events), derived
columns that Spark computes, and notes for `explain`. `plan` then plans matches, `aggregated` aggregates over matches.
"""

from __future__ import annotations

from dataclasses import replace

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import Closure, EventClass, EventPattern, EventQuery, Negation, Strategy, classes_of
from episode.lang.syntax import ColumnRef
from episode.plan.event_time import in_units_of_time
from episode.plan.events.alternatives import (
    negated_variables,
    with_first_events,
    with_groups_between_places,
    with_unique_variables,
    with_united_classes,
)
from episode.plan.events.classes import EventClasses
from episode.plan.events.closures import check_repeated_variables, chooses
from episode.plan.events.conditions import Conjunct, EventScalars
from episode.plan.events.imprecise import (
    ImprecisePlan,
    check_confidence_has_meaning,
    check_imprecise,
    check_results,
    plan_imprecise,
)
from episode.plan.events.postponed import AUTO
from episode.plan.events.returns import EventTimes
from episode.plan.events.tree import Group, InSequence, Node, Together, items_in, nodes_in
from episode.plan.expressions import Current, Expression, Load, Navigated, Running, conjuncts, walk
from episode.plan.output import Labels
from episode.plan.parameters import bound_duration
from episode.plan.scalars import DerivedColumns, RowLocalScalars
from episode.plan.types import is_event_time

# Checks of a whole pattern.

MOST_VARIABLES = 63


def check_size(bound: BoundEventQuery) -> None:
    """A row's qualifications are the bits of one integer."""
    if len(bound.variables) > MOST_VARIABLES:
        message = f"The pattern has {len(bound.variables)} variables; at most {MOST_VARIABLES} are supported."
        hint = "Split it into several patterns."
        raise bound.query.source.error(EpisodeUnsupportedError, message, bound.query.source.pattern, hint)


def check_closure(bound: BoundEventQuery) -> None:
    """Refuse an evaluation of closures (`closure=`) for patterns without closures of SEQ."""
    if bound.closure != AUTO and not chooses(bound.query.pattern):
        message = f"Tuning(closure={bound.closure!r}): there is no closure inside SEQ in this pattern."
        hint = "Leave closure= out. It is for SEQ(A a, B+ b[], C c), where every choice of events is a match."
        raise bound.query.source.error(EpisodeAnalysisError, message, bound.query.source.pattern, hint)


def check_conjuncts(bound: BoundEventQuery, conjuncts: list[Conjunct]) -> None:
    """A negated event is related to single events, or to a closure as a whole."""
    for conjunct in conjuncts:
        negated = conjunct.variables & bound.negated
        if negated and conjunct.iterated is not None and conjunct.iterated not in bound.negated:
            message = "A condition cannot relate a negated event to each event of a closure."
            hint = "Compare it with the closure's first or last event, b[1] or b[last], or an aggregate."
            raise bound.query.source.error(EpisodeUnsupportedError, message, conjunct.scalar.span, hint)


def check_tree(bound: BoundEventQuery, tree: Node) -> None:
    """Refuse neighbouring groups of events that last, and groups next to a conjunction unless classes are exclusive."""
    gaps = [gap for node in nodes_in(tree) if isinstance(node, InSequence) for gap in node.gaps]
    if bound.times.start is not None and any(sum(isinstance(one, Group) for one in gap) > 1 for gap in gaps):
        message = "Two closures side by side are not evaluated for events that last."
        hint = "Put an event between them, or write SEQ(A a, B+ b[], C+ c[], D d) for every choice of events."
        raise bound.query.source.error(EpisodeUnsupportedError, message, bound.query.source.pattern, hint)
    if bound.classes.tables or bound.classes.type_column is not None:
        return
    has_groups = any(isinstance(item, Group) for item in items_in(tree))
    if has_groups and any(isinstance(node, Together) for node in nodes_in(tree)):
        message = "A closure next to a conjunction needs classes that exclude each other."
        hint = "Give a type_column, or one table per class."
        raise bound.query.source.error(EpisodeUnsupportedError, message, bound.query.source.pattern, hint)


class BoundEventQuery:
    """A query with its input, shared by all steps of planning.

    variables: all of them, also negated ones. closures, negated: those inside a closure, or a negation. alone: closures
    that are a whole alternative. renamed: the unique names of a variable of several alternatives. keys: the partition,
    to which steps add.
    """

    def __init__(
        self,
        query: EventQuery,
        classes: EventClasses,
        times: EventTimes,
        keys: tuple[str, ...],
        strategy: Strategy | None,
        closure: str,
        exact: bool,
    ) -> None:
        self.exact = exact
        self.closure = closure
        self.strategy = _strategy(query, strategy)
        self.imprecise: ImprecisePlan | None = None
        if times.imprecise is None:
            check_confidence_has_meaning(query)
        else:
            check_imprecise(query, self.strategy)
            self.imprecise = plan_imprecise(query, classes.schema)
            check_results(query, closure != AUTO, query.collapsed is not None)
        if self.strategy is not Strategy.NEXT:  # which has no groups, and one run for all alternatives
            query = replace(query, pattern=with_groups_between_places(query.pattern))
        query = replace(query, pattern=with_united_classes(query.pattern, classes, self.strategy))
        check_repeated_variables(query)
        pattern, self.alone = query.pattern, frozenset[str]()
        if self.strategy is Strategy.ANY:
            pattern, self.alone = with_first_events(query.pattern)
        for name in sorted(self.alone):
            places = [one for one in classes_of(query.pattern) if one.variable == name]
            if len(places) > 1:
                message = f"{name} is the variable of a closure on its own, and of another alternative."
                hint = "Give each its own variable."
                raise query.source.error(EpisodeUnsupportedError, message, places[-1].span, hint)
        query, self.renamed = with_unique_variables(replace(query, pattern=pattern), self.alone)
        every = {one.variable: one for one in classes_of(query.pattern)}
        classes = replace(classes, query=query, by_variable=every)
        self.query = query
        self.classes = classes
        self.schema = classes.schema
        self.times = times
        self.keys = list(keys)
        self.derived = DerivedColumns(self.schema)
        self.variables = tuple(every)
        self.rows = RowLocalScalars(query.source, self.schema, self.derived)
        self.rows.add_keys(query.input.expressions, keys)
        self.closures = frozenset(_closure_variables(query.pattern, False))
        self.negated = frozenset(negated_variables(query.pattern))
        self.scalars = EventScalars(classes, self.rows, self.closures)
        self.notes: list[str] = []

    @property
    def positives(self) -> list[str]:
        """The variables whose events are in a match."""
        return [name for name in self.variables if name not in self.negated]

    @property
    def labels(self) -> Labels:
        return Labels(self.variables, {name: frozenset(new) for name, new in self.renamed.items()})

    def type_of(self, column: str) -> str:
        """The type of a column of the input, or of one that Spark derives."""
        return self.derived.types[column]

    def plain_column(self, reference: ColumnRef) -> str:
        load = self.rows.load(reference, Current(0))
        assert isinstance(load, Load)
        return load.column

    def within(self) -> int | None:
        within = self.query.within
        if within is None:
            return None
        if not is_event_time(self.times.type):
            message = f"The event time {self.times.end} is of type {self.times.type}."
            hint = "Event time is a timestamp, a date or an integer."
            raise self.query.source.error(EpisodeAnalysisError, message, within.span, hint)
        within = bound_duration(within, self.schema.arguments, self.query.source)
        return in_units_of_time(within, self.query.source, self.times.end, self.times.type, what="WITHIN")


def _strategy(query: EventQuery, option: Strategy | None) -> Strategy:
    written = query.strategy
    if written is not None and option is not None and written is not option:
        message = f"The query has {written.value}, and strategy= is {option.value}."
        raise query.source.error(EpisodeAnalysisError, message, query.strategy_span, "Leave one of the two out.")
    return written or option or Strategy.ANY


def _closure_variables(pattern: EventPattern, inside: bool) -> list[str]:
    """Variables of closures. Of a negation inside a closure, one event is meant. inside: of a closure."""
    if isinstance(pattern, EventClass):
        return [pattern.variable] if inside else []
    if isinstance(pattern, (Closure, Negation)):
        return _closure_variables(pattern.part, isinstance(pattern, Closure))
    return [name for part in pattern.parts for name in _closure_variables(part, inside)]


# ---- what an event must satisfy by itself, by variable: its class, and conditions on it alone ----------


def members(bound: BoundEventQuery) -> dict[str, list[Expression]]:
    """Return the conditions that make an event one of the class of each variable."""
    found = {name: bound.classes.member(name) for name in bound.variables}
    return {name: [] if member is None else [member] for name, member in found.items()}


def pull_local(
    bound: BoundEventQuery, conditions: list[Conjunct], local: dict[str, list[Expression]]
) -> list[Conjunct]:
    """Conditions on one event go to its row, conditions on none to every row; the others are returned."""
    related = []
    for conjunct in conditions:
        if len(conjunct.variables) == 1 and not conjunct.whole and conjunct.back == 0:
            (name,) = conjunct.variables
            expression = bound.scalars.compile(conjunct.scalar, name)
            if expression is not None and not any(_relates_events(node) for node in walk(expression)):
                local[name] += conjuncts(expression)
                continue
        if not conjunct.variables:
            expression = bound.scalars.compile(conjunct.scalar, None)
            if expression is not None:
                for name in bound.positives:
                    local[name].append(expression)
                continue
        related.append(conjunct)
    return related


def _relates_events(node: Expression) -> bool:
    return isinstance(node, Running) or (isinstance(node, Load) and isinstance(node.at, Navigated))
