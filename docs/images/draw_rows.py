"""Draws a V-shape with its labels, and what AFTER MATCH SKIP does, as SVG.

Run it: python docs/images/draw_rows.py [directory]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, RED, GREEN, PALE = "#1c2430", "#5a6572", "#3b6fb6", "#c0392b", "#2e7d4f", "#eef2f7"
COLOURS = {"STRT": INK, "DOWN": RED, "UP": GREEN}

V_PRICES = (20, 18, 15, 17, 21)
W_PRICES = (20, 18, 15, 19, 14, 17)
"""Two V's that share a row, of prices of which all other neighbours fall or rise, too."""
SKIPS = ("PAST LAST ROW", "TO NEXT ROW", "TO FIRST DOWN", "TO LAST UP")
Match = tuple[int, list[str]]
"""The place of the first row, and the labels of the rows from there on."""


def match_at(prices: Sequence[int], start: int) -> Match | None:
    """The match of STRT DOWN+ UP+ that begins at a row."""
    labels = ["STRT"]
    for before, price in zip(prices[start:], prices[start + 1 :]):
        if price < before and labels[-1] != "UP":
            labels.append("DOWN")
        elif price > before and labels[-1] != "STRT":
            labels.append("UP")
        else:
            break
    return (start, labels) if labels[-1] == "UP" else None


def matches(prices: Sequence[int], skip: str) -> list[Match]:
    """All matches of the table, in the order in which they are found."""
    found, start = [], 0
    while start < len(prices):
        one = match_at(prices, start)
        if one is None:
            start += 1
            continue
        found.append(one)
        labels = one[1]
        steps = {
            "PAST LAST ROW": len(labels),
            "TO NEXT ROW": 1,
            "TO FIRST DOWN": labels.index("DOWN"),
            "TO LAST UP": len(labels) - 1,
        }
        start += steps[skip]
    return found


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = GREY, size: int = 13) -> str:
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' {FONT} font-size='{size}' fill='{colour}'>{words}</text>"


def page(width: int, height: int, parts: list[str]) -> str:
    begin = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>"
    return "\n".join([begin, f"<rect width='{width}' height='{height}' rx='6' fill='white'/>", *parts, "</svg>", ""])


def polyline(points: Sequence[tuple[float, float]], colour: str, width: float) -> str:
    shown = " ".join(f"{x:g},{y:.1f}" for x, y in points)
    return f"<polyline points='{shown}' fill='none' stroke='{colour}' stroke-width='{width:g}'/>"


def v_shape() -> str:
    """Five prices, the label of each, and what the measures give."""
    left, step, top, height = 75, 110, 60, 120
    least, most = min(V_PRICES), max(V_PRICES)
    points = [
        (left + step * number, top + height * (most - price) / (most - least)) for number, price in enumerate(V_PRICES)
    ]
    found = match_at(V_PRICES, 0)
    assert found is not None
    labels = found[1]
    parts = [text(left - 30, 28, "PATTERN (STRT DOWN+ UP+)", "start", INK, 15)]
    parts.append(polyline(points, GREY, 1.5))
    for number, ((x, y), label) in enumerate(zip(points, labels)):
        colour = COLOURS[label]
        if number:
            parts.append(polyline(points[number - 1 : number + 1], colour, 3))
        above = number in (0, len(points) - 1) or label == "UP"
        parts.append(text(x, y - 12 if above else y + 22, str(V_PRICES[number]), colour=INK))
    for number, ((x, y), label) in enumerate(zip(points, labels)):
        parts.append(f"<circle cx='{x:g}' cy='{y:.1f}' r='5' fill='{COLOURS[label]}'/>")
        parts.append(text(x, top + height + 52, label, colour=COLOURS[label], size=15))
        parts.append(text(x, top + height + 72, f"day {number + 1}"))
    bottom = top + height + 100
    x = left - 30
    for words, value in (("STRT.price", V_PRICES[0]), ("LAST(DOWN.price)", least), ("LAST(UP.price)", V_PRICES[-1])):
        parts.append(text(x, bottom, f"{words} = {value}", "start", INK))
        x += 55 + 8.2 * len(words)
    return page(left + step * (len(V_PRICES) - 1) + 60, bottom + 20, parts)


def skips() -> str:
    """The matches that each form of AFTER MATCH SKIP finds in the same rows, and where the search goes on."""
    left, step, top, height = 190, 80, 68, 70
    least, most = min(W_PRICES), max(W_PRICES)
    across = [left + step * number for number in range(len(W_PRICES))]
    points = [(x, top + height * (most - price) / (most - least)) for x, price in zip(across, W_PRICES)]
    parts = [text(20, 26, "PATTERN (STRT DOWN+ UP+)", "start", INK)]
    parts.append(polyline(points, GREY, 1.5))
    for (x, y), price in zip(points, W_PRICES):
        lowest = price in (15, 14)
        parts.append(f"<circle cx='{x}' cy='{y:.1f}' r='4' fill='{INK}'/>")
        parts.append(text(x, y + 20 if lowest else y - 10, str(price), colour=INK))
    y = top + height + 44
    parts += [text(x, y, f"row {number}", size=12) for number, x in enumerate(across, 1)]
    y += 20
    for skip in SKIPS:
        found = matches(W_PRICES, skip)
        tall = 26 * len(found) + 14
        parts.append(f"<rect x='10' y='{y}' width='{across[-1] + 60}' height='{tall}' rx='4' fill='{PALE}'/>")
        parts.append(text(20, y + 25, f"SKIP {skip}", "start", INK))
        for number, (start, labels) in enumerate(found):
            line = y + 20 + 26 * number
            parts.append(polyline([(across[start], line), (across[start + len(labels) - 1], line)], BLUE, 3))
            for place, label in enumerate(labels):
                x = across[start + place]
                parts.append(f"<circle cx='{x}' cy='{line}' r='5' fill='{COLOURS[label]}'/>")
                parts.append(text(x + 8, line - 5, label, "start", COLOURS[label], 10))
        y += tall + 8
    return page(across[-1] + 80, y + 6, parts)


def main(directory: Path) -> None:
    for name, drawing in (("v-shape", v_shape()), ("skip", skips())):
        (directory / f"{name}.svg").write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
