"""How a pattern is evaluated: by a tree of joins, by the automaton, or from intermediate matches.

Two engines: trees of joins (skip-till-any-match without SASE's closures) and the automaton (everything else). A plain
sequence can run on either; the matcher chooses by cost. Closures that choose their events are postponed where they
can be: the tree has intermediate matches, of which final ones are constructed, or only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import EventPattern, Strategy
from episode.plan.events.automaton import AutomatonPlan, is_linear, linear
from episode.plan.events.binding import BoundQuery, check_tree
from episode.plan.events.bounds import bounds_of
from episode.plan.events.closures import chooses, with_nested_negations
from episode.plan.events.conditions import Conjunct, JoinTest
from episode.plan.events.consistency import closure_predicate
from episode.plan.events.cost import automaton_cost, cost_of, left_deep
from episode.plan.events.counting import Collapse, check_collapsed, check_parted, plan_counts
from episode.plan.events.explain import plan_words
from episode.plan.events.explain_closures import engine_costs
from episode.plan.events.postponed import (
    AUTO,
    ON_THE_FLY,
    POSTPONED,
    RUNS,
    Construction,
    Parted,
    part_query,
    places_of,
    reason_for_runs,
)
from episode.plan.events.states import plan_automaton
from episode.plan.events.tree import InSequence, Leaf, Node, Together, TreeTests, logical_tree, tree_tests
from episode.plan.expressions import Apply, Current, Expression, Load, Navigated

if TYPE_CHECKING:
    from episode.plan.events.cost import PhysicalPlan, Shape, Statistics
    from episode.plan.events.plan import EventPlan


@dataclass(frozen=True)
class Engines:
    """What evaluates a pattern. kept: conditions that Spark tests on the matches; the others as in `EventPlan`."""

    tree: Node | None = None
    tests: TreeTests = field(default_factory=TreeTests)
    automaton: AutomatonPlan | None = None
    construction: Construction | None = None
    why_runs: str | None = None
    collapse: Collapse | None = None
    kept: tuple[Conjunct, ...] = ()

    @property
    def expressions(self) -> list[Expression]:
        """All that is evaluated while matching."""
        return evaluated_expressions(self.tests.all, self.automaton, self.construction, self.collapse)


def evaluated_expressions(
    tests: Iterable[JoinTest],
    automaton: AutomatonPlan | None,
    construction: Construction | None,
    collapse: Collapse | None,
) -> list[Expression]:
    """All that is evaluated while matching."""
    found = [test.expression for test in tests]
    if automaton is not None:
        found += [check.expression for check in automaton.checks]
    for part in (construction, collapse):
        if part is not None:
            found += part.expressions
    return found


def choose_engines(
    bound: BoundQuery,
    pattern: EventPattern,
    related: list[Conjunct],
    same: list[str],
    local: dict[str, list[Expression]],
) -> Engines:
    """How a pattern is evaluated with the conditions that relate events.

    same: columns that strict contiguity tests event by event. local: what each event satisfies by itself."""
    if bound.collapsed.asked:
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
    bound: BoundQuery,
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
    collapse = _collapse(bound, parted, local)
    construction = _construction(bound, parted, tests) if collapse.enumerated else None
    return Engines(tree, tests, construction=construction, collapse=collapse, kept=tuple(kept))


def _runs(
    bound: BoundQuery, pattern: EventPattern, related: list[Conjunct], same: list[str], postpones: bool
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
    bound: BoundQuery, pattern: EventPattern, related: list[Conjunct], same: list[str], kept: list[Conjunct]
) -> AutomatonPlan:
    inside = []
    for conjunct in related:
        if bound.compiled(conjunct, conjunct.iterated) is not None:
            inside.append(conjunct)
        elif bound.strategy is Strategy.NEXT or conjunct.variables & bound.negated:
            raise bound.scalars.not_evaluated(conjunct.scalar)
        else:
            kept.append(conjunct)

    def compile_(conjunct: Conjunct, current: str | None) -> Expression:
        expression = bound.compiled(conjunct, current)
        assert expression is not None
        return expression

    def equal(variable: str) -> list[Expression]:
        out: list[Expression] = []
        for column in same:
            type_ = bound.type_of(column)
            start = Load(column, Navigated(None, True, 0, 0), type_)
            out.append(Apply("eq", (Load(column, Current(0), type_), start), "boolean"))
        return out

    forks = bound.strategy is Strategy.NEXT
    return plan_automaton(bound.query, linear(bound.query, pattern, together=forks), inside, compile_, equal, forks)


def _why_runs(bound: BoundQuery, pattern: EventPattern) -> str | None:
    """Why the closures of SEQ are evaluated by runs, one for each choice; None if they are postponed."""
    if bound.closure == RUNS:
        return "asked for by Options(closure='runs')"
    reason = reason_for_runs(pattern)
    if bound.strategy is not Strategy.ANY:
        reason = f"{bound.strategy.value} follows each run by itself"
    if reason is not None and bound.closure != AUTO:
        raise bound.query.source.error(
            EpisodeUnsupportedError,
            f"Options(closure={bound.closure!r}): this pattern cannot be postponed: {reason}.",
            bound.query.source.pattern,
            "Leave closure= out, or write Options(closure='runs').",
        )
    return reason


def _construction(bound: BoundQuery, parted: Parted, tests: TreeTests) -> Construction:
    automaton = _automaton(bound, parted.constructing, list(parted.late), [], [])
    places = [places_of(steps) for group in linear(bound.query, parted.constructing, False) for steps in group]
    early = bool(tests.related) or any(tests.group.values())
    engine = bound.closure
    if engine == AUTO:
        engine = ON_THE_FLY if early else POSTPONED
    made = Construction(
        engine,
        automaton,
        tuple(places),
        postponed=tuple(dict.fromkeys(conjunct.text for conjunct in parted.late)),
        bounds=bounds_of(automaton, bound.closures, frozenset(bound.variables) - bound.closures),
    )
    if bound.closure != POSTPONED:
        return made
    return replace(made, tests=tests.related, group_tests=tests.group)


def _collapse(bound: BoundQuery, parted: Parted, local: dict[str, list[Expression]]) -> Collapse:
    sequences = [steps for group in linear(bound.query, parted.constructing, False) for steps in group]
    late = [
        closure_predicate(conjunct, bound.compiled(conjunct, conjunct.iterated), bound.closures, local)
        for conjunct in parted.late
    ]
    return plan_counts(sequences, late, bound.collapsed.exact)


# The plans that were not chosen: other trees of the same pattern, the automaton, other engines of closures; and what
# each would cost by the same statistics.


MOST_PLACES = 6
"""Of a sequence of so many places (42 trees), all trees are compared; of longer ones, those that lean to a side."""
MOST_RIVALS = 6


@dataclass(frozen=True)
class Rival:
    """A plan in words, its cost, and whether it is the one in use."""

    words: str
    cost: float
    chosen: bool


def rivals(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> list[Rival]:
    """The plan in use, then others, the cheapest first; of many, the dearest besides."""
    if plan.construction is not None:
        costs = engine_costs(plan, physical, statistics)
        return [Rival(engine, cost, number == 0) for number, (engine, cost) in enumerate(costs.items())]
    tree = replace(physical, automaton=False)
    mine = Rival(plan_words(plan, physical), cost_of(plan, statistics, physical), True)
    others = [
        Rival(plan_words(plan, other), cost_of(plan, statistics, other), False)
        for other in _other_trees(plan, tree)
        if physical.automaton or other.shapes != physical.shapes
    ]
    if plan.automaton is not None and not physical.automaton:
        others.append(Rival("the automaton", automaton_cost(plan, statistics), False))
    others.sort(key=lambda rival: rival.cost)
    if len(others) > MOST_RIVALS:
        others = [*others[: MOST_RIVALS - 1], others[-1]]
    return [mine, *others]


def _other_trees(plan: EventPlan, physical: PhysicalPlan) -> Iterator[PhysicalPlan]:
    """Plans whose largest sequence or conjunction has another shape, and all others the same; and this one."""
    joined = [(node, shape) for node, shape in physical.shapes if not isinstance(shape, int)]
    if not joined:
        return
    node, _ = max(joined, key=lambda pair: len(_places(pair[0])))
    count = len(_places(node))
    shapes = list(_shapes(0, count)) if count <= MOST_PLACES else [left_deep(count), _right_deep(0, count)]
    for shape in shapes:
        yield replace(physical, shapes=tuple((one, shape if one == node else own) for one, own in physical.shapes))


def _places(node: Node) -> tuple[Node, ...]:
    if isinstance(node, InSequence):
        return node.places
    return node.parts if isinstance(node, Together) else (() if isinstance(node, Leaf) else node.parts)


def _shapes(begin: int, end: int) -> Iterator[Shape]:
    """All binary trees over the places from one on up to another."""
    if end - begin == 1:
        yield begin
        return
    for split in range(begin + 1, end):
        for left in _shapes(begin, split):
            for right in _shapes(split, end):
                yield left, right


def _right_deep(begin: int, end: int) -> Shape:
    return begin if end - begin == 1 else (begin, _right_deep(begin + 1, end))
