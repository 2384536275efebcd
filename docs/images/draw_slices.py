"""Draws slices of time with their overlaps, and a chain of matches that is followed over a cut, as SVG.

Run it: python docs/images/draw_slices.py [directory]
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, RED, GREEN, PALE, SHADE = "#1c2430", "#5a6572", "#3b6fb6", "#c0392b", "#2e7d4f", "#eef2f7", "#dbe7f5"

EVENTS = (1, 3, 4, 6, 8, 9, 11, 13, 14, 16, 17, 19, 21, 22, 24, 26, 27, 29, 31, 32, 34, 36, 38, 39, 41, 43, 44, 46)
"""Times of the events of one key."""
CUTS = (16, 32)
WITHIN = 6
MATCHES = ((3, 8), (13, 17), (14, 19), (22, 27), (29, 34), (39, 44))
"""The first and the last event of matches."""

LEFT, UNIT, END, ROW = 150, 14, 48, 44
COUNT_FROM, CHAIN_FROM = 96, 330
CHAIN_ROWS, JOIN = 13, 8
OWN, TRUE = ((0, 3), (4, 6), (8, 11)), ((2, 5), (6, 7), (8, 11))
"""Matches of a slice's own chain, and of the true one, which enters at row 2 and joins at row 8: row numbers."""


def x_of(time: float) -> float:
    return LEFT + UNIT * time


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = GREY, size: int = 12) -> str:
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' {FONT} font-size='{size}' fill='{colour}'>{words}</text>"


def box(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    return f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='{fill}' {more}/>"


def dots(times: tuple[int, ...], y: float, colour: str) -> list[str]:
    return [f"<circle cx='{x_of(time):g}' cy='{y:g}' r='3.5' fill='{colour}'/>" for time in times]


def slices() -> list[str]:
    """The events of a key, and below them the three slices, each with the events after it that its matches can need."""
    bottom = COUNT_FROM + ROW * (len(CUTS) + 1)
    parts = [
        text(20, 24, f"One key, cut into slices: a match lasts at most {WITHIN} (WITHIN {WITHIN})", "start", INK, 14)
    ]
    parts += [text(LEFT - 14, 64, "events", "end"), *dots(EVENTS, 60, INK)]
    for cut in CUTS:
        parts.append(
            f"<line x1='{x_of(cut):g}' y1='44' x2='{x_of(cut):g}' y2='{bottom}' stroke='{RED}' stroke-dasharray='4 3'/>"
        )
        parts.append(text(x_of(cut), 40, "cut", colour=RED, size=11))
    bounds = (0, *CUTS, END)
    for number, (first, last) in enumerate(pairwise(bounds)):
        y = COUNT_FROM + ROW * number
        until = min(END, last + WITHIN)
        parts.append(text(LEFT - 14, y + 20, f"slice {number + 1}", "end", INK))
        parts.append(box(x_of(first), y, UNIT * (last - first), ROW - 10, SHADE))
        parts.append(
            box(x_of(last), y, UNIT * (until - last), ROW - 10, PALE, f"stroke='{BLUE}' stroke-dasharray='3 3'")
        )
        if until > last:
            parts.append(text(x_of(until) + 8, y + 21, "overlap", "start", BLUE, 11))
        parts += dots(tuple(time for time in EVENTS if first <= time < last), y + 24, INK)
        parts += dots(tuple(time for time in EVENTS if last <= time <= until), y + 24, GREY)
        for begin, end in MATCHES:
            if first <= begin < last:
                high = y + (8 if (begin, end) != (14, 19) else 15)
                parts.append(box(x_of(begin), high - 2, UNIT * (end - begin), 4, GREEN, "rx='2'"))
    owned = "A slice has the matches that start in it (green), also where they end after it."
    parts.append(text(x_of(0), bottom + 8, owned, "start"))
    return parts


def chain() -> list[str]:
    """Rows of a slice: its own chain of matches, the true one, and where they join."""
    y, wide = CHAIN_FROM, 40.0

    def at(row: float) -> float:
        return LEFT + wide * row

    title = "AFTER MATCH SKIP PAST LAST ROW: a match of the slice before may reach into the slice"
    parts = [text(20, y - 44, title, "start", INK, 14)]
    parts.append(
        f"<line x1='{at(0):g}' y1='{y - 26}' x2='{at(0):g}' y2='{y + 88}' stroke='{RED}' stroke-dasharray='4 3'/>"
    )
    parts.append(box(at(-1.5), y - 20, wide * 3.3, 12, GREY, "rx='3'"))
    parts.append(text(at(2) + 4, y - 10, "the last match of the slice before", "start", GREY, 11))
    for name, matches, high, colour in (("its own chain", OWN, y + 14, BLUE), ("the true chain", TRUE, y + 54, GREEN)):
        parts.append(text(LEFT - 70, high + 9, name, "end", colour))
        parts += [
            f"<circle cx='{at(row) + wide / 2:g}' cy='{high + 22:g}' r='3' fill='{INK}'/>" for row in range(CHAIN_ROWS)
        ]
        for first, last in matches:
            fill = colour if first >= JOIN or matches is TRUE else SHADE
            length = wide * (last - first + 1) - 12
            parts.append(box(at(first) + 6, high, length, 12, fill, f"rx='3' stroke='{colour}'"))
    parts.append(
        f"<line x1='{at(JOIN):g}' y1='{y + 4}' x2='{at(JOIN):g}' y2='{y + 84}' stroke='{INK}' stroke-dasharray='2 3'/>"
    )
    parts.append(
        text(at(JOIN) + 4, y + 96, "from here on both are one: the slice's own matches are kept", "start", INK, 11)
    )
    parts.append(text(at(2), y + 96, "entered here, matched again", "start", GREEN, 11))
    return parts


def picture() -> str:
    width, height = x_of(END) + 30, CHAIN_FROM + 116
    begin = (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:g}' height='{height}' viewBox='0 0 {width:g} {height}'>"
    )
    ground = f"<rect width='{width:g}' height='{height}' rx='6' fill='white'/>"
    return "\n".join([begin, ground, *slices(), *chain(), "</svg>", ""])


def main(directory: Path) -> None:
    (directory / "slices.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
