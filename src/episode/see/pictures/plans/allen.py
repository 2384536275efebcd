"""Allen's relations as little pictures: two bars, the situation of the first symbol above that of the second."""

from __future__ import annotations

from episode.lang.situations.allen import Relation, mirror
from episode.see.pictures.plans.drawing import SMALL_SIZE, Drawing, width_of

_UPPER, _LOWER = (18.0, 48.0), (38.0, 72.0)
BARS: dict[Relation, tuple[tuple[float, float], tuple[float, float]]] = {
    Relation.BEFORE: ((14.0, 36.0), (48.0, 76.0)),
    Relation.MEETS: ((14.0, 42.0), (42.0, 76.0)),
    Relation.OVERLAPS: ((14.0, 52.0), (36.0, 76.0)),
    Relation.STARTS: ((14.0, 46.0), (14.0, 76.0)),
    Relation.DURING: ((32.0, 58.0), (14.0, 76.0)),
    Relation.FINISHES: ((14.0, 76.0), (44.0, 76.0)),
    Relation.EQUALS: ((14.0, 76.0), (14.0, 76.0)),
}
"""From where to where both last; a mirror has the two exchanged. `finishes` is TPStream's: the first begins earlier."""
WIDTH, HEIGHT = 92.0, 54.0


def bars_of(relation: Relation) -> tuple[tuple[float, float], tuple[float, float]]:
    """From where to where the first and the second situation last."""
    if relation in BARS:
        return BARS[relation]
    second, first = BARS[mirror(relation)]
    return first, second


def glyph(relation: Relation, left: str, right: str) -> Drawing:
    """One relation of two symbols, with its name below."""
    drawing = Drawing(max(WIDTH, width_of(relation.value, SMALL_SIZE) + 8.0), HEIGHT)
    first, second = bars_of(relation)
    for (begin, end), y, name, kind in ((first, 6.0, left, "one"), (second, 22.0, right, "two")):
        drawing.text(10.0, y + 8.5, name[:2], "number", "end")
        drawing.box(begin, y, end - begin, 9.0, kind, 2.0)
    for edge in {*first} & {*second}:
        drawing.line([(edge, 2.0), (edge, 35.0)], "frame")
    drawing.text(WIDTH / 2, 48.0, relation.value, "small", "middle")
    drawing.group("relation", f"{left} {relation.value} {right}", 0)
    return drawing
