"""Sections of event patterns: conditions, the tree or the automaton, and its cost; at the end, those with AGGREGATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from episode.lang.events.syntax import Strategy
from episode.plan.events.aggregated import AggregatedPlan, Alternative, GroupedBy
from episode.plan.events.aggregated_conditions import TrendPlace
from episode.plan.events.automaton import AutomatonPlan, Transition
from episode.plan.events.closures import cost_text
from episode.plan.events.consistency import predicate_text
from episode.plan.events.cost import PhysicalPlan, Statistics, automaton_cost, cost_of, default_statistics, search
from episode.plan.events.counting import Collapse, counting_cost
from episode.plan.events.physical_plan import plan_tree, plan_words, rivals
from episode.plan.events.plan import AggregatedReport, EventPlan, EventReport, PlanChange
from episode.plan.events.postponed import ON_THE_FLY, POSTPONED, RUNS
from episode.plan.expressions import Expression, render
from episode.plan.sections import (
    BAR,
    CODE,
    NO_EVENTS,
    NUMBER,
    PICTURE,
    TEXT,
    Bar,
    Cell,
    Column,
    Diagram,
    FactLine,
    Rail,
    RailChoice,
    RailLoop,
    RailRow,
    Rails,
    RailStop,
    Section,
    SectionBlock,
    Table,
    cut_table,
    fact,
    moved_columns,
)
from episode.plan.types import is_integer
from episode.words import SECOND

ENGINE_WORDS = {
    POSTPONED: "all choices of events share the matching; conditions are tested when choices are made",
    ON_THE_FLY: "all choices of events share the matching; conditions are tested as early as they can be",
    RUNS: "a run for each choice of events",
}
MOST_CHANGES = 50
THICK = "thicker lines carry more records"


def event_section(plan: EventPlan, reports: Sequence[str] | None = None) -> Section:
    """Build the section of one event pattern. reports: of a run (JSON)."""
    parsed = [EventReport.from_json(one) for one in reports or ()]
    run = () if reports is None else tuple(_run(plan, parsed)) if parsed else (NO_EVENTS,)
    start = f" (start {plan.times.start})" if plan.times.start and plan.imprecise is None else ""
    related = [*plan.tests, *(t for tests in (*plan.absent_tests.values(), *plan.group_tests.values()) for t in tests)]
    kept = plan.measures.measures[-plan.keeps :] if plan.keeps else ()
    chosen = plan.strategy is Strategy.ANY and plan.construction is not None
    counted = (
        "(the choices that satisfy them are counted)" if plan.collapse else "(each run tests them as it takes events)"
    )
    follows = "and what follows" if chosen else counted
    bounded = _bounded_conditions(plan)
    blocks = (
        _header(plan, plan.strategy.value, plan.times.end + start),
        *_imprecise(plan),
        fact("partitions", ", ".join(plan.keys) or "one (no key and no [attribute])"),
        *_notes(plan.notes),
        _single_events(plan.variables, plan.local),
        *_condition_list("conditions that relate events (where their events meet)", [test.text for test in related]),
        *_condition_list("conditions on finished matches (evaluated by Spark)", [measure.original for measure in kept]),
        *_condition_list(
            f"conditions on closures, their classes {follows}",
            [predicate_text(one, one.text in bounded if chosen else None) for one in plan.predicates],
        ),
        *_engine(plan, any(isinstance(block, Diagram) for block in run)),
        *_counting(plan.collapse),
        *moved_columns(plan.input_columns, plan.derived),
        fact("state", _state_words(plan)),
    )
    return Section(_title(plan), blocks, run)


# Blocks that patterns with and without AGGREGATE share.


def _title(plan: EventPlan | AggregatedPlan) -> str:
    return f"EVENTS: {' '.join(plan.source.text_at(plan.source.pattern).split())}"


def _header(plan: EventPlan | AggregatedPlan, strategy: str, time: str) -> FactLine:
    window = "none" if plan.window is None else plan.source.text_at(plan.window)
    line = "{0}, no window; event time {2}" if plan.window is None else "{}, window {}; event time {}"
    return FactLine((("strategy", strategy), ("window", window), ("event time", time)), line)


def _notes(notes: Sequence[str]) -> list[FactLine]:
    return [fact("note", note, "{}") for note in notes]


def _single_events(variables: Sequence[str], conditions: Mapping[str, Sequence[Expression]]) -> Table:
    rows = [(name, " AND ".join(map(render, conditions[name])) or "any event") for name in variables]
    columns = (Column("event", CODE), Column("condition", CODE, ": {}"))
    return Table("conditions on single events (once per row, before matching)", columns, tuple(rows))


def _condition_list(caption: str, texts: Sequence[str]) -> list[Table]:
    return [Table(caption, (Column("condition", CODE),), tuple((text,) for text in texts))] if texts else []


# Imprecise time.


def _imprecise(plan: EventPlan) -> list[FactLine]:
    imprecise, times = plan.imprecise, plan.times.imprecise
    if imprecise is None or times is None:
        return []
    how = f"with the probabilities of {times.probabilities}" if times.probabilities else "all as probable"
    width = "" if times.width is None else f", at most {_duration(plan, times.width)} apart"
    between = f"between {plan.times.start} and {plan.times.end}{width}"
    facts = [fact("imprecise time", f"{between}, every {_duration(plan, times.granularity)}, {how}")]
    for one in imprecise.closures:
        kind = "uncorrelated, a set of events (nothing depends on their order)"
        if one.why is not None:
            kind = f"correlated, events in order, every order a match ({one.why})"
        facts.append(fact(one.variable, kind, level=2))
    if imprecise.threshold > 0:
        spared = (
            "a prefix below that is given up with all its extensions, whose confidence cannot be higher "
            "(the nearer to 1, the more is spared)"
        )
        return [*facts, fact(f"confidence at least {imprecise.threshold:g}", spared, level=2)]
    spared = "those that cannot be in order or in the window are given up as soon as that is known"
    return [*facts, fact("confidence above 0", spared, level=2)]


def _duration(plan: EventPlan, units: int) -> str:
    return f"{units:,}" if is_integer(plan.times.type) else f"{units / SECOND:,.6g} s"


def _state_words(plan: EventPlan) -> str:
    """Return what bounds the events that a partition must keep while it waits."""
    refused = "(a table is matched as a whole; a stream is refused)"
    if plan.within is None:
        return f"not bounded: there is no WITHIN {refused}"
    qualify = "the events that qualify for a variable"
    if plan.imprecise is not None:
        assert plan.times.imprecise is not None
        width = plan.times.imprecise.width
        if width is None:
            return f"not bounded: there is no WIDTH {refused}"
        return f"{qualify}, of the last window and {_duration(plan, width)} per partition"
    contiguous = plan.strategy in (Strategy.STRICT, Strategy.PARTITION)
    which = "all events" if contiguous else qualify
    return f"{which} of the last {'two windows' if plan.windows > 1 else 'window'} per partition"


# Engines: the tree, the automaton, and the engines of closures.


def _engine(plan: EventPlan, ran: bool) -> list[SectionBlock]:
    """Show what evaluates the pattern before any event is seen. ran: the run has a diagram of its plan."""
    only = TEXT if ran else ""  # a picture shows the plan of the run
    if plan.tree is None:
        assert plan.automaton is not None
        why = [] if plan.why_runs is None else [fact("closures", f"{RUNS} ({ENGINE_WORDS[RUNS]}), as {plan.why_runs}")]
        return [*why, *_automaton(plan.automaton)]
    statistics = default_statistics(plan)
    physical = search(plan, statistics)
    blocks = _closures(plan, physical, statistics)
    if physical.automaton and plan.automaton is not None:
        blocks += _automaton(plan.automaton, only)
    else:
        caption = "tree, as long as nothing is known of the events (it is chosen again when they are seen)"
        blocks.append(Diagram(caption, plan_tree(plan, physical, statistics), THICK, only=only))
    return [*blocks, *_other_plans(plan, physical, statistics, ran)]


def _other_plans(
    plan: EventPlan, physical: PhysicalPlan, statistics: Statistics, ran: bool = False
) -> list[SectionBlock]:
    """Compare a tree with the other plans: in the text with the automaton, in a picture with other trees as well."""
    if plan.construction is not None:
        return []
    blocks: list[SectionBlock] = []
    if plan.automaton is not None:
        chosen = "chosen" if physical.automaton else f"the tree costs {physical.cost:,.0f}"
        cost = f"cost {automaton_cost(plan, statistics):,.0f} ({chosen})"
        blocks.append(fact("automaton instead", cost, only=TEXT))
    found = rivals(plan, physical, statistics)
    if len(found) > 1 and not ran:
        name = "plan: what is joined first is in brackets"
        columns = (Column(name, CODE), Column(""), Column("cost per window", BAR))
        rows = tuple((one.words, "in use" if one.chosen else "", Bar(cost_text(one.cost), one.cost)) for one in found)
        caption = "this plan, and those that were not chosen"
        blocks.append(Table(caption, columns, rows, frozenset({0}), only=PICTURE))
    return blocks


def _closures(plan: EventPlan, physical: PhysicalPlan, statistics: Statistics) -> list[SectionBlock]:
    """Show how the closures of SEQ are evaluated, and what each engine would cost."""
    construction = plan.construction
    if construction is None or plan.collapse is not None:
        return []
    engine = RUNS if physical.automaton else construction.engine
    costs = tuple((one.words, Bar(cost_text(one.cost), one.cost)) for one in rivals(plan, physical, statistics))
    columns = (Column("engine"), Column("cost", BAR, " {}"))
    blocks: list[SectionBlock] = [
        fact("closures", f"{engine} ({ENGINE_WORDS[engine]})"),
        Table("cost per window", columns, costs, frozenset({0}), join="; ", level=2),
    ]
    bounded = _bounded_conditions(plan)
    tested = [f"{text} (also by bounds)" if text in bounded else text for text in construction.postponed]
    if tested and engine != RUNS:
        blocks.append(fact("left for the choices", ", ".join(tested), level=2))
    return blocks


def _bounded_conditions(plan: EventPlan) -> set[str]:
    """Return the conditions on closures that bounds decide."""
    if plan.construction is None:
        return set()
    conditions = {bound.condition for bound in plan.construction.bounds.all}
    return {check.text for check in plan.construction.automaton.checks if check.expression in conditions}


def _counting(collapse: Collapse | None) -> list[FactLine]:
    """Show how the matches that an intermediate one stands for are counted."""
    if collapse is None:
        return []
    what = "one row for each intermediate match, with the number of matches that it stands for"
    facts = [fact("collapsed results", what)]
    if collapse.enumerated:
        why = f"one by one, within the step budget, because of {' AND '.join(collapse.enumerated)}"
        return [*facts, fact("counted", why, "counted {}", level=2)]
    for gap in (gap for alternative in collapse.alternatives for gap in alternative.gaps):
        names = ", ".join(closure.variable for closure in gap)
        how = f"counted by dynamic programming{counting_cost(gap)}"
        facts.append(fact(f"choices of {names}", how, level=2))
    return facts


@dataclass(frozen=True)
class StateDiagram:
    """The states of an automaton, and the events that lead from one to the next."""

    automaton: AutomatonPlan

    def lines(self) -> list[str]:
        lines = []
        for state in range(self.automaton.states):
            lines.append(self.title(state))
            for one in self.automaton.transitions:
                if one.source == state:
                    conditions = "; ".join(part for part in self.conditions(one) if part)
                    lines.append(f"  take {one.variable} → {one.target}{' if ' + conditions if conditions else ''}")
        return lines

    def title(self, state: int) -> str:
        """Name a state, and what is special about it."""
        starts, accepts = state in self.automaton.starts, self.automaton.accepting[state]
        marks = [word for word, is_so in (("start", starts), ("match", accepts)) if is_so]
        return f"state {state}{' (' + ', '.join(marks) + ')' if marks else ''}"

    def conditions(self, transition: Transition) -> tuple[str, str]:
        """Return what an event must satisfy, and what must be absent before it."""
        checks = " AND ".join(self.automaton.checks[number].text for number in transition.checks)
        return checks, ", ".join(self._absent(number) for number, _ in transition.crosses)

    def _absent(self, number: int) -> str:
        negation = self.automaton.negations[number]
        conditions = " AND ".join(self.automaton.checks[check].text for check in negation.checks)
        if negation.start is not None:
            return f"no match from state {negation.start} on ({', '.join(negation.variables)})"
        return f"no {negation.variables[0]}{' with ' + conditions if conditions else ''}"


def _automaton(automaton: AutomatonPlan, only: str = "") -> list[SectionBlock]:
    diagram = StateDiagram(automaton)
    blocks: list[SectionBlock] = [
        Diagram("automaton", diagram, "states, and the events that lead from one to the next", only=only)
    ]
    if only != TEXT:  # the text of the diagram has them
        ways = [(one, f"{one.source} → {one.target}") for one in automaton.transitions]
        rows = tuple((states, one.variable, *diagram.conditions(one)) for one, states in ways)
        columns = (Column("states", NUMBER), Column("takes", CODE), Column("if", CODE), Column("and none of"))
        blocks.append(Table("transitions", columns, rows, only=PICTURE))
    return blocks


# A run.


def _run(plan: EventPlan, reports: list[EventReport]) -> list[SectionBlock]:
    """Show what matchers did: the sums of their joins, the last plan of the busiest one, and the plans they took."""
    rounds, matches = sum(one.rounds for one in reports), sum(one.matches for one in reports)
    blocks: list[SectionBlock] = [
        fact("run", f"{len(reports):,} parts of the input, {rounds:,} rounds, {matches:,} matches")
    ]
    joins: dict[str, tuple[int, int]] = {}
    for name, (tried, records) in (item for one in reports for item in one.nodes.items()):
        before = joins.get(name, (0, 0))
        joins[name] = before[0] + tried, before[1] + records
    if joins:
        rows = tuple((name, f"{tried:,}", f"{records:,}") for name, (tried, records) in joins.items())
        columns = (
            Column("join", CODE),
            Column("pairs tried", NUMBER, ": {} pairs tried"),
            Column("records made", NUMBER, ", {} records"),
        )
        blocks.append(Table("what the joins did, in all parts", columns, rows, headed=False, level=2))
    automata = sum(one.plan is None or one.plan.automaton for one in reports)
    engines = [("a tree", len(reports) - automata), ("the automaton", automata)]
    blocks.append(fact("plans at the end", ", ".join(f"{name} ({parts:,})" for name, parts in engines if parts)))
    blocks += _last_plan(plan, max(reports, key=lambda one: one.matches))
    return [*blocks, *_changes(plan, [change for one in reports for change in one.changes])]


def _last_plan(plan: EventPlan, busiest: EventReport) -> list[SectionBlock]:
    """Show the plan of a part at its end, with what was counted."""
    physical = busiest.plan
    if plan.tree is None or physical is None:
        return []
    statistics = busiest.statistics or default_statistics(plan)
    blocks = _closures(plan, physical, statistics)
    if not physical.automaton:
        caption = "tree of the busiest part, with estimates from its events and what was counted since it was taken"
        blocks.append(Diagram(caption, plan_tree(plan, physical, statistics, busiest.actual), THICK))
    elif plan.automaton is not None:
        blocks += _automaton(plan.automaton, PICTURE)  # the text names it among the plans at the end
    return [*blocks, *_other_plans(plan, replace(physical, cost=cost_of(plan, statistics, physical)), statistics)]


def _changes(plan: EventPlan, changes: list[PlanChange]) -> list[Table]:
    rows: list[tuple[Cell, ...]] = []
    for change in changes:
        before = "" if change.old_cost is None else f"{cost_text(change.old_cost)} → "
        why, words = reason_of(plan, change), plan_words(plan, change.plan)
        rows.append((str(change.round), why, words, f"{before}{cost_text(change.new_cost)}"))
    columns = (
        Column("round", NUMBER, "round {}"),
        Column("why", words=": {}"),
        Column("plan", CODE, "; {}"),
        Column("cost", NUMBER, ", cost {}"),
    )
    return cut_table("plans taken", columns, rows, MOST_CHANGES)


def reason_of(plan: EventPlan, change: PlanChange) -> str:
    moved = change.moved
    if moved is None:
        return "first events seen"
    if isinstance(moved.of, int):
        return f"selectivity of {plan.tests[moved.of].text}: {moved.before:.3f} → {moved.now:.3f}"
    return f"events of {moved.of} per window: {moved.before:,.2f} → {moved.now:,.2f}"


# Aggregates over all matches.


def aggregated_section(plan: AggregatedPlan, reports: Sequence[str] | None = None) -> Section:
    """Build the section of one event pattern with AGGREGATE. reports: of a run (JSON)."""
    run: tuple[SectionBlock, ...] = ()
    if reports is not None:
        found = AggregatedReport.sum_of(reports)
        engine = "by start" if plan.per_start else "sliding"
        counts = f"{found.passes:,} passes over {found.events:,} events gave {found.rows:,} rows"
        run = (fact("engine", f"{engine}; {counts}"),)
    local = {name: plan.conditions[name].row_local for name in plan.variables}
    signs = " | ".join("; ".join(_sign(place) for place in one.places) for one in plan.alternatives)
    exact = "doubles" if plan.doubles else "exact, up to 38 digits (beyond them an error)"
    blocks = (
        # Only a picture: the text has the signs of the places.
        Diagram("places of a match", Rails(_places(plan)), "no match is enumerated", only=PICTURE),
        _header(plan, Strategy.ANY.value, plan.times.end),
        fact("aggregates over all matches, by", _groups(plan), "aggregates over all matches, by {}"),
        fact("partitions", ", ".join((*plan.keys, *plan.same)) or "one (no key and no [attribute])"),
        *_notes(plan.notes),
        _single_events(plan.variables, local),
        *(table for alternative in plan.alternatives for table in _relating(alternative)),
        fact("dynamic programming over events, no match is enumerated", signs),
        fact("engine", _aggregating_engine(plan)),
        fact("numbers of matches and sums of whole numbers and decimals", exact),
        *moved_columns(plan.input_columns, plan.derived),
        fact("state", _aggregated_state(plan)),
    )
    return Section(_title(plan), blocks, run)


def _groups(plan: AggregatedPlan) -> str:
    parts = [f"the key ({', '.join(plan.keys)})"] if plan.keys else []
    parts += [f"{group.name} of the {group.of.value}" for group in plan.groups if group.of is not GroupedBy.KEY]
    if plan.every_span is not None:
        unit = " of event time" if is_integer(plan.times.type) else ""
        parts.append(f"buckets of {plan.source.text_at(plan.every_span)}{unit}")
    return ", ".join(parts) or "nothing: one row"


def _relating(alternative: Alternative) -> list[Table]:
    """List the conditions that relate events, and how each is followed."""
    found: dict[str, str] = {}
    for link in alternative.links:
        for test in link.tests:
            how = "Fenwick tree, n log n" if len(link.tests) == 1 else "one by one, n^2, as the link has several"
            found[test.text] = f"between neighbours ({how})"
    for first in alternative.first_tests:
        found[first.text] = "with the first event (for each start)"
    columns = (Column("condition", CODE), Column("how it is followed", words=": {}"))
    return [Table("conditions that relate events", columns, tuple(found.items()))] if found else []


def _aggregating_engine(plan: AggregatedPlan) -> str:
    if not plan.per_start:
        return "sliding, one pass; the cost of an event does not depend on the window"
    related = any(one.tests for one in plan.alternatives)
    why = "conditions relate events" if related else "matches are grouped by their first event"
    of_start = any(one.first_tests for one in plan.alternatives)
    of_start |= any(group.of is GroupedBy.FIRST for group in plan.groups)
    if plan.within is None and not of_start:
        return f"by start, one pass for all starts, as there is no window ({why})"
    return f"by start, for each start event the events of its window ({why})"


def _aggregated_state(plan: AggregatedPlan) -> str:
    if plan.every is None:
        return "all qualifying events, until the end of the input"
    if plan.within is None:
        return "all qualifying events"
    return "events of the last window and of the bucket that is not over"


def _sign(place: TrendPlace) -> str:
    return f"{place.variable}*" if place.optional else f"{place.variable}+" if place.repeats else place.variable


def _places(plan: AggregatedPlan) -> Rail:
    def rail(place: TrendPlace) -> Rail:
        own = bool(plan.conditions[place.variable].row_local)
        kind, words = ("local", "own condition") if own else ("any", "any event")
        stop = RailStop(place.variable, kind, f"{place.variable}: {words}", (words,))
        if not place.optional and not place.repeats:
            return stop
        return RailLoop(stop, True, place.optional, "any number of events" if place.optional else "one event or more")

    ways = tuple(RailRow(tuple(map(rail, one.places))) for one in plan.alternatives)
    return ways[0] if len(ways) == 1 else RailChoice(ways)
