"""The plan of a situation pattern as a section: relations as little pictures, orders of search and what they cost."""

from __future__ import annotations

from episode.lang.situations import allen
from episode.plan.expressions import render
from episode.plan.situations.cost import SearchCosts, initial_costs, rival_orders
from episode.plan.situations.explain import limit_words, searches_of
from episode.plan.situations.plan import SituationPlan, SituationReport
from episode.queries.explaining import ExplainedPattern
from episode.see.pictures.plans.allen import HEIGHT, WIDTH, glyph
from episode.see.pictures.plans.blocks import BAR, CODE, NUMBER, Block, Column, Diagram, Facts, Section, Table, bars
from episode.see.pictures.plans.drawing import CODE_SIZE, Drawing, width_of
from episode.see.pictures.plans.facts import reason_facts, run_facts

BOX, STEP = 32.0, 96.0
IN_A_ROW = 7


def situation_section(explained: ExplainedPattern, plan: SituationPlan) -> Section:
    """One situation pattern."""
    reports = [SituationReport.from_json(one) for one in explained.reports or ()]
    busiest = max(reports, key=lambda one: one.total) if reports else None
    title, *_ = explained.lines
    blocks: list[Block] = [
        Diagram("Relations that each pair of situations may have", _relations(plan)),
        Diagram(_search_caption(busiest), _searches(plan, busiest)),
        _orders(plan, busiest),
        _situations(plan, busiest),
    ]
    if explained.reports is not None:
        blocks.append(_run(explained, reports))
    blocks.append(_facts(explained, plan))
    return Section(title, tuple(blocks), "\n".join(explained.lines))


# ---- relations ---------------------------------------------------------------------------------------


def _relations(plan: SituationPlan) -> Drawing:
    pairs = [
        (plan.symbols[left], plan.symbols[right], allen.relations_of(plan.masks[left][right]))
        for left in range(len(plan.symbols))
        for right in range(left + 1, len(plan.symbols))
        if plan.masks[left][right] != allen.EVERY
    ]
    margin = max([width_of(f"{left} to {right}", CODE_SIZE, code=True) for left, right, _ in pairs], default=0.0) + 16.0
    drawing = Drawing(margin)
    for left, right, relations in pairs:
        drawing.text(0.0, drawing.height + 24.0, f"{left} to {right}", "code name")
        for number, relation in enumerate(relations):
            column, row = number % IN_A_ROW, number // IN_A_ROW
            made = glyph(relation, left, right)
            drawing.put(made, margin + column * (WIDTH + 8.0), drawing.height + row * (HEIGHT + 6.0))
        rows = -(-len(relations) // IN_A_ROW)
        drawing.width = max(drawing.width, margin + min(len(relations), IN_A_ROW) * (WIDTH + 8.0))
        drawing.height += max(rows, 1) * (HEIGHT + 6.0)
    return drawing


# ---- orders of search --------------------------------------------------------------------------------


def _search_caption(busiest: SituationReport | None) -> str:
    if busiest is None:
        return "Searches: what can make a match certain, and the order of buffers to begin with"
    return "Searches of the busiest part, with its last plan: records for each search, estimated and found"


def _searches(plan: SituationPlan, busiest: SituationReport | None) -> Drawing:
    """Each search as a chain: the symbol that begins it, then the buffers in their order."""
    drawing = Drawing()
    found = {} if busiest is None else {search.order[0]: search for search in busiest.searches}
    for search in searches_of(plan):
        order, estimated, actual = search.order, search.records, None
        made = found.get(order[0])
        note = f"cost {search.cost:,.3g}"
        if busiest is not None:
            if made is None:
                continue
            order, estimated, actual = made.order, made.estimated, made.actual
            note = f"{made.searches:,} searches"
        begin = len(drawing.parts)
        _chain(drawing, plan, order, search.when, estimated, actual, note)
        words = " -> ".join(plan.symbols[at] for at in order)
        drawing.group("search", f"{words} ({search.when}); {note}", begin)
    return drawing


def _chain(
    drawing: Drawing,
    plan: SituationPlan,
    order: tuple[int, ...],
    when: str,
    estimated: tuple[float, ...],
    actual: tuple[float, ...] | None,
    note: str,
) -> None:
    y = drawing.height + 4.0
    first = f"{plan.symbols[order[0]]}: {when}"
    wide = width_of(first, CODE_SIZE, code=True) + 20.0
    drawing.box(0.0, y, wide, BOX, "accepting")
    drawing.text(wide / 2, y + 20.0, first, "code name", "middle")
    x = wide
    for number, at in enumerate(order[1:]):
        name = plan.symbols[at]
        drawing.line([(x, y + BOX / 2), (x + STEP, y + BOX / 2)], "preferred")
        drawing.arrow(x + STEP, y + BOX / 2)
        own = max(width_of(name, CODE_SIZE, code=True) + 20.0, 34.0)
        drawing.box(x + STEP, y, own, BOX, "node")
        drawing.text(x + STEP + own / 2, y + 20.0, name, "code name", "middle")
        x += STEP + own
        middle = x - own / 2
        drawing.text(middle, y + BOX + 13.0, f"≈ {estimated[number]:,.3g} records", "number", "middle")
        if actual is not None:
            drawing.text(middle, y + BOX + 27.0, f"found {actual[number]:,.3g}", "number name", "middle")
    drawing.text(x + 22.0, y + 20.0, note, "small")
    drawing.width = max(drawing.width, x + 40.0 + width_of(note))
    drawing.height = y + BOX + (38.0 if actual is not None else 24.0)


def _orders(plan: SituationPlan, busiest: SituationReport | None) -> Table:
    """Orders in use, and those that were not chosen, symbol by symbol."""
    costs = initial_costs(plan.masks)
    orders = [search.order for search in searches_of(plan)]
    which = "before anything is known of the events"
    if busiest is not None and busiest.selectivities:
        costs = SearchCosts(busiest.sizes, busiest.selectivities)
        orders = [search.order for search in busiest.searches]
        which = "by the statistics of the busiest part"
    found = [one for order in orders for one in rival_orders(plan.masks, costs, order)]
    strong = frozenset(number for number, one in enumerate(found) if one.chosen)
    shown = bars([one.cost for one in found], [f"{one.cost:,.3g}" for one in found], strong)
    rows = tuple(
        (" → ".join(plan.symbols[at] for at in one.order), "in use" if one.chosen else "", bar)
        for one, bar in zip(found, shown, strict=True)
    )
    columns = (Column("order", CODE), Column(""), Column("cost of a search", BAR))
    return Table(f"Orders of search, and those that were not chosen, {which}", columns, rows, strong)


# ---- words -------------------------------------------------------------------------------------------


def _situations(plan: SituationPlan, busiest: SituationReport | None) -> Table:
    columns = [Column("symbol", CODE), Column("holds while", CODE), Column("duration")]
    if busiest is not None:
        columns.append(Column("in its buffer", NUMBER))
    rows = []
    for number, name in enumerate(plan.symbols):
        condition = " AND ".join(render(part) for part in plan.conditions[name].row_local)
        cells = [name, condition or "every event", limit_words(plan, number)]
        if busiest is not None:
            cells.append(f"{busiest.sizes[number]:,.1f}")
        rows.append(tuple(cells))
    return Table("Situations", tuple(columns), tuple(rows))


def _run(explained: ExplainedPattern, reports: list[SituationReport]) -> Facts:
    if not reports:
        return Facts((("run", "there were no events"),))
    return Facts(
        (
            ("parts of the input", f"{len(reports):,}"),
            ("searches", f"{sum(one.total for one in reports):,}"),
            ("changes of plan", f"{sum(one.plans - 1 for one in reports):,}"),
            *run_facts(explained),
        )
    )


def _facts(explained: ExplainedPattern, plan: SituationPlan) -> Facts:
    when = "as soon as they are certain" if plan.eager else "when all their situations have ended"
    items = [
        ("window", "none" if plan.window is None else plan.source.written(plan.window)),
        ("event time", plan.time),
        ("matches are reported", when),
        ("partitions", ", ".join(plan.keys) or "one (no PARTITION BY)"),
        ("columns moved", ", ".join(plan.input_columns)),
        *((f"computed by Spark: {name}", sql) for sql, name in plan.derived),
    ]
    return Facts((*items, *reason_facts(explained)))
