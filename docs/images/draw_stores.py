"""Draws the picture of a stream's log and archive as SVG; the same every time.

Run it: python docs/images/draw_stores.py [directory]
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, RED, PALE = "#1c2430", "#5a6572", "#3b6fb6", "#c0392b", "#eef2f7"
WIDTH, HEIGHT = 780, 300
LOG, ARCHIVE = 70, 200
"""Where the rows of segments and of files are."""


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = INK, size: int = 12) -> str:
    where = f"x='{x:g}' y='{y:g}' text-anchor='{anchor}'"
    return f"<text {where} {FONT} font-size='{size}' fill='{colour}'>{text}</text>"


def _box(x: float, y: float, width: float, height: float, fill: str = "white", stroke: str = INK) -> str:
    return f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='3' fill='{fill}' stroke='{stroke}'/>"


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str = GREY) -> str:
    path = f"M{x1:g} {y1:g} L{x2:g} {y2:g}"
    return f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='1.5' marker-end='url(#tip)'/>"


def segments() -> list[str]:
    """The log: numbered segments of four lanes; the first ones are archived."""
    lines = [_text(130, LOG - 14, "log", "start", GREY)]
    for number in range(1, 9):
        x = 130 + (number - 1) * 54
        archived = number <= 5
        lines.append(_box(x, LOG, 44, 44, PALE if archived else "white", GREY if archived else BLUE))
        for lane in range(4):
            y = LOG + 8 + lane * 9
            lines.append(f"<path d='M{x + 6} {y} h32' stroke='{GREY if archived else BLUE}' stroke-width='3'/>")
        lines.append(_text(x + 22, LOG + 58, str(number), colour=GREY if archived else BLUE))
    return lines


def files() -> list[str]:
    """The archive: files in partitions by time."""
    lines = [_text(130, ARCHIVE - 14, "archive", "start", GREY)]
    for number, (day, commits) in enumerate((("day=2026-01-05", ("1–3", "4–5")), ("day=2026-01-06", ("4–5",)))):
        x = 130 + number * 190
        lines.append(_box(x, ARCHIVE, 170, 56, PALE, GREY))
        lines.append(_text(x + 85, ARCHIVE + 72, day, colour=GREY))
        for place, range_ in enumerate(commits):
            lines.append(_box(x + 10 + place * 78, ARCHIVE + 10, 70, 36))
            lines.append(_text(x + 45 + place * 78, ARCHIVE + 32, range_))
    return lines


def main(directory: Path = HERE) -> None:
    tip = "<marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}'>",
        f"<defs>{tip}<path d='M0 0 L8 4 L0 8 z' fill='{GREY}'/></marker></defs>",
        f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>",
        *segments(),
        *files(),
        _text(50, LOG + 4, "producer"),
        _text(50, LOG + 44, "producer"),
        _arrow(84, LOG, 124, LOG + 14),
        _arrow(84, LOG + 40, 124, LOG + 30),
        _text(628, LOG + 4, "live queries", "start", BLUE),
        _text(628, LOG + 20, "from a position", "start", GREY, 11),
        _arrow(562, LOG + 10, 620, LOG + 4),
        _arrow(260, LOG + 64, 260, ARCHIVE - 6),
        _text(270, LOG + 92, "archiver: each batch once", "start", GREY, 11),
        f"<path d='M130 {ARCHIVE + 84} H490' stroke='{RED}' stroke-width='2'/>",
        f"<path d='M400 {LOG - 6} H562' stroke='{RED}' stroke-width='2'/>",
        _arrow(500, ARCHIVE + 28, 620, ARCHIVE + 22),
        _text(628, ARCHIVE + 26, "queries of the past", "start", RED),
        _text(628, ARCHIVE + 42, "archive, then log", "start", GREY, 11),
        "</svg>",
        "",
    ]
    (directory / "stores.svg").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
