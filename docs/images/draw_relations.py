"""Draws the relations of situations, and when matches of the guide are certain, as SVG; the same text every time.

Run it: python docs/images/draw_relations.py [directory]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

FONT = "font-family='Helvetica, Arial, sans-serif'"
COLOURS = {"A": "#7fa6d8", "B": "#a9c47f", "C": "#e0b35c"}
INK, GREY, MOMENT = "#1c2430", "#5a6572", "#c0392b"
BAR, GAP = 16, 10

Interval = tuple[float, float]


@dataclass(frozen=True)
class Relation:
    """A and B, and what the relation asks of their ends."""

    name: str
    mirror: str
    a: Interval
    b: Interval
    definition: str

    def swapped(self) -> Relation:
        turned = self.definition.translate(str.maketrans("AB", "BA"))
        return Relation(self.mirror, self.name, self.b, self.a, turned)

    @property
    def certain(self) -> float:
        """The third of the four ends in order of time: the fourth cannot change the relation any more."""
        return sorted((*self.a, *self.b))[2]

    @property
    def moment(self) -> str:
        """The ends that lie there."""
        ends = {"A.start": self.a[0], "B.start": self.b[0], "A.end": self.a[1], "B.end": self.b[1]}
        return " = ".join(name for name, time in ends.items() if time == self.certain)


RELATIONS = (
    Relation("before", "after", (0, 2), (3, 5), "A.end < B.start"),
    Relation("meets", "met-by", (0, 2.5), (2.5, 5), "A.end = B.start"),
    Relation("overlaps", "overlapped-by", (0, 3.2), (1.8, 5), "A.start < B.start < A.end < B.end"),
    Relation("starts", "started-by", (0, 3), (0, 5), "A.start = B.start, A.end < B.end"),
    Relation("during", "contains", (1.5, 3.5), (0, 5), "B.start < A.start, A.end < B.end"),
    Relation("finishes", "finished-by", (0, 5), (2, 5), "A.start < B.start, A.end = B.end"),
    Relation("equals", "equals", (0, 5), (0, 5), "A.start = B.start, A.end = B.end"),
)


# ---- pieces ------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def written(x: float, y: float, text: str, *, size: int = 13, colour: str = INK, more: str = "") -> str:
    return f"<text x='{x:g}' y='{y:g}' {FONT} font-size='{size}' fill='{colour}'{more}>{escaped(text)}</text>"


def bar(x: float, to: float, y: float, colour: str, known_to: float) -> list[str]:
    """A situation; what lies after known_to is only outlined."""
    lines = [
        f"<rect x='{x:g}' y='{y:g}' width='{to - x:g}' height='{BAR}' fill='white' stroke='{GREY}' "
        "stroke-dasharray='4 3'/>"
    ]
    if known_to > x:
        lines.append(
            f"<rect x='{x:g}' y='{y:g}' width='{min(to, known_to) - x:g}' height='{BAR}' fill='{colour}' "
            f"stroke='{INK}'/>"
        )
    return lines


def moment(x: float, top: float, bottom: float) -> list[str]:
    """The line at which a match is certain."""
    return [
        f"<line x1='{x:g}' y1='{top:g}' x2='{x:g}' y2='{bottom:g}' stroke='{MOMENT}' stroke-width='2'/>",
        f"<path d='M {x - 5:g} {top - 7:g} L {x + 5:g} {top - 7:g} L {x:g} {top:g} Z' fill='{MOMENT}'/>",
    ]


def picture(width: float, height: float, lines: list[str]) -> str:
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:g} {height:g}' width='{width:g}'>",
            "<rect width='100%' height='100%' fill='white'/>",
            *lines,
            "</svg>\n",
        ]
    )


# ---- the thirteen relations --------------------------------------------------------------------------

CELL_WIDTH, CELL_HEIGHT, MARGIN, SCALE = 470, 118, 20, 52


def relation_cell(relation: Relation, left: float, top: float) -> list[str]:
    bold = " font-weight='bold'"
    lines = [written(left, top + 14, f"A {relation.name} B", size=15, more=bold)]
    lines.append(written(left + 165, top + 14, relation.definition, size=12, colour=GREY))
    begin, upper = left + 22, top + 36
    known = begin + SCALE * relation.certain
    for number, (symbol, (start, end)) in enumerate((("A", relation.a), ("B", relation.b))):
        y = upper + number * (BAR + GAP)
        lines.append(written(left, y + 13, symbol))
        lines += bar(begin + SCALE * start, begin + SCALE * end, y, COLOURS[symbol], known)
    lines += moment(known, upper - 5, upper + 2 * BAR + GAP + 5)
    lines.append(written(begin + SCALE * 5 + 16, upper + BAR + 9, relation.moment, size=12, colour=MOMENT))
    return lines


def relations() -> str:
    """On the left the relations, on the right their mirrors; equals is its own."""
    lines: list[str] = []
    for row, relation in enumerate(RELATIONS):
        top = MARGIN + row * CELL_HEIGHT
        lines += relation_cell(relation, MARGIN, top)
        if relation.mirror != relation.name:
            lines += relation_cell(relation.swapped(), MARGIN + CELL_WIDTH, top)
    note = MARGIN + CELL_WIDTH, MARGIN + 6 * CELL_HEIGHT + 50
    lines += moment(note[0] + 6, note[1] - 8, note[1] + 14)
    lines.append(written(note[0] + 22, note[1] + 2, "the moment from which on the relation is certain;", colour=MOMENT))
    lines.append(written(note[0] + 22, note[1] + 20, "dashed: what is not known there, and does not matter"))
    return picture(2 * CELL_WIDTH + MARGIN, MARGIN + 7 * CELL_HEIGHT, lines)


# ---- two situations that last ------------------------------------------------------------------------


def prefixes() -> str:
    """What two situations that both last may still become."""
    groups = (
        ("A began first", (0, 5), (2, 5), "overlaps, finishes or contains"),
        ("both began together", (1, 5), (1, 5), "starts, equals or started-by"),
        ("B began first", (2, 5), (0, 5), "during, finished-by or overlapped-by"),
    )
    width, scale, now = 300, 40, 3.5
    lines: list[str] = []
    for number, (title, a, b, names) in enumerate(groups):
        left = MARGIN + number * width
        lines.append(written(left, MARGIN + 12, title, size=14, more=" font-weight='bold'"))
        for row, (symbol, (start, _)) in enumerate((("A", a), ("B", b))):
            y = MARGIN + 34 + row * (BAR + GAP)
            lines.append(written(left, y + 13, symbol))
            begin = left + 22
            lines += bar(begin + scale * start, begin + scale * 5, y, COLOURS[symbol], begin + scale * now)
        x = left + 22 + scale * now
        bottom = MARGIN + 34 + 2 * BAR + GAP + 5
        lines.append(f"<line x1='{x:g}' y1='{MARGIN + 28}' x2='{x:g}' y2='{bottom}' stroke='{GREY}'/>")
        lines.append(written(x, bottom + 14, "now", size=12, colour=GREY, more=" text-anchor='middle'"))
        lines.append(written(left, bottom + 34, f"A {names} B", size=12))
    return picture(3 * width + MARGIN, 170, lines)


# ---- the cars of the guide ---------------------------------------------------------------------------

CARS = (
    ("car 1", {"A": (2, 9), "B": (5, 17), "C": (13, 18)}, 17, 16),
    ("car 2", {"A": (2, 9), "B": (5, 27), "C": (13, 16)}, 27, 16),
)
"""Situations, when the query as printed is certain, and when it is without the greatest duration of B."""


def cars() -> str:
    """The situations of two cars, and when each query reports them."""
    scale, left, height = 30, 90, 150
    lines: list[str] = []
    for number, (name, situations, printed, earlier) in enumerate(CARS):
        top = MARGIN + number * height
        lines.append(written(MARGIN, top + 60, name, size=14, more=" font-weight='bold'"))
        for row, (symbol, (start, end)) in enumerate(situations.items()):
            y = top + 32 + row * (BAR + GAP)
            lines.append(written(left - 18, y + 13, symbol))
            lines += bar(left + scale * start, left + scale * end, y, COLOURS[symbol], left + scale * end)
        bottom = top + 32 + 3 * BAR + 2 * GAP + 6
        for second, text, anchor in ((printed, "as printed", "start"), (earlier, "without 30s", "end")):
            x = left + scale * second
            lines += moment(x, top + 27, bottom)
            shift = 8 if anchor == "start" else -8
            more = f" text-anchor='{anchor}'"
            lines.append(written(x + shift, top + 22, text, size=12, colour=MOMENT, more=more))
    axis = MARGIN + 2 * height
    lines.append(f"<line x1='{left}' y1='{axis}' x2='{left + scale * 29}' y2='{axis}' stroke='{GREY}'/>")
    for second in range(0, 30, 5):
        x, middle = left + scale * second, " text-anchor='middle'"
        lines.append(f"<line x1='{x}' y1='{axis}' x2='{x}' y2='{axis + 5}' stroke='{GREY}'/>")
        lines.append(written(x, axis + 20, f"{second} s", size=12, colour=GREY, more=middle))
    return picture(left + scale * 29 + MARGIN, axis + 30, lines)


PICTURES = {"relations.svg": relations, "prefixes.svg": prefixes, "cars.svg": cars}


def main(directory: Path) -> None:
    for name, draw in PICTURES.items():
        (directory / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
