"""The plan of an event pattern in words: classes, conditions and where they are tested, the tree and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from episode.lang.events.syntax import Strategy
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.consistency import explained
from episode.plan.events.cost import automaton_cost, cost_of, default_statistics, first_place, search
from episode.plan.events.counting import collapse_lines
from episode.plan.events.explain_closures import closure_lines
from episode.plan.events.explain_imprecise import imprecise_lines, imprecise_state
from episode.plan.events.plan_nodes import item_sign, plan_tree
from episode.plan.events.tree import Gap, Leaf, Node, OneOf, Together
from episode.plan.expressions import render

if TYPE_CHECKING:
    from episode.plan.events.cost import Actual, PhysicalPlan, Shape, Statistics
    from episode.plan.events.plan import Change, EventPlan, EventReport
    from episode.plan.events.plan_nodes import PlanNode

MOST_LINES = 60


def explain_event_pattern(plan: EventPlan) -> list[str]:
    """Lines for one event pattern, before any event has been seen."""
    written = plan.source.written(plan.source.pattern)
    within = "no window"
    if plan.window is not None:
        within = f"window {plan.source.written(plan.window)}"
    lines = [
        f"EVENTS: {' '.join(written.split())}",
        f"  {plan.strategy.value}, {within}; event time {plan.times.end}"
        + (f" (start {plan.times.start})" if plan.times.start and plan.imprecise is None else ""),
        *imprecise_lines(plan),
        f"  partitions: {', '.join(plan.keys) or 'one (no key and no [attribute])'}",
        *(f"  {note}" for note in plan.notes),
        "  conditions on single events (once per row, before matching):",
    ]
    for name in plan.variables:
        parts = " AND ".join(render(part) for part in plan.local[name])
        lines.append(f"    {name}: {parts or 'any event'}")
    related = [*plan.tests, *(t for tests in (*plan.absent_tests.values(), *plan.group_tests.values()) for t in tests)]
    if related:
        lines.append("  conditions that relate events (where their events meet):")
        lines += [f"    {test.text}" for test in related]
    if plan.keeps:
        kept = [measure.original for measure in plan.measures.measures[-plan.keeps :]]
        lines += ["  conditions on finished matches (evaluated by Spark):", *(f"    {text}" for text in kept)]
    if plan.predicates:
        every = plan.strategy is Strategy.ANY
        follows = "and what follows" if every else "(each run tests them as it takes events)"
        lines.append(f"  conditions on closures, their classes {follows}:")
        lines += [f"    {explained(predicate, every)}" for predicate in plan.predicates]
    lines += _engine(plan)
    lines += [] if plan.collapse is None else [f"  {line}" for line in collapse_lines(plan.collapse)]
    lines.append(f"  columns moved: {', '.join(plan.input_columns)}")
    lines += [f"  computed by Spark before matching: {name} = {sql}" for sql, name in plan.derived]
    lines.append(f"  state: {state_words(plan)}")
    return lines


def _engine(plan: EventPlan) -> list[str]:
    if plan.tree is None:
        assert plan.automaton is not None
        closures = closure_lines(plan, None, default_statistics(plan))
        return [*closures, "  automaton:", *automaton_lines(plan.automaton)]
    statistics = default_statistics(plan)
    physical = search(plan, statistics)
    return [
        *closure_lines(plan, physical, statistics),
        "  tree, as long as nothing is known of the events (it is chosen again when they are seen):",
        *(f"    {line}" for line in tree_lines(plan, physical, statistics)),
        *other_plans(plan, physical, statistics),
    ]


def other_plans(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> list[str]:
    """The automaton beside a tree, where it could run instead."""
    if plan.automaton is None or plan.construction is not None:
        return []
    cost = automaton_cost(plan, statistics)
    chosen = "chosen" if physical.automaton else f"the tree costs {physical.cost:,.0f}"
    return [f"  automaton instead: cost {cost:,.0f} ({chosen})"]


def tree_lines(
    plan: EventPlan, physical: PhysicalPlan, statistics: Statistics, actual: Actual | None = None
) -> list[str]:
    """The tree with estimates: records per window and cost up to here; and what they really were, where it is known."""
    return _node_lines(plan_tree(plan, physical, statistics, actual), "")


def plan_words(plan: EventPlan, physical: PhysicalPlan) -> str:
    """A plan in one line: what is joined first stands in brackets."""
    if physical.automaton:
        return "the automaton"
    assert plan.tree is not None
    words = _words(plan.tree, physical)
    return words if isinstance(plan.tree, Leaf) else words[1:-1]


def _words(node: Node, physical: PhysicalPlan) -> str:
    if isinstance(node, Leaf):
        return node.variable
    if isinstance(node, OneOf):
        return f"({' | '.join(_words(part, physical) for part in node.parts)})"
    shape = physical.shape(node)
    if isinstance(node, Together):
        return _joined(" & ", [_shape_words(shape, node.parts, None, physical), *map(item_sign, node.absent)])
    inner = _shape_words(shape, node.places, node.gaps, physical)
    return _joined("; ", [*map(item_sign, node.gaps[0]), inner, *map(item_sign, node.gaps[-1])])


def _shape_words(shape: Shape, places: tuple[Node, ...], gaps: tuple[Gap, ...] | None, physical: PhysicalPlan) -> str:
    if isinstance(shape, int):
        return _words(places[shape], physical)
    left, right = (_shape_words(side, places, gaps, physical) for side in shape)
    if gaps is None:
        return _joined(" & ", [left, right])
    return _joined("; ", [left, *map(item_sign, gaps[first_place(shape[1])]), right])


def _joined(sign: str, parts: list[str]) -> str:
    return f"({sign.join(parts)})" if len(parts) > 1 else parts[0]


def _node_lines(node: PlanNode, indent: str) -> list[str]:
    edges = [f"{indent}at the edge: {item}" for item in node.edges]
    if node.is_leaf:
        in_fact = "" if node.actual is None else f"; in fact {node.actual[0]:,.1f}"
        return [*edges, f"{indent}{node.what}  (about {node.estimated[0]:,.1f} per window{in_fact})"]
    about = _about(node.estimated, node.actual) if node.last or node.actual is not None else ""
    between = "".join(f"; {item}" for item in node.between)
    on = f" on {' AND '.join(node.on)}" if node.on else ""
    parts = [line for part in node.children for line in _node_lines(part, indent + "  ")]
    return [*edges, f"{indent}{node.what}{between}{on}{about}", *parts]


def _about(estimate: tuple[float, float], found: tuple[float, float] | None) -> str:
    """(records per window, cost) as estimated, and in fact."""
    in_fact = "" if found is None else f"; in fact {found[0]:,.1f}, cost {found[1]:,.0f}"
    return f"  (about {estimate[0]:,.1f} per window, cost {estimate[1]:,.0f}{in_fact})"


def automaton_lines(automaton: AutomatonPlan) -> list[str]:
    lines = []
    for state in range(automaton.states):
        marks = [*(["start"] if state in automaton.starts else []), *(["match"] if automaton.accepting[state] else [])]
        lines.append(f"    state {state}{' (' + ', '.join(marks) + ')' if marks else ''}")
        for transition in automaton.transitions:
            if transition.source != state:
                continue
            checks = " AND ".join(automaton.checks[number].text for number in transition.checks)
            absent = ", ".join(absent_words(automaton, number) for number, _ in transition.crosses)
            conditions = "; ".join(part for part in (checks, absent) if part)
            lines.append(
                f"      take {transition.variable} → {transition.target}{' if ' + conditions if conditions else ''}"
            )
    return lines


def absent_words(automaton: AutomatonPlan, number: int) -> str:
    """A negation of an automaton, in words."""
    negation = automaton.negations[number]
    conditions = " AND ".join(automaton.checks[check].text for check in negation.checks)
    if negation.start is not None:
        return f"no match from state {negation.start} on ({', '.join(negation.variables)})"
    return f"no {negation.variables[0]}{' with ' + conditions if conditions else ''}"


def state_words(plan: EventPlan) -> str:
    """What bounds the events that a partition must keep while it waits."""
    if plan.within is None:
        return "not bounded: there is no WITHIN (a table is matched as a whole; a stream is refused)"
    if plan.imprecise is not None:
        return imprecise_state(plan)
    contiguous = plan.strategy in (Strategy.STRICT, Strategy.PARTITION)
    which = "all events" if contiguous else "the events that qualify for a variable"
    return f"{which} of the last {'two windows' if plan.windows > 1 else 'window'} per partition"


def explain_reports(plan: EventPlan, reports: list[EventReport]) -> list[str]:
    """What matchers did: the sums of their nodes, the last tree of the busiest one, and the plans they took."""
    if not reports:
        return ["  run: there were no events"]
    rounds, matches = sum(one.rounds for one in reports), sum(one.matches for one in reports)
    lines = [f"  run: {len(reports):,} parts of the input, {rounds:,} rounds, {matches:,} matches"]
    nodes: dict[str, tuple[int, int]] = {}
    for one in reports:
        for name, (tried, records) in one.nodes.items():
            before = nodes.get(name, (0, 0))
            nodes[name] = before[0] + tried, before[1] + records
    lines += [f"    {name}: {tried:,} pairs tried, {records:,} records" for name, (tried, records) in nodes.items()]
    automata = sum(one.plan is None or one.plan.automaton for one in reports)
    engines = [("a tree", len(reports) - automata), ("the automaton", automata)]
    lines.append(f"  plans at the end: {', '.join(f'{name} ({parts:,})' for name, parts in engines if parts)}")
    lines += _last_plan(plan, max(reports, key=lambda one: one.matches))
    if any(one.changes for one in reports):
        lines.append("  plans taken:")
    for one in reports:
        for change in one.changes:
            new = f"{change.new_cost:,.0f}"
            cost = f"cost {new}" if change.old_cost is None else f"cost {change.old_cost:,.0f} → {new}"
            reason = reason_of(plan, change)
            lines.append(f"    round {change.round}: {reason}; {plan_words(plan, change.plan)}, {cost}")
            if len(lines) > MOST_LINES:
                return [*lines, "    …"]
    return lines


def _last_plan(plan: EventPlan, busiest: EventReport) -> list[str]:
    """The plan of a part at its end, beside what was counted."""
    physical = busiest.plan
    if plan.tree is None or physical is None:
        return []
    statistics = busiest.statistics or default_statistics(plan)
    lines = closure_lines(plan, physical, statistics)
    if not physical.automaton:
        lines += ["  tree of the busiest part, with estimates from its events and what was counted since it was taken:"]
        lines += [f"    {line}" for line in tree_lines(plan, physical, statistics, busiest.actual)]
    return lines + other_plans(plan, replace(physical, cost=cost_of(plan, statistics, physical)), statistics)


def reason_of(plan: EventPlan, change: Change) -> str:
    """Why a plan was taken."""
    moved = change.moved
    if moved is None:
        return "first events seen"
    if isinstance(moved.of, int):
        return f"selectivity of {plan.tests[moved.of].text}: {moved.before:.3f} → {moved.now:.3f}"
    return f"events of {moved.of} per window: {moved.before:,.2f} → {moved.now:,.2f}"
