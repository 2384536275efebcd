"""The plan of a situation pattern in words: definitions, constraints, what triggers a search, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from episode.lang.situations import allen
from episode.plan.expressions import render
from episode.plan.situations.cost import best_order, initial_costs, triggers
from episode.plan.situations.plan import Orders, SituationPlan, SituationReport

MOST_LINES = 60


def explain_situation_pattern(plan: SituationPlan) -> list[str]:
    """Lines for one situation pattern, before any event has been seen."""
    written = plan.source.written(plan.source.pattern)
    within = "no window"
    if plan.window is not None:
        within = f"window {plan.source.written(plan.window)}"
    when = "as soon as they are certain" if plan.eager else "when all their situations have ended"
    lines = [
        f"SITUATIONS: {' '.join(written.split())}",
        f"  {within}; event time {plan.time}; matches are reported {when}",
        f"  partitions: {', '.join(plan.keys) or 'one (no PARTITION BY)'}",
        "  situations (runs of events for which the condition holds, once per row before matching):",
    ]
    for number, name in enumerate(plan.symbols):
        condition = " AND ".join(render(part) for part in plan.conditions[name].row_local)
        lines.append(f"    {name}: {condition or 'every event'}{_limits(plan, number)}")
    lines.append("  constraints:")
    for left in range(len(plan.symbols)):
        for right in range(left + 1, len(plan.symbols)):
            mask = plan.masks[left][right]
            if mask != allen.EVERY:
                names = "; ".join(relation.value for relation in allen.relations_of(mask))
                lines.append(f"    {plan.symbols[left]} to {plan.symbols[right]}: {names}")
    lines.append("  searches (what can make a match certain, and the order of buffers to begin with):")
    for search in searches_of(plan):
        sizes = ", ".join(f"{size:.3g}" for size in search.records)
        path = _order(plan, search.order)
        symbol = plan.symbols[search.order[0]]
        lines.append(f"    {symbol} ({search.when}): {path}; cost {search.cost:.3g}, records {sizes}")
    lines.append(f"  columns moved: {', '.join(plan.input_columns)}")
    lines += [f"  computed by Spark before matching: {name} = {sql}" for sql, name in plan.derived]
    bound = "the finished situations of one window" if plan.within is not None else "all finished situations"
    lines.append(f"  state: {bound} and those that last, each with its aggregates; no events")
    return lines


@dataclass(frozen=True)
class PlannedSearch:
    """A search that a situation of a symbol begins. when: at its start, at its end, or both. order: of symbols, that
    one first. cost, records: as estimated before anything is known; records after each step."""

    when: str
    order: tuple[int, ...]
    cost: float
    records: tuple[float, ...]


def searches_of(plan: SituationPlan) -> list[PlannedSearch]:
    """The searches of a pattern, as they begin."""
    costs, found = initial_costs(plan.masks), []
    for symbol, (on_start, on_end) in enumerate(triggers(plan.masks, plan.at_least, plan.at_most, plan.eager)):
        moments = [word for word, is_one in (("start", on_start), ("end", on_end)) if is_one]
        if on_start and plan.at_least[symbol] is not None:
            moments[0] = "start, once it has lasted long enough"
        if moments:
            order = best_order(plan.masks, costs, symbol)
            cost, records = costs.of(symbol, order)
            found.append(PlannedSearch(" or ".join(moments), (symbol, *order), cost, tuple(records)))
    return found


def _limits(plan: SituationPlan, number: int) -> str:
    words = limit_words(plan, number)
    return f", {words}" if words else ""


def limit_words(plan: SituationPlan, number: int) -> str:
    """How long a situation must and may last, where the query says so."""
    words = [
        f"{what} {plan.source.written(span)}"
        for what, span in zip(("at least", "at most"), plan.limits[number], strict=True)
        if span is not None
    ]
    return " and ".join(words)


def explain_searches(plan: SituationPlan, reports: list[SituationReport]) -> list[str]:
    """What matchers did: searches, with estimates and actuals, and changes of plan."""
    if not reports:
        return ["  run: there were no events"]
    changes = sum(one.plans - 1 for one in reports)
    lines = [f"  run: {len(reports):,} parts of the input, {changes:,} changes of plan"]
    busiest = max(reports, key=lambda one: one.total)
    sizes = ", ".join(f"{name} {round(size, 2):,.1f}" for name, size in zip(plan.symbols, busiest.sizes, strict=True))
    lines.append(f"  busiest part: {busiest.total:,} searches; buffers: {sizes}; with its last plan:")
    for search in busiest.searches:
        lines.append(f"    {_order(plan, search.order)}: {search.searches:,} searches")
        rounded = [[round(value, 3) for value in values] for values in (search.estimated, search.actual)]
        for number, (estimated, actual) in enumerate(zip(*rounded, strict=True), 1):
            lines.append(f"      step {number}: {estimated:,.3g} records estimated, {actual:,.3g} found per search")
    for change in busiest.changes:
        lines.append(f"    changed to: {orders_words(plan, change)}")
        if len(lines) > MOST_LINES:
            return [*lines, "    …"]
    return lines


def orders_words(plan: SituationPlan, orders: Orders) -> str:
    """The orders of all symbols whose situations begin a search."""
    return "; ".join(_order(plan, order) for order in orders)


def _order(plan: SituationPlan, order: tuple[int, ...]) -> str:
    return " -> ".join(plan.symbols[at] for at in order)
