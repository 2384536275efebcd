"""Trees of boxes, the root on top: each box over the middle of those below it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from episode.see.pictures.plans.drawing import LINE, Drawing, width_of

LEVEL, BESIDE, PAD = 34.0, 22.0, 10.0
"""Between two levels; between neighbours; within a box."""


@dataclass(frozen=True)
class TreeBox:
    """lines: each with its kind (classes of text). flow: how much goes from here to the box above, which makes the line
    thicker. title: all of it in words."""

    lines: tuple[tuple[str, str], ...]
    title: str
    kind: str = "node"
    flow: float = 0.0
    children: tuple[TreeBox, ...] = ()

    @property
    def size(self) -> tuple[float, float]:
        widest = max(width_of(line, 12.5 if "code" in kind else 13.0, "code" in kind) for line, kind in self.lines)
        return widest + 2 * PAD, len(self.lines) * LINE + 2 * PAD - 4.0


def drawn_tree(root: TreeBox) -> Drawing:
    """The whole tree."""
    drawing = Drawing()
    width, height, _ = _put(drawing, root, 0.0, 2.0)
    drawing.width, drawing.height = width + 2.0, height + 2.0
    return drawing


def _put(drawing: Drawing, box: TreeBox, x: float, y: float) -> tuple[float, float, float]:
    """Draw a tree from a left upper corner on: (its right end, its lower end, the middle of its box)."""
    width, height = box.size
    below, ends, middles = y + height + LEVEL, [y + height], []
    span = sum(_width(child) for child in box.children) + BESIDE * max(0, len(box.children) - 1)
    left = x + max(0.0, (width - span) / 2)
    right = x + width
    for child in box.children:
        end, lower, middle = _put(drawing, child, left, below)
        left, right = end + BESIDE, max(right, end)
        ends.append(lower)
        middles.append((middle, child))
    middle = (middles[0][0] + middles[-1][0]) / 2 if middles else x + width / 2
    middle = max(middle, x + width / 2)
    right = max(right, middle + width / 2)
    for other, child in middles:
        thick = 1.2 + min(6.0, 1.4 * math.log10(1.0 + max(0.0, child.flow)))
        drawing.add(
            f'<path d="M {other:.1f} {below:.1f} C {other:.1f} {below - LEVEL / 2:.1f} {middle:.1f} '
            f'{below - LEVEL / 2:.1f} {middle:.1f} {y + height:.1f}" class="rail" style="stroke-width:{thick:.1f}"/>'
        )
    begin = len(drawing.parts)
    drawing.box(middle - width / 2, y, width, height, box.kind)
    for number, (line, kind) in enumerate(box.lines):
        drawing.text(middle, y + PAD + LINE * number + 10.0, line, kind, "middle")
    drawing.group("operator" if box.children else "leaf", box.title, begin)
    return right, max(ends), middle


def _width(box: TreeBox) -> float:
    inner = sum(_width(child) for child in box.children) + BESIDE * max(0, len(box.children) - 1)
    return max(box.size[0], inner)
