"""Draws the trees of docs/how-plans-are-chosen.md as SVG, without any library; the same text every time.

Run it: python docs/images/draw_trees.py [directory]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

LEAF_GAP, LEVEL, RADIUS, MARGIN = 92, 84, 21, 20
OPERATOR, EVENT, ABSENT, GROUP = "#dbe7f6", "#eef3e4", "#f8dfdc", "#fdf0cd"
FONT = "font-family='Helvetica, Arial, sans-serif'"


@dataclass
class Node:
    """A node with a name, a note beside it, and children from left to right."""

    name: str
    note: str = ""
    children: list[Node] = field(default_factory=list)
    colour: str = EVENT
    x: float = 0.0
    y: float = 0.0


def seq(left: Node, right: Node, note: str = "") -> Node:
    return Node("SEQ", note, [left, right], OPERATOR)


def placed(node: Node, left: float, top: float) -> float:
    """Gives the node and all below it a place; returns where the next leaf may stand."""
    node.y = top
    if not node.children:
        node.x = left
        return left + LEAF_GAP
    for child in node.children:
        left = placed(child, left, top + LEVEL)
    node.x = (node.children[0].x + node.children[-1].x) / 2
    return left


def below(node: Node) -> list[Node]:
    return [node, *(one for child in node.children for one in below(child))]


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def drawn(root: Node) -> list[str]:
    """The edges of a tree, then its nodes."""
    lines = []
    for node in below(root):
        for child in node.children:
            lines.append(
                f"<line x1='{node.x:g}' y1='{node.y:g}' x2='{child.x:g}' y2='{child.y:g}' "
                "stroke='#7a8594' stroke-width='1.5'/>"
            )
    for node in below(root):
        width = max(2 * RADIUS, 11 * len(node.name) + 14)
        lines.append(
            f"<rect x='{node.x - width / 2:g}' y='{node.y - RADIUS:g}' width='{width}' height='{2 * RADIUS}' "
            f"rx='{RADIUS}' fill='{node.colour}' stroke='#4a5563'/>"
        )
        lines.append(
            f"<text x='{node.x:g}' y='{node.y + 5:g}' {FONT} font-size='15' text-anchor='middle' "
            f"fill='#1c2430'>{escaped(node.name)}</text>"
        )
        if node.note:
            lines.append(
                f"<text x='{node.x:g}' y='{node.y - RADIUS - 6:g}' {FONT} font-size='12' text-anchor='middle' "
                f"fill='#5a6572' stroke='white' stroke-width='4' paint-order='stroke'>{escaped(node.note)}</text>"
            )
    return lines


def picture(trees: list[tuple[str, Node]]) -> str:
    """Trees side by side, each with a title below it."""
    lines, left, deepest = [], float(MARGIN + 60), 0.0
    for _, tree in trees:
        placed(tree, 0.0, 0.0)
        deepest = max(deepest, *(node.y for node in below(tree)))
    bottom = MARGIN + 46 + deepest + RADIUS + 34
    for title, tree in trees:
        right = placed(tree, left, MARGIN + 46) - LEAF_GAP
        lines += drawn(tree)
        lines.append(
            f"<text x='{(left + right) / 2:g}' y='{bottom:g}' {FONT} font-size='14' text-anchor='middle' "
            f"font-weight='bold' fill='#1c2430'>{escaped(title)}</text>"
        )
        left = right + 2 * LEAF_GAP
    width, height = left - 2 * LEAF_GAP + MARGIN + 60, bottom + MARGIN
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}'>",
            "<rect width='100%' height='100%' fill='white'/>",
            *lines,
            "</svg>\n",
        ]
    )


def shapes() -> str:
    """A; B; C; D in three ways."""
    return picture(
        [
            ("left-deep", seq(seq(seq(Node("A"), Node("B")), Node("C")), Node("D"))),
            ("right-deep", seq(Node("A"), seq(Node("B"), seq(Node("C"), Node("D"))))),
            ("bushy", seq(seq(Node("A"), Node("B")), seq(Node("C"), Node("D")))),
        ]
    )


def negation() -> str:
    """A; !B; C with the negation inside the join, and after it."""
    nseq = Node("NSEQ", "", [Node("!B", colour=ABSENT), Node("C")], OPERATOR)
    on_top = Node("NEG", "no B between A and C", [seq(Node("A"), Node("C")), Node("B", colour=ABSENT)], OPERATOR)
    return picture(
        [
            ("pushed down", seq(Node("A"), nseq, "latest B before C: start ≤ A's end")),
            ("on top", on_top),
        ]
    )


def closure() -> str:
    """A; B+; C: bounds in the join, the group at the root."""
    join = Node("KSEQ", "A's end < start of the last B before C", colour=OPERATOR)
    join.children = [Node("A"), Node("B+", colour=GROUP), Node("C")]
    return picture([("A; B+; C", Node("GROUP", "all B between", [join], OPERATOR))])


PICTURES = {"shapes.svg": shapes, "negation.svg": negation, "closure.svg": closure}


def main(directory: Path) -> None:
    for name, draw in PICTURES.items():
        (directory / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
