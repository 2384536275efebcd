"""The plan of an event pattern as a section: the tree with estimates and what was counted, or the automaton; what the
other plans would cost."""

from __future__ import annotations

from dataclasses import replace

from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.closures import shown as shown_cost
from episode.plan.events.cost import Actual, PhysicalPlan, Statistics, cost_of, default_statistics, search
from episode.plan.events.engines import rivals
from episode.plan.events.explain import absent_words, plan_words, reason_of, state_words
from episode.plan.events.plan import EventPlan, EventReport
from episode.plan.events.plan_nodes import PlanNode, plan_tree
from episode.plan.expressions import render
from episode.queries.explaining import ExplainedPattern
from episode.see.pictures.plans.automaton import drawn_automaton
from episode.see.pictures.plans.blocks import BAR, CODE, NUMBER, Block, Column, Diagram, Facts, Section, Table, bars
from episode.see.pictures.plans.drawing import CODE_SIZE, Drawing, wrapped
from episode.see.pictures.plans.facts import reason_facts, run_facts
from episode.see.pictures.plans.tree import TreeBox, drawn_tree

CONDITION_WIDTH = 230.0
MOST_CHANGES = 12


def event_section(explained: ExplainedPattern, plan: EventPlan) -> Section:
    """One event pattern."""
    reports = [EventReport.from_json(one) for one in explained.reports or ()]
    title, *_ = explained.lines
    blocks: list[Block] = [*_plan_blocks(plan, reports), _conditions(plan)]
    if explained.reports is not None:
        blocks += _run(explained, plan, reports)
    blocks.append(_facts(explained, plan))
    return Section(title, tuple(blocks), "\n".join(explained.lines))


def _plan_blocks(plan: EventPlan, reports: list[EventReport]) -> list[Block]:
    if plan.tree is None:
        assert plan.automaton is not None
        return [*_automaton(plan.automaton, "Automaton: states, and the events that lead from one to the next")]
    busiest = max(reports, key=lambda one: one.matches) if reports else None
    statistics = default_statistics(plan)
    physical, actual = search(plan, statistics), None
    which = "before anything is known of the events"
    if busiest is not None and busiest.plan is not None:
        statistics, actual = busiest.statistics or statistics, busiest.actual
        physical = replace(busiest.plan, cost=cost_of(plan, statistics, busiest.plan))
        which = "of the busiest part, with estimates from its events"
    blocks: list[Block] = []
    if physical.automaton and plan.automaton is not None:
        blocks += _automaton(plan.automaton, f"Automaton, which is chosen ({which})")
    else:
        blocks.append(Diagram(f"Tree plan, {which}; thicker lines carry more records",
                              _tree(plan, physical, statistics, actual)))  # fmt: skip
    return [*blocks, *_costs(plan, physical, statistics)]


def _tree(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics, actual: Actual | None) -> Drawing:
    return drawn_tree(_box(plan_tree(plan, physical, statistics, actual)))


def _box(node: PlanNode) -> TreeBox:
    records, cost = node.estimated
    lines = [(node.what, "code name" if node.is_leaf else "name")]
    lines += [(f"at the edge: {item}", "small") for item in node.edges]
    lines += [(item, "small") for item in node.between]
    for number, condition in enumerate(node.on):
        text = f"{'on' if number == 0 else 'AND'} {condition}"
        lines += [(line, "code") for line in wrapped(text, CONDITION_WIDTH, CODE_SIZE, code=True)]
    about = f"about {records:,.1f} per window"
    lines.append((about if node.is_leaf else f"{about}, cost {shown_cost(cost)}", "number"))
    if node.actual is not None:
        found, spent = node.actual
        in_fact = f"in fact {found:,.1f}" if node.is_leaf else f"in fact {found:,.1f}, cost {spent:,.0f}"
        lines.append((in_fact, "number name"))
    flow = records if node.actual is None else node.actual[0]
    title = "; ".join(line for line, _ in lines)
    return TreeBox(tuple(lines), title, "node", flow, tuple(map(_box, node.children)))


def _costs(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> list[Block]:
    found = rivals(plan, physical, statistics)
    if len(found) < 2:
        return []
    shown = bars([one.cost for one in found], [shown_cost(one.cost) for one in found], {0})
    rows = tuple((one.words, "in use" if one.chosen else "", bar) for one, bar in zip(found, shown, strict=True))
    what = "engine" if plan.construction is not None else "plan: what is joined first stands in brackets"
    columns = (
        Column(what, CODE),
        Column(""),
        Column("cost per window", BAR),
    )
    return [Table("This plan, and those that were not chosen", columns, rows, frozenset({0}))]


def _automaton(automaton: AutomatonPlan, caption: str) -> list[Block]:
    rows = []
    for one in automaton.transitions:
        checks = " AND ".join(automaton.checks[number].text for number in one.checks)
        absent = ", ".join(absent_words(automaton, number) for number, _ in one.crosses)
        rows.append((f"{one.source} → {one.target}", one.variable, checks, absent))
    columns = (Column("states", NUMBER), Column("takes", CODE), Column("if", CODE), Column("and none of"))
    table = Table("Transitions", columns, tuple(rows))
    return [Diagram(caption, drawn_automaton(automaton)), table]


def _conditions(plan: EventPlan) -> Table:
    rows = []
    for name in plan.variables:
        parts = " AND ".join(render(part) for part in plan.local[name])
        rows.append((name, "on single events (once per row)", parts or "any event"))
    between = (*plan.absent_tests.values(), *plan.group_tests.values())
    for test in (*plan.tests, *(test for tests in between for test in tests)):
        rows.append((", ".join(sorted(test.variables)), "relates events", test.text))
    if plan.keeps:
        for measure in plan.measures.measures[-plan.keeps :]:
            rows.append(("match", "on finished matches (by Spark)", measure.original))
    rows += [("closure", "on closures", predicate.text) for predicate in plan.predicates]
    columns = (Column("of", CODE), Column("tested"), Column("condition", CODE))
    return Table("Conditions", columns, tuple(rows))


def _run(explained: ExplainedPattern, plan: EventPlan, reports: list[EventReport]) -> list[Block]:
    if not reports:
        return [Facts((("run", "there were no events"),))]
    totals: dict[str, tuple[int, int]] = {}
    for one in reports:
        for name, (tried, records) in one.nodes.items():
            before = totals.get(name, (0, 0))
            totals[name] = before[0] + tried, before[1] + records
    blocks: list[Block] = [
        Facts(
            (
                ("parts of the input", f"{len(reports):,}"),
                ("rounds", f"{sum(one.rounds for one in reports):,}"),
                ("matches", f"{sum(one.matches for one in reports):,}"),
                *run_facts(explained),
            )
        )
    ]
    if totals:
        joins = tuple((name, f"{tried:,}", f"{records:,}") for name, (tried, records) in totals.items())
        named = (Column("join", CODE), Column("pairs tried", NUMBER), Column("records made", NUMBER))
        blocks.append(Table("What the joins did, in all parts", named, joins))
    changes = [change for one in reports for change in one.changes][:MOST_CHANGES]
    if changes:
        rows = tuple(
            (
                str(change.round),
                reason_of(plan, change),
                plan_words(plan, change.plan),
                "" if change.old_cost is None else shown_cost(change.old_cost),
                shown_cost(change.new_cost),
            )
            for change in changes
        )
        columns = (
            Column("round", NUMBER), Column("why"), Column("plan", CODE), Column("cost of the plan before", NUMBER),
            Column("its cost", NUMBER),
        )  # fmt: skip
        blocks.append(Table("Plans taken", columns, rows))
    return blocks


def _facts(explained: ExplainedPattern, plan: EventPlan) -> Facts:
    window = "none" if plan.window is None else plan.source.written(plan.window)
    items = [
        ("strategy", plan.strategy.value),
        ("window", window),
        ("event time", plan.times.end),
        ("partitions", ", ".join(plan.keys) or "one (no key and no [attribute])"),
        *(("note", note) for note in plan.notes),
        ("columns moved", ", ".join(plan.input_columns)),
        *((f"computed by Spark: {name}", sql) for sql, name in plan.derived),
        ("state", state_words(plan)),
    ]
    return Facts((*items, *reason_facts(explained)))
