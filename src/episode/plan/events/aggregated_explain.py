"""The plan of aggregates over all matches in words: the engine, what it costs, and how each condition is followed."""

from __future__ import annotations

from episode.plan.events.aggregated import AggregatedPlan, Alternative, GroupedBy
from episode.plan.events.aggregated_conditions import Place
from episode.plan.events.plan import AggregatedReport
from episode.plan.expressions import render
from episode.plan.types import is_integer


def explain_aggregated(plan: AggregatedPlan) -> list[str]:
    """Lines for one event pattern with AGGREGATE."""
    written = " ".join(plan.source.written(plan.source.pattern).split())
    within = "no window" if plan.window is None else f"window {plan.source.written(plan.window)}"
    lines = [
        f"EVENTS: {written}",
        f"  skip-till-any-match, {within}; event time {plan.times.end}",
        f"  aggregates over all matches, by {_groups(plan)}",
        f"  partitions: {', '.join((*plan.keys, *plan.same)) or 'one (no key and no [attribute])'}",
        *(f"  {note}" for note in plan.notes),
        "  conditions on single events (once per row, before matching):",
    ]
    for name in plan.variables:
        parts = " AND ".join(render(part) for part in plan.conditions[name].row_local)
        lines.append(f"    {name}: {parts or 'any event'}")
    lines += [line for alternative in plan.alternatives for line in _related(alternative)]
    lines += _engine(plan)
    kind = "doubles" if plan.doubles else "exact, up to 38 digits (beyond them an error)"
    lines.append(f"  numbers of matches and sums of whole numbers and decimals: {kind}")
    lines.append(f"  columns moved: {', '.join(plan.input_columns)}")
    lines += [f"  computed by Spark before matching: {name} = {sql}" for sql, name in plan.derived]
    lines.append(f"  state: {state_words(plan)}")
    return lines


def _groups(plan: AggregatedPlan) -> str:
    parts = [f"the key ({', '.join(plan.keys)})"] if plan.keys else []
    parts += [f"{group.name} of the {group.of.value}" for group in plan.groups if group.of is not GroupedBy.KEY]
    if plan.every_span is not None:
        unit = " of event time" if is_integer(plan.times.type) else ""
        parts.append(f"buckets of {plan.source.written(plan.every_span)}{unit}")
    return ", ".join(parts) or "nothing: one row"


def _related(alternative: Alternative) -> list[str]:
    lines = [f"    {text}: {how}" for text, how in related_words(alternative).items()]
    return ["  conditions that relate events:", *lines] if lines else []


def related_words(alternative: Alternative) -> dict[str, str]:
    """Conditions that relate events, and how each is followed."""
    found: dict[str, str] = {}
    for link in alternative.links:
        for test in link.tests:
            how = "Fenwick tree, n log n" if len(link.tests) == 1 else "one by one, n^2, as the link has several"
            found[test.text] = f"between neighbours ({how})"
    for first in alternative.first_tests:
        found[first.text] = "with the first event (for each start)"
    return found


def _engine(plan: AggregatedPlan) -> list[str]:
    dynamic, engine = engine_words(plan)
    return [f"  {dynamic}", f"  engine: {engine}"]


def engine_words(plan: AggregatedPlan) -> tuple[str, str]:
    """What runs over the events, and how."""
    shown = " | ".join("; ".join(_sign(place) for place in one.places) for one in plan.alternatives)
    dynamic = f"dynamic programming over events, no match is enumerated: {shown}"
    if not plan.per_start:
        return dynamic, "sliding, one pass; the cost of an event does not depend on the window"
    related = any(one.first_tests or any(link.tests for link in one.links) for one in plan.alternatives)
    why = "conditions relate events" if related else "matches are grouped by their first event"
    of_start = any(one.first_tests for one in plan.alternatives)
    of_start |= any(group.of is GroupedBy.FIRST for group in plan.groups)
    if plan.within is None and not of_start:
        return dynamic, f"by start, one pass for all starts, as there is no window ({why})"
    return dynamic, f"by start, for each start event the events of its window ({why})"


def _sign(place: Place) -> str:
    if place.optional:
        return f"{place.variable}*"
    return f"{place.variable}+" if place.repeats else place.variable


def state_words(plan: AggregatedPlan) -> str:
    """What is kept while matching."""
    if plan.every is None:
        return "all qualifying events, until the end of the input"
    if plan.within is None:
        return "all qualifying events"
    return "events of the last window and of the bucket that is not over"


def explain_aggregated_reports(plan: AggregatedPlan, reports: list[str]) -> list[str]:
    """What the matchers of a run did, in words."""
    found = AggregatedReport.sum_of(reports)
    engine = "by start" if plan.per_start else "sliding"
    return [f"  engine: {engine}; {found.passes:,} passes over {found.events:,} events gave {found.rows:,} rows"]
