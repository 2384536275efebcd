"""The engines that evaluate a pattern: a tree of joins, the automaton, or a construction from intermediate matches.

Trees of joins evaluate skip-till-any-match without SASE's closures, the automaton everything else. A plain sequence can
run on either; the matcher chooses by cost. Closures that choose their events are postponed if possible: the tree has
intermediate matches, from which final ones are constructed, or only counted. See decisions 66 and 70.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import EventPattern, Strategy
from episode.plan.events.automaton import AutomatonPlan, is_linear, linear, sequences_of
from episode.plan.events.binding import BoundEventQuery, check_tree
from episode.plan.events.bounds import bounds_of
from episode.plan.events.closures import chooses, with_nested_negations
from episode.plan.events.conditions import Conjunct, JoinTest
from episode.plan.events.consistency import closure_predicate
from episode.plan.events.counting import Collapse, check_collapsed, check_parted, plan_counts
from episode.plan.events.postponed import (
    AUTO,
    ON_THE_FLY,
    POSTPONED,
    RUNS,
    Construction,
    PatternSplit,
    part_query,
    places_of,
    reason_for_runs,
)
from episode.plan.events.states import plan_automaton
from episode.plan.events.tree import Node, TreeTests, logical_tree, tree_tests
from episode.plan.expressions import Apply, Current, Expression, Load, Navigated


@dataclass(frozen=True)
class Engines:
    """The engines of a pattern. kept: conditions that Spark tests on the matches; the others as in `EventPlan`."""

    tree: Node | None = None
    tests: TreeTests = field(default_factory=TreeTests)
    automaton: AutomatonPlan | None = None
    construction: Construction | None = None
    why_runs: str | None = None
    collapse: Collapse | None = None
    kept: tuple[Conjunct, ...] = ()


def evaluated_expressions(
    tests: Iterable[JoinTest],
    automaton: AutomatonPlan | None,
    construction: Construction | None,
    collapse: Collapse | None,
) -> list[Expression]:
    found = [test.expression for test in tests]
    if automaton is not None:
        found += [check.expression for check in automaton.checks]
    for part in (construction, collapse):
        if part is not None:
            found += part.expressions
    return found


def choose_engines(
    bound: BoundEventQuery,
    pattern: EventPattern,
    related: list[Conjunct],
    same: list[str],
    local: dict[str, list[Expression]],
) -> Engines:
    """Choose the engines for a pattern with the conditions that relate events.

    same: columns that strict contiguity tests event by event. local: the conditions on each event by itself."""
    if bound.query.collapsed is not None:
        return _intermediate(bound, pattern, related, same, local)
    postpones = chooses(pattern) and bound.imprecise is None
    followed = bound.imprecise is not None or bound.strategy is not Strategy.ANY or with_nested_negations(pattern)
    if followed or postpones:
        return _runs(bound, pattern, related, same, postpones)
    tree, kept = logical_tree(bound.query, pattern), list[Conjunct]()
    check_tree(bound, tree)
    tests = tree_tests(bound, tree, related, kept)
    automaton = _automaton(bound, pattern, related, same, []) if is_linear(pattern) and not kept else None
    return Engines(tree, tests, automaton, kept=tuple(kept))


def _intermediate(
    bound: BoundEventQuery,
    pattern: EventPattern,
    related: list[Conjunct],
    same: list[str],
    local: dict[str, list[Expression]],
) -> Engines:
    """The tree of intermediate matches, and how many final ones each stands for."""
    kept = list[Conjunct]()
    check_collapsed(bound.query, pattern, bound.strategy, bound.closure)
    _automaton(bound, pattern, related, same, kept)  # its errors are those of the matches enumerated
    parted = part_query(pattern, _without(related, kept), bound.closures)
    check_parted(bound.query, parted, kept, bound.closures)
    tree = logical_tree(bound.query, parted.matching)
    tests = tree_tests(bound, tree, list(parted.early), kept)
    late = [
        closure_predicate(conjunct, bound.scalars.compile(conjunct.scalar, conjunct.iterated), bound.closures, local)
        for conjunct in parted.late
    ]
    collapse = plan_counts(sequences_of(bound.query, parted.constructing), late, bound.exact)
    construction = _construction(bound, parted, tests) if collapse.enumerated else None
    return Engines(tree, tests, construction=construction, collapse=collapse, kept=tuple(kept))


def _runs(
    bound: BoundEventQuery, pattern: EventPattern, related: list[Conjunct], same: list[str], postpones: bool
) -> Engines:
    """The automaton, and for closures that choose their events the tree of all that they choose from."""
    kept = list[Conjunct]()
    automaton = _automaton(bound, pattern, related, same, kept)
    why = _why_runs(bound, pattern) if postpones else None
    if why is not None or not postpones:
        return Engines(automaton=automaton, why_runs=why, kept=tuple(kept))
    parted = part_query(pattern, _without(related, kept), bound.closures)
    tree = logical_tree(bound.query, parted.matching)
    tests = tree_tests(bound, tree, list(parted.early), kept)
    construction = _construction(bound, parted, tests)
    if construction.engine == POSTPONED:
        tests = TreeTests((), tests.absent, dict.fromkeys(tests.group, ()))
    other = automaton if bound.closure == AUTO else None
    return Engines(tree, tests, other, construction, kept=tuple(kept))


def _without(conjuncts: list[Conjunct], kept: list[Conjunct]) -> list[Conjunct]:
    return [conjunct for conjunct in conjuncts if not any(conjunct is one for one in kept)]


def _automaton(
    bound: BoundEventQuery, pattern: EventPattern, related: list[Conjunct], same: list[str], kept: list[Conjunct]
) -> AutomatonPlan:
    inside = []
    for conjunct in related:
        if bound.scalars.compile(conjunct.scalar, conjunct.iterated) is not None:
            inside.append(conjunct)
        elif bound.strategy is Strategy.NEXT or conjunct.variables & bound.negated:
            raise bound.scalars.not_evaluated(conjunct.scalar)
        else:
            kept.append(conjunct)

    equal: list[Expression] = []
    for column in same:
        here, start = (Load(column, at, bound.type_of(column)) for at in (Current(0), Navigated(None, True, 0, 0)))
        equal.append(Apply("eq", (here, start), "boolean"))
    forks = bound.strategy is Strategy.NEXT
    return plan_automaton(
        bound.query, linear(bound.query, pattern, together=forks), inside, bound.scalars.compile, equal, forks
    )


def _why_runs(bound: BoundEventQuery, pattern: EventPattern) -> str | None:
    """Why the closures of SEQ are evaluated by runs, one for each choice; None if they are postponed."""
    if bound.closure == RUNS:
        return "asked for by Tuning(closure='runs')"
    reason = reason_for_runs(pattern)
    if bound.strategy is not Strategy.ANY:
        reason = f"{bound.strategy.value} follows each run by itself"
    if reason is not None and bound.closure != AUTO:
        message = f"Tuning(closure={bound.closure!r}): this pattern cannot be postponed: {reason}."
        hint = "Leave closure= out, or write Tuning(closure='runs')."
        raise bound.query.source.error(EpisodeUnsupportedError, message, bound.query.source.pattern, hint)
    return reason


def _construction(bound: BoundEventQuery, parted: PatternSplit, tests: TreeTests) -> Construction:
    automaton = _automaton(bound, parted.constructing, list(parted.late), [], [])
    places = [places_of(steps) for steps in sequences_of(bound.query, parted.constructing)]
    early = bool(tests.related) or any(tests.group.values())
    left = tests if bound.closure == POSTPONED else TreeTests()
    return Construction(
        bound.closure if bound.closure != AUTO else ON_THE_FLY if early else POSTPONED,
        automaton,
        tuple(places),
        left.related,
        left.group,
        tuple(dict.fromkeys(conjunct.text for conjunct in parted.late)),
        bounds_of(automaton, bound.closures, frozenset(bound.variables) - bound.closures),
    )
