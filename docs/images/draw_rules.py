"""Draws the picture of a shared plan of rules as SVG; the same every time.

Run it: python docs/images/draw_rules.py [directory]
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, GREEN, PALE = "#1c2430", "#5a6572", "#3b6fb6", "#2e7d4f", "#eef2f7"
WIDTH, HEIGHT = 860, 400
ROWS = (60, 118, 176, 234, 292)
"""Where the rules stand."""
CLASSES = (("kind = 'login'", 70), ("kind = 'fail'", 140), ("kind = 'pay'", 210), ("… AND amount &gt; 900", 280))
RULES = (
    ("stolen card", "event pattern", (1, 3)),
    ("new device", "event pattern", (0, 3)),
    ("many failures", "row pattern", (1,)),
    ("refunds", "event pattern", ()),
    ("rising amounts", "row pattern", (2,)),
)
"""Rules, and the classes of rows that each asks for."""


def _text(x: float, y: float, text: str, anchor: str = "middle", colour: str = INK, size: int = 12) -> str:
    where = f"x='{x:g}' y='{y:g}' text-anchor='{anchor}'"
    return f"<text {where} {FONT} font-size='{size}' fill='{colour}'>{text}</text>"


def _box(
    x: float, y: float, width: float, height: float, fill: str = "white", stroke: str = INK, more: str = ""
) -> str:
    size = f"x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}'"
    return f"<rect {size} rx='3' fill='{fill}' stroke='{stroke}' {more}/>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = GREY, more: str = "marker-end='url(#tip)'") -> str:
    return f"<path d='M{x1:g} {y1:g} L{x2:g} {y2:g}' fill='none' stroke='{colour}' stroke-width='1.4' {more}/>"


def shared() -> list[str]:
    """What is done once: read, pack and sort; then classes of rows."""
    lines = [_text(62, 30, "once", colour=GREY), _text(325, 30, "once for each class of rows", colour=GREY)]
    for y, title, below in ((130, "read", "union of columns"), (210, "pack, sort", "by account, ts")):
        lines += [
            _box(12, y - 26, 104, 46, PALE),
            _text(64, y - 6, title),
            _text(64, y + 11, below, colour=GREY, size=10),
        ]
    lines += [_line(64, 150, 64, 182), _line(116, 207, 232, 186)]
    for title, y in CLASSES:
        lines += [_box(236, y - 18, 180, 36, "white", BLUE), _text(326, y + 5, title, colour=BLUE)]
        if title.startswith("kind"):
            lines.append(_line(190, 193, 234, y, GREY, ""))
    lines.append(_line(326, 228, 326, 260, BLUE))
    lines.append(_text(318, 248, "tested on these rows alone", "end", GREY, 10))
    return lines


def rules() -> list[str]:
    """The rules with the classes that they ask for, and what comes out."""
    lines = [_text(600, 30, "each rule, on its own rows", colour=GREY), _text(795, 30, "once", colour=GREY)]
    for (name, kind, asked), y in zip(RULES, ROWS, strict=True):
        idle = not asked
        colour = GREY if idle else GREEN
        dashed = "stroke-dasharray='4 3'" if idle else ""
        lines += [_box(520, y - 20, 160, 42, PALE if idle else "white", colour, dashed)]
        lines += [
            _text(600, y - 3, name, colour=colour),
            _text(600, y + 13, "no row: left out" if idle else kind, colour=GREY, size=10),
        ]
        lines += [_line(416, CLASSES[one][1], 518, y, BLUE) for one in asked]
        if not idle:
            lines.append(_line(680, y, 740, 176, GREEN))
    lines += [
        _box(744, 140, 104, 72, PALE),
        _text(796, 162, "one result"),
        _text(796, 180, "rule, key, times,", size=10),
    ]
    lines += [_text(796, 194, "result (VARIANT)", size=10)]
    return lines


def main(directory: Path = HERE) -> None:
    tip = (
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        f"<path d='M0 0 L8 4 L0 8 z' fill='{GREY}'/></marker></defs>"
    )
    note = _text(
        430, 372, "Conditions that several rules have are evaluated once; rows are chosen once for equal demands."
    )
    body = "\n".join([tip, *shared(), *rules(), note])
    size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
    head = f"<svg xmlns='http://www.w3.org/2000/svg' {size} role='img' aria-label='The shared plan of five rules'>"
    background = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>"
    (directory / "rules.svg").write_text(f"{head}\n{background}\n{body}\n</svg>\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
