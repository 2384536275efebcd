"""Collapsed results: which patterns have them, and how the final matches of an intermediate match are counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import EventPattern, EventQuery, Negation, Strategy, nodes_of
from episode.plan.events.automaton import Loop, Step, Take, variables_in
from episode.plan.events.closures import chooses
from episode.plan.events.conditions import Conjunct, JoinTest, event_variables
from episode.plan.events.consistency import ClosurePredicate, adjacent_form, compared_count
from episode.plan.events.postponed import AUTO, PatternSplit, reason_for_runs
from episode.plan.expressions import (
    COMPARISONS,
    NEGATED,
    Apply,
    Current,
    Exists,
    Expression,
    Load,
    Navigated,
    Running,
    conjuncts,
    is_comparison,
    is_operation,
    walk,
    with_operands,
)

# Collapsed results: the patterns that do not have them.

PLAIN = "Ask for the matches themselves: leave COLLAPSED out."


def check_collapsed(query: EventQuery, pattern: EventPattern, strategy: Strategy, closure: str) -> None:
    """Intermediate matches are those of closures of SEQ under skip-till-any-match."""
    place = query.collapsed or query.source.pattern
    if strategy is not Strategy.ANY:
        message = f"Results are collapsed under skip-till-any-match, not under {strategy.value}."
        hint = "Leave COLLAPSED out: each run gives one match."
        raise query.source.error(EpisodeUnsupportedError, message, place, hint)
    if closure != AUTO:
        message = (
            f"Collapsed results are made by pattern matching alone; Tuning(closure={closure!r}) sets how choices are "
            "made."
        )
        raise query.source.error(EpisodeAnalysisError, message, place, "Leave one of the two out.")
    if not chooses(pattern):
        message = "There is nothing to collapse: the pattern has no closure that chooses its events."
        hint = "Closures inside SEQ choose: SEQ(A a, B+ b[], C c)."
        raise query.source.error(EpisodeAnalysisError, message, place, hint)
    reason = reason_for_runs(pattern, whole=True)
    if reason is not None:
        message = f"The results cannot be collapsed: {reason}."
        raise query.source.error(EpisodeUnsupportedError, message, query.source.pattern, PLAIN)


def check_parted(query: EventQuery, parted: PatternSplit, kept: list[Conjunct], closures: frozenset[str]) -> None:
    """Nothing may depend on the choice that is not counted with."""
    for node in nodes_of(parted.constructing):
        if isinstance(node, Negation):
            message = "The results cannot be collapsed: whether this negation holds depends on which events are chosen."
            raise query.source.error(EpisodeUnsupportedError, message, node.span, PLAIN)
    for conjunct in kept:
        if conjunct.variables & closures:
            message = "The results cannot be collapsed: Spark evaluates this condition on finished matches."
            raise query.source.error(EpisodeUnsupportedError, message, conjunct.scalar.span, PLAIN)


# Collapsed results: how the final matches of an intermediate match are counted.
#
# An intermediate match has the single events, and of each closure all events that a choice may have. The conditions
# left to test decide how its choices are counted. With these, by dynamic programming:
#
# * bounds of count(b[]),
# * max(b[].x) or min(b[].x) compared with single events: it holds for all events of a choice (true-value consistent),
#   or for one of them at least (false-value consistent),
# * conditions on b[1] or b[last] and single events,
# * conditions on b[i] and b[i-1] and single events, and `b[i].x > max(b[..i-1].x)`, which is equivalent to such a one.
#
# With any other condition the choices are counted by enumerating them.

BEFORE = "@before"
"""Suffix of the name of a closure, for the event that is chosen right before another."""
MOST_CONDITIONS = 4
"""Most conditions that some event of a choice must satisfy: counts are kept for every set of them."""


@dataclass(frozen=True)
class ClosureCount:
    """Conditions on a choice of events of one closure. may_be_empty: is a choice without events valid?

    least, most: numbers of events. every: tests of all events of a choice; some: for each of these, one event must pass
    all tests. first, last: tests of the first and the last event. adjacent: tests of an event and the one before it.
    """

    variable: str
    may_be_empty: bool
    least: int
    most: int | None = None
    every: tuple[JoinTest, ...] = ()
    some: tuple[JoinTest, ...] = ()
    first: tuple[JoinTest, ...] = ()
    last: tuple[JoinTest, ...] = ()
    adjacent: tuple[JoinTest, ...] = ()

    @property
    def tests(self) -> list[JoinTest]:
        return [*self.every, *self.some, *self.first, *self.last, *self.adjacent]


@dataclass(frozen=True)
class AlternativeCount:
    """One sequence of the pattern: its single events, and the closures between two of them, side by side."""

    single: tuple[str, ...]
    gaps: tuple[tuple[ClosureCount, ...], ...]


@dataclass(frozen=True)
class Collapse:
    """The way to count final matches. enumerated: conditions for which they are made instead (plan.construction).

    exact: as DECIMAL(38, 0), else as double."""

    alternatives: tuple[AlternativeCount, ...]
    enumerated: tuple[str, ...] = ()
    exact: bool = True

    @property
    def tests(self) -> list[JoinTest]:
        return [test for one in self.alternatives for gap in one.gaps for closure in gap for test in closure.tests]

    @property
    def expressions(self) -> list[Expression]:
        return [test.expression for test in self.tests]


def plan_counts(alternatives: list[tuple[Step, ...]], late: list[ClosurePredicate], exact: bool) -> Collapse:
    """Plan the count of choices of sequences. late: the conditions that intermediate matches need not satisfy."""
    found: list[AlternativeCount] = []
    enumerated: list[str] = []
    for steps in alternatives:
        said: dict[str, _Said] = {}
        names = set(variables_in(steps))
        for predicate in late:
            if predicate.variables <= names and not _understood(predicate, said):
                enumerated.append(predicate.text)
        found.append(_alternative(steps, said))
    return Collapse(() if enumerated else tuple(found), tuple(dict.fromkeys(enumerated)), exact)


def _alternative(steps: tuple[Step, ...], said: Mapping[str, _Said]) -> AlternativeCount:
    single: list[str] = []
    gaps: list[list[ClosureCount]] = [[]]
    for step in steps:
        if isinstance(step, Take):
            single.append(step.variable)
            gaps.append([])
        elif isinstance(step, Loop):
            body = step.only
            assert body is not None
            gaps[-1].append(said.get(body.variable, _Said()).count(body.variable, step))
    return AlternativeCount(tuple(single), tuple(tuple(gap) for gap in gaps if gap))


@dataclass
class _Said:
    """Conditions on one closure. tests: by fields of ClosureCount. present: does a condition require an event?"""

    least: int = 0
    most: list[int] = field(default_factory=list)
    tests: dict[str, list[JoinTest]] = field(default_factory=lambda: defaultdict(list))
    present: bool = False

    def count(self, variable: str, loop: Loop) -> ClosureCount:
        most = min((*self.most, *(() if loop.maximum is None else (loop.maximum,))), default=None)
        empty = loop.minimum == 0 and self.least == 0 and not self.present and (most is None or most >= 0)
        tests = {kind: tuple(tests) for kind, tests in self.tests.items()}
        return ClosureCount(variable, empty, max(self.least, loop.minimum), most, **tests)


def counting_cost(gap: tuple[ClosureCount, ...]) -> str:
    """Return how many steps counting takes for n events, beyond one for each."""
    if not any(closure.adjacent for closure in gap):
        return ", n steps"
    return ", n log n steps" if all(_is_by_order(closure) for closure in gap) else ", a step for each pair of events"


def _is_by_order(closure: ClosureCount) -> bool:
    """Is an event compared with the one before it by one value of each?"""
    pair = {closure.variable, closure.variable + BEFORE}
    return len(closure.adjacent) < 2 and all(
        test.variables == pair and is_comparison(test.expression) and not is_operation(test.expression, "ne")
        for test in closure.adjacent
    )


# ---- conditions ---------------------------------------------------------------------------------------------------


def _understood(predicate: ClosurePredicate, said: dict[str, _Said]) -> bool:
    """Add a condition to those of its closure, if it is of a kind that can be counted with; return whether it is."""
    expression = predicate.expression
    closed = predicate.whole | (frozenset() if predicate.iterated is None else {predicate.iterated})
    if expression is None or len(closed) != 1:
        return False
    (name,) = closed
    mine = said.setdefault(name, _Said())
    if predicate.iterated is not None:
        return not predicate.whole and predicate.consistency.exempt == 1 and _adjacent(expression, predicate, mine)
    return _count_bound(expression, mine) or _extreme(predicate, name, mine) or _edge(predicate, name, mine)


def _count_bound(expression: Expression, said: _Said) -> bool:
    """`count(b[]) op n`"""
    negated = False
    while is_operation(expression, "not"):
        expression, negated = expression.operands[0], not negated
    if not is_operation(expression, *COMPARISONS):
        return False
    compared = compared_count(NEGATED[expression.operation] if negated else expression.operation, expression.operands)
    if compared is None or compared[0] == "ne":
        return False
    operation, _, number = compared
    least = {"ge": number, "gt": number + 1, "eq": number}.get(operation, 0)
    most = {"le": number, "lt": number - 1, "eq": number}.get(operation)
    if most is not None and most < 0:  # never
        least, most, said.present = 1, 0, True
    said.least = max(said.least, least)
    said.most += [] if most is None else [most]
    return True


def _extreme(predicate: ClosurePredicate, name: str, said: _Said) -> bool:
    """max(b[].x) or min(b[].x) once, compared with single events: holds for all events of a choice, or for one."""
    expression, one = predicate.expression, predicate.consistency
    assert expression is not None
    runnings = {node for node in walk(expression) if isinstance(node, Running)}
    if len(runnings) != 1 or one.true == one.false or one.finite or len(said.tests["some"]) + 2 > MOST_CONDITIONS:
        return False
    (running,) = runnings
    if (
        running.function not in ("max", "min")
        or running.argument is None
        or not is_operation(expression, "gt", "ge", "lt", "le")
    ):
        return False
    if any(isinstance(node, (Load, Exists)) and _reads(node.at, name) for node in walk(expression)):
        return False
    argument = _at(running.argument, {Current(0): Navigated(frozenset((name,)), False, 0, 0)})
    of_event = _replace_expression(expression, running, argument)
    said.present = True
    if one.false or not one.known:
        said.tests["some" if one.false else "every"].append(_test(of_event, predicate.text))
        return True
    null = Apply("is_null", (argument,), "boolean")  # nulls do not count, but one value there must be
    said.tests["every"].append(_test(Apply("or", (null, of_event), "boolean"), predicate.text))
    said.tests["some"].append(_test(Apply("not", (null,), "boolean"), predicate.text))
    return True


def _edge(predicate: ClosurePredicate, name: str, said: _Said) -> bool:
    """b[1] or b[last], with single events."""
    expression = predicate.expression
    assert expression is not None
    if any(isinstance(node, (Running, Exists)) for node in walk(expression)):
        return False
    places = {node.at for node in walk(expression) if isinstance(node, Load) and _reads(node.at, name)}
    if len(places) != 1:
        return False
    (at,) = places
    if not isinstance(at, Navigated) or at.offset != 0:
        return False
    moved = _at(expression, {at: Navigated(frozenset((name,)), False, 0, 0)})
    said.tests["first" if at.first else "last"].append(_test(moved, predicate.text))
    said.present = True
    return True


def _adjacent(expression: Expression, predicate: ClosurePredicate, said: _Said) -> bool:
    """b[i] with b[i-1] and single events."""
    name = predicate.iterated
    assert name is not None
    before = Navigated(frozenset((name,)), False, 1, 0)
    places = {
        Current(0): Navigated(frozenset((name,)), False, 0, 0),
        before: Navigated(frozenset((name + BEFORE,)), False, 0, 0),
    }
    tests = []
    for part in conjuncts(expression):
        form = adjacent_form(part) or part
        for node in walk(form):
            if isinstance(node, (Running, Exists)):
                return False
            if isinstance(node, Load) and _reads(node.at, name) and node.at != before:
                return False
        tests.append(_test(_at(form, places), predicate.text))
    said.tests["adjacent"] += tests
    return True


def _reads(at: object, name: str) -> bool:
    return isinstance(at, Navigated) and (at.labels is None or name in at.labels)


def _test(expression: Expression, text: str) -> JoinTest:
    return JoinTest(expression, event_variables(expression), text)


def _at(expression: Expression, places: Mapping[object, Navigated]) -> Expression:
    """The expression with loads at other rows."""
    if isinstance(expression, Load):
        return replace(expression, at=places.get(expression.at, expression.at), missing=None)
    return with_operands(expression, lambda operand: _at(operand, places))


def _replace_expression(expression: Expression, old: Expression, new: Expression) -> Expression:
    return new if expression == old else with_operands(expression, lambda part: _replace_expression(part, old, new))
