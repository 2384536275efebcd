"""The section of a situation pattern: definitions, constraints, what triggers a search, and the order of the search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from episode.lang.situations import allen
from episode.plan.expressions import render
from episode.plan.sections import (
    BAR,
    CODE,
    NO_EVENTS,
    PICTURE,
    TEXT,
    Bar,
    Cell,
    Column,
    Diagram,
    FactLine,
    Section,
    SectionBlock,
    Table,
    cut_table,
    fact,
    moved_columns,
)
from episode.plan.situations.cost import SearchCosts, best_order, initial_costs, rival_orders, triggers
from episode.plan.situations.plan import Orders, SituationPlan, SituationReport

MOST_CHANGES = 50


def situation_section(plan: SituationPlan, reports: Sequence[str] | None = None) -> Section:
    """Build the section of one situation pattern. reports: of a run (JSON)."""
    parsed = [SituationReport.from_json(one) for one in reports or ()]
    busiest = max(parsed, key=lambda one: one.total) if parsed else None
    run = () if reports is None else (NO_EVENTS,) if busiest is None else tuple(_run(plan, parsed, busiest))
    written = plan.source.text_at(plan.source.pattern)
    window = "none" if plan.window is None else plan.source.text_at(plan.window)
    when = "as soon as they are certain" if plan.eager else "when all their situations have ended"
    line = "no window" if plan.window is None else "window {0}"
    bound = "the finished situations of one window" if plan.within is not None else "all finished situations"
    blocks = (
        FactLine(
            (("window", window), ("event time", plan.time), ("matches are reported", when)),
            f"{line}; event time {{1}}; matches are reported {{2}}",
        ),
        fact("partitions", ", ".join(plan.keys) or "one (no PARTITION BY)"),
        _situations(plan),
        Diagram("constraints", _constraints(plan)),
        Diagram(
            "searches (what can make a match certain, and the order of buffers to begin with)",
            SearchOrders(_searches(plan)),
            only=TEXT if busiest else "",  # a picture shows the searches of the run
        ),
        _orders(plan, busiest),
        *moved_columns(plan.input_columns, plan.derived),
        fact("state", f"{bound} and those that last, each with its aggregates; no events"),
    )
    return Section(f"SITUATIONS: {' '.join(written.split())}", blocks, run)


def _situations(plan: SituationPlan) -> Table:
    rows = []
    for name, limits in zip(plan.symbols, plan.limits, strict=True):
        condition = " AND ".join(render(part) for part in plan.conditions[name].row_local)
        lasts = [
            f"{what} {plan.source.text_at(span)}"
            for what, span in zip(("at least", "at most"), limits, strict=True)
            if span is not None
        ]
        rows.append((name, condition or "every event", " and ".join(lasts)))
    columns = (Column("symbol", CODE), Column("holds while", CODE, ": {}"), Column("duration", words=", {}"))
    what = "situations (runs of events for which the condition holds, once per row before matching)"
    return Table(what, columns, tuple(rows))


@dataclass(frozen=True)
class Constraints:
    """Pairs of symbols, each with the relations that they may have."""

    pairs: tuple[tuple[str, str, tuple[allen.Relation, ...]], ...]

    def lines(self) -> list[str]:
        return [
            f"{left} to {right}: {'; '.join(relation.value for relation in relations)}"
            for left, right, relations in self.pairs
        ]


def _constraints(plan: SituationPlan) -> Constraints:
    symbols = plan.symbols
    return Constraints(
        tuple(
            (symbols[left], symbols[right], tuple(allen.relations_of(plan.masks[left][right])))
            for left in range(len(symbols))
            for right in range(left + 1, len(symbols))
            if plan.masks[left][right] != allen.EVERY
        )
    )


# Searches.


@dataclass(frozen=True)
class PlannedSearch:
    """A search that a situation of a symbol begins.

    when: at its start, at its end, or both. order: of symbols, that one first. cost, records: estimates, of records
    after each step. actual: the records that were found. searches: the number of those that a run has begun.
    """

    when: str
    order: tuple[str, ...]
    cost: float
    records: tuple[float, ...]
    actual: tuple[float, ...] | None = None
    searches: int = 0

    @property
    def path(self) -> str:
        return " -> ".join(self.order)

    @property
    def note(self) -> str:
        return f"cost {self.cost:.3g}" if self.actual is None else f"{self.searches:,} searches"

    def lines(self) -> list[str]:
        if self.actual is None:
            sizes = ", ".join(f"{size:.3g}" for size in self.records)
            return [f"{self.order[0]} ({self.when}): {self.path}; {self.note}, records {sizes}"]
        steps = enumerate(zip(self.records, self.actual, strict=True), 1)
        return [
            f"{self.path}: {self.note}",
            *(
                f"  step {number}: {round(about, 3):,.3g} records estimated, {round(found, 3):,.3g} found per search"
                for number, (about, found) in steps
            ),
        ]


@dataclass(frozen=True)
class SearchOrders:
    """The searches of a pattern, each a chain of buffers in the order in which they are searched."""

    searches: tuple[PlannedSearch, ...]

    def lines(self) -> list[str]:
        return [line for search in self.searches for line in search.lines()]


def _names(plan: SituationPlan, order: Sequence[int]) -> tuple[str, ...]:
    return tuple(plan.symbols[at] for at in order)


def _searches(plan: SituationPlan) -> tuple[PlannedSearch, ...]:
    """Return the searches of a pattern before any event is seen."""
    costs, found = initial_costs(plan.masks), []
    for symbol, (on_start, on_end) in enumerate(triggers(plan.masks, plan.at_least, plan.at_most, plan.eager)):
        moments = [word for word, is_one in (("start", on_start), ("end", on_end)) if is_one]
        if on_start and plan.at_least[symbol] is not None:
            moments[0] = "start, once it has lasted long enough"
        if moments:
            order = best_order(plan.masks, costs, symbol)
            cost, records = costs.of(symbol, order)
            found.append(PlannedSearch(" or ".join(moments), _names(plan, (symbol, *order)), cost, tuple(records)))
    return tuple(found)


def _orders(plan: SituationPlan, busiest: SituationReport | None) -> Table:
    """Compare the orders in use with those that were not chosen; only in a picture, as the text has the orders."""
    costs = initial_costs(plan.masks)
    orders = [tuple(map(plan.symbols.index, search.order)) for search in _searches(plan)]
    which = "before anything is known of the events"
    if busiest is not None and busiest.selectivities:
        costs = SearchCosts(busiest.sizes, busiest.selectivities)
        orders = [search.order for search in busiest.searches]
        which = "by the statistics of the busiest part"
    found = [one for order in orders for one in rival_orders(plan.masks, costs, order)]
    strong = frozenset(number for number, one in enumerate(found) if one.chosen)
    rows = tuple(
        (" → ".join(_names(plan, one.order)), "in use" if one.chosen else "", Bar(f"{one.cost:,.3g}", one.cost))
        for one in found
    )
    columns = (Column("order", CODE), Column(""), Column("cost of a search", BAR))
    caption = f"orders of search, and those that were not chosen, {which}"
    return Table(caption, columns, rows, strong, only=PICTURE)


# A run.


def _run(plan: SituationPlan, reports: list[SituationReport], busiest: SituationReport) -> list[SectionBlock]:
    changes = sum(one.plans - 1 for one in reports)
    sizes = ", ".join(f"{name} {round(size, 2):,.1f}" for name, size in zip(plan.symbols, busiest.sizes, strict=True))
    when = {search.order[0]: search.when for search in _searches(plan)}
    searches = []
    for one in busiest.searches:
        order = _names(plan, one.order)
        searches.append(PlannedSearch(when.get(order[0], ""), order, 0.0, one.estimated, one.actual, one.searches))
    caption = f"busiest part: {busiest.total:,} searches; buffers: {sizes}; with its last plan"
    blocks: list[SectionBlock] = [
        fact("run", f"{len(reports):,} parts of the input, {changes:,} changes of plan"),
        Diagram(caption, SearchOrders(tuple(searches)), "records for each search, estimated and found"),
    ]
    rows: list[tuple[Cell, ...]] = [(orders_words(plan, change),) for change in busiest.changes]
    columns = (Column("orders", CODE, "changed to: {}"),)
    return [*blocks, *cut_table("plans taken", columns, rows, MOST_CHANGES, headed=False, level=2)]


def orders_words(plan: SituationPlan, orders: Orders) -> str:
    """Write the orders of all symbols whose situations begin a search."""
    return "; ".join(" -> ".join(_names(plan, order)) for order in orders)
