"""Drawings of the diagrams in sections: trees of joins, automata, Allen's relations, searches, rails.

A tree has its root on top, each box over the middle of those below it. An automaton is a row of states: a straight
line leads to the next one, an arc to others, a loop to itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from episode.lang.situations.allen import Relation, mirror
from episode.plan.correlation.explain import Region
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.explain import StateDiagram
from episode.plan.events.physical_plan import PlanNode
from episode.plan.sections import DiagramData, Rails
from episode.plan.situations.explain import Constraints, PlannedSearch, SearchOrders
from episode.see.pictures.plans.drawing import CODE_SIZE, LINE, SMALL_SIZE, Drawing, width_of, wrap
from episode.see.pictures.plans.railroad import draw_rails


def draw(data: DiagramData) -> Drawing:
    return DRAWINGS[type(data)](data)


LEVEL, BESIDE, PAD = 34.0, 22.0, 10.0
"""Distances: between two levels, between neighbours, within a box."""
CONDITION_WIDTH = 230.0


class _TreeBox:
    """A node with its lines, each with the classes of its text."""

    def __init__(self, node: PlanNode) -> None:
        self.lines = [(node.what, "code name" if node.is_leaf else "name")]
        self.lines += [(f"at the edge: {item}", "small") for item in node.edges]
        self.lines += [(item, "small") for item in node.between]
        for number, condition in enumerate(node.on):
            text = f"{'on' if number == 0 else 'AND'} {condition}"
            self.lines += [(line, "code") for line in wrap(text, CONDITION_WIDTH, CODE_SIZE, code=True)]
        self.lines += [(node.about, "number"), *([(node.in_fact, "number name")] if node.in_fact else [])]
        self.flow = (node.actual or node.estimated)[0]
        self.children = [_TreeBox(child) for child in node.children]
        widest = max(width_of(line, CODE_SIZE if "code" in kind else 13.0, "code" in kind) for line, kind in self.lines)
        self.width, self.height = widest + 2 * PAD, len(self.lines) * LINE + 2 * PAD - 4.0
        below = sum(child.whole for child in self.children) + BESIDE * max(0, len(self.children) - 1)
        self.below = below
        self.whole: float = max(self.width, below)

    def put(self, drawing: Drawing, x: float, y: float) -> tuple[float, float, float]:
        """Draw it from an upper left corner on, and return its right end, its lower end, the middle of its box."""
        below, lower, middles = y + self.height + LEVEL, y + self.height, []
        left, right = x + max(0.0, (self.width - self.below) / 2), x + self.width
        for child in self.children:
            end, bottom, middle = child.put(drawing, left, below)
            left, right, lower = end + BESIDE, max(right, end), max(lower, bottom)
            middles.append(middle)
        middle = max((middles[0] + middles[-1]) / 2 if middles else 0.0, x + self.width / 2)
        for other, child in zip(middles, self.children, strict=True):
            thick = 1.2 + min(6.0, 1.4 * math.log10(1.0 + max(0.0, child.flow)))
            drawing.add(
                f'<path d="M {other:.1f} {below:.1f} C {other:.1f} {below - LEVEL / 2:.1f} {middle:.1f} '
                f'{below - LEVEL / 2:.1f} {middle:.1f} {y + self.height:.1f}" class="rail" '
                f'style="stroke-width:{thick:.1f}"/>'
            )
        begin = len(drawing.parts)
        drawing.box(middle - self.width / 2, y, self.width, self.height, "node")
        for number, (line, kind) in enumerate(self.lines):
            drawing.text(middle, y + PAD + LINE * number + 10.0, line, kind, "middle")
        title = "; ".join(line for line, _ in self.lines)
        drawing.group("operator" if self.children else "leaf", title, begin)
        return max(right, middle + self.width / 2), lower, middle


def _draw_tree(root: PlanNode) -> Drawing:
    drawing = Drawing()
    width, height, _ = _TreeBox(root).put(drawing, 0.0, 2.0)
    drawing.width, drawing.height = width + 2.0, height + 2.0
    return drawing


RADIUS, LEAST = 17.0, 44.0
ARC_STEP = 26.0
MOST_STATES = 40


def _draw_automaton(diagram: StateDiagram) -> Drawing:
    """Draw the states from left to right; of many, the first."""
    automaton = diagram.automaton
    states = min(automaton.states, MOST_STATES)
    labels = _labels(automaton, states)
    loops = any(source == target for source, target in labels)
    above = max([target - source for source, target in labels if target > source + 1], default=0)
    below = max([source - target for source, target in labels if target < source], default=0)
    y = RADIUS + 6.0 + (44.0 if loops else 0.0) + ARC_STEP * above
    middles = _middles(labels, states)
    drawing = Drawing(middles[-1] + RADIUS + 8.0, y + RADIUS + 22.0 + ARC_STEP * below)
    for (source, target), (takes, absent) in labels.items():
        begin = len(drawing.parts)
        _transition(drawing, middles, y, source, target, takes, absent)
        drawing.group("transition", f"from state {source} to {target}: {takes}; {absent}".rstrip("; "), begin)
    for state, x in enumerate(middles):
        _state(drawing, diagram, state, x, y)
    if automaton.states > states:
        drawing.text(drawing.width, y, f"… {automaton.states - states} more states", "small")
        drawing.width += 120.0
    return drawing


def _labels(automaton: AutomatonPlan, states: int) -> dict[tuple[int, int], tuple[str, str]]:
    """Return by (source, target) the variables that are taken, and what must be absent before them."""
    found: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
    for one in automaton.transitions:
        if one.source < states and one.target < states:
            takes, absent = found.setdefault((one.source, one.target), ([], []))
            takes.append(one.variable + (" if …" if one.checks else ""))
            absent += [f"no {', '.join(automaton.negations[number].variables)}" for number, _ in one.crosses]
    return {pair: (" | ".join(takes), "; ".join(dict.fromkeys(absent))) for pair, (takes, absent) in found.items()}


def _middles(labels: dict[tuple[int, int], tuple[str, str]], states: int) -> list[float]:
    middles, x = [], RADIUS + 12.0
    for state in range(states):
        middles.append(x)
        takes, absent = labels.get((state, state + 1), ("", ""))
        own, _ = labels.get((state, state), ("", ""))
        ahead, back = (width_of(text, CODE_SIZE, code=True) for text in (takes, own))
        x += 2 * RADIUS + max(ahead + 26.0, width_of(absent, SMALL_SIZE) + 20.0, LEAST, back - 30.0)
    return middles


def _transition(
    drawing: Drawing, middles: list[float], y: float, source: int, target: int, takes: str, absent: str
) -> None:
    begin, end = middles[source], middles[target]
    if source == target:
        drawing.path(f"M {begin - 9:.1f} {y - 14:.1f} C {begin - 22:.1f} {y - 48:.1f} {begin + 22:.1f} {y - 48:.1f} "
                     f"{begin + 9:.1f} {y - 14:.1f}")  # fmt: skip
        drawing.arrow(begin + 9.0, y - 14.0, "down")
        drawing.text(begin, y - 44.0, takes, "code", "middle")
        return
    if target == source + 1:
        drawing.line([(begin + RADIUS, y), (end - RADIUS, y)])
        drawing.arrow(end - RADIUS, y)
        middle = (begin + end) / 2
        drawing.text(middle, y - 6.0, takes, "code", "middle")
        drawing.text(middle, y + 14.0, absent, "small no", "middle")
        return
    up = -1.0 if target > source else 1.0
    peak = y + up * (RADIUS + ARC_STEP * abs(target - source))
    drawing.path(f"M {begin:.1f} {y + up * RADIUS:.1f} C {begin:.1f} {peak:.1f} {end:.1f} {peak:.1f} {end:.1f} "
                 f"{y + up * RADIUS:.1f}")  # fmt: skip
    drawing.arrow(end, y + up * RADIUS, "down" if up < 0 else "up")
    height = y + up * (RADIUS + 0.75 * ARC_STEP * abs(target - source)) + (-4.0 if up < 0 else 12.0)
    drawing.text((begin + end) / 2, height, f"{takes}{' · ' + absent if absent else ''}", "code", "middle")


def _state(drawing: Drawing, diagram: StateDiagram, state: int, x: float, y: float) -> None:
    begin, accepting = len(drawing.parts), diagram.automaton.accepting[state]
    starts = state in diagram.automaton.starts
    if starts:
        drawing.line([(x - RADIUS - 12.0, y), (x - RADIUS, y)], "preferred")
        drawing.arrow(x - RADIUS, y)
    kind = "accepting" if accepting else "node"
    drawing.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS:.1f}" class="{kind}"/>')
    if accepting:
        drawing.add(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS - 4:.1f}" class="accepting"/>')
        drawing.text(x, y + RADIUS + 14.0, "match", "small", "middle")
    elif starts:
        drawing.text(x, y + RADIUS + 14.0, "start", "small", "middle")
    drawing.text(x, y + 4.5, str(state), "name", "middle")
    drawing.group("state", diagram.title(state), begin)


BARS: dict[Relation, tuple[tuple[float, float], tuple[float, float]]] = {
    Relation.BEFORE: ((14.0, 36.0), (48.0, 76.0)),
    Relation.MEETS: ((14.0, 42.0), (42.0, 76.0)),
    Relation.OVERLAPS: ((14.0, 52.0), (36.0, 76.0)),
    Relation.STARTS: ((14.0, 46.0), (14.0, 76.0)),
    Relation.DURING: ((32.0, 58.0), (14.0, 76.0)),
    Relation.FINISHES: ((14.0, 76.0), (44.0, 76.0)),
    Relation.EQUALS: ((14.0, 76.0), (14.0, 76.0)),
}
"""Starts and ends of both situations; a mirror exchanges them. `finishes` is TPStream's: the first begins earlier."""
WIDTH, HEIGHT = 92.0, 54.0
IN_A_ROW = 7


def _bars_of(relation: Relation) -> tuple[tuple[float, float], tuple[float, float]]:
    if relation in BARS:
        return BARS[relation]
    second, first = BARS[mirror(relation)]
    return first, second


def _glyph(relation: Relation, left: str, right: str) -> Drawing:
    """Draw a relation as two bars, the first symbol above the second, and its name below."""
    drawing = Drawing(max(WIDTH, width_of(relation.value, SMALL_SIZE) + 8.0), HEIGHT)
    first, second = _bars_of(relation)
    for (begin, end), y, name, kind in ((first, 6.0, left, "one"), (second, 22.0, right, "two")):
        drawing.text(10.0, y + 8.5, name[:2], "number", "end")
        drawing.box(begin, y, end - begin, 9.0, kind, 2.0)
    for edge in {*first} & {*second}:
        drawing.line([(edge, 2.0), (edge, 35.0)], "frame")
    drawing.text(WIDTH / 2, 48.0, relation.value, "small", "middle")
    drawing.group("relation", f"{left} {relation.value} {right}", 0)
    return drawing


def _draw_constraints(constraints: Constraints) -> Drawing:
    pairs = constraints.pairs
    margin = max([width_of(f"{left} to {right}", CODE_SIZE, code=True) for left, right, _ in pairs], default=0.0) + 16.0
    drawing = Drawing(margin)
    for left, right, relations in pairs:
        drawing.text(0.0, drawing.height + 24.0, f"{left} to {right}", "code name")
        for number, relation in enumerate(relations):
            column, row = number % IN_A_ROW, number // IN_A_ROW
            made = _glyph(relation, left, right)
            drawing.put(made, margin + column * (WIDTH + 8.0), drawing.height + row * (HEIGHT + 6.0))
        rows = -(-len(relations) // IN_A_ROW)
        drawing.width = max(drawing.width, margin + min(len(relations), IN_A_ROW) * (WIDTH + 8.0))
        drawing.height += max(rows, 1) * (HEIGHT + 6.0)
    return drawing


# Searches: each is a chain, first the symbol that begins it, then the buffers in their order.

BOX, STEP = 32.0, 96.0


def _draw_searches(orders: SearchOrders) -> Drawing:
    drawing = Drawing()
    for search in orders.searches:
        _chain(drawing, search)
    return drawing


def _chain(drawing: Drawing, search: PlannedSearch) -> None:
    begin, y = len(drawing.parts), drawing.height + 4.0
    first = f"{search.order[0]}: {search.when}"
    wide = width_of(first, CODE_SIZE, code=True) + 20.0
    drawing.box(0.0, y, wide, BOX, "accepting")
    drawing.text(wide / 2, y + 20.0, first, "code name", "middle")
    x = wide
    for number, name in enumerate(search.order[1:]):
        drawing.line([(x, y + BOX / 2), (x + STEP, y + BOX / 2)], "preferred")
        drawing.arrow(x + STEP, y + BOX / 2)
        own = max(width_of(name, CODE_SIZE, code=True) + 20.0, 34.0)
        drawing.box(x + STEP, y, own, BOX, "node")
        drawing.text(x + STEP + own / 2, y + 20.0, name, "code name", "middle")
        x += STEP + own
        middle = x - own / 2
        drawing.text(middle, y + BOX + 13.0, f"≈ {search.records[number]:,.3g} records", "number", "middle")
        if search.actual is not None:
            drawing.text(middle, y + BOX + 27.0, f"found {search.actual[number]:,.3g}", "number name", "middle")
    drawing.text(x + 22.0, y + 20.0, search.note, "small")
    drawing.width = max(drawing.width, x + 40.0 + width_of(search.note))
    drawing.height = y + BOX + (38.0 if search.actual is not None else 24.0)
    drawing.group("search", f"{search.path} ({search.when}); {search.note}", begin)


def _draw_region(region: Region) -> Drawing:
    """Draw a live match that ends now, and an archive match that begins before it, ends before it, and is recent."""
    drawing = Drawing(560.0, 104.0)
    drawing.box(120.0, 6.0, 390.0, 66.0, "band", 4.0)
    drawing.text(126.0, 90.0, region.lines()[0], "small")
    for name, begin, end, y, kind in (("archive", 160.0, 330.0, 18.0, "two"), ("live", 260.0, 510.0, 46.0, "one")):
        drawing.text(108.0, y + 12.0, name, "name", "end")
        drawing.box(begin, y, end - begin, 16.0, kind, 3.0)
    drawing.line([(510.0, 0.0), (510.0, 78.0)], "preferred")
    begins = f"The archive match begins within {region.recency} before the end of the live match"
    drawing.group("region", f"{begins}; it begins and ends before it.", 0)
    return drawing


DRAWINGS: dict[type, Callable[[Any], Drawing]] = {
    PlanNode: _draw_tree,
    StateDiagram: _draw_automaton,
    Constraints: _draw_constraints,
    SearchOrders: _draw_searches,
    Region: _draw_region,
    Rails: lambda data: draw_rails(data.whole),
}
"""Functions that draw each kind of diagram."""
