"""Draws the recency region of a live match as SVG.

Run it: python docs/images/draw_recency.py [directory]
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, RED, PALE, SHADE = "#1c2430", "#5a6572", "#3b6fb6", "#c0392b", "#eef2f7", "#dbe7f5"

PRICES = (10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3)
"""The prices of the worked example of the paper (Table 1), one a second."""
LIVE = (8, 9)
"""Seconds of the first and the last tuple of a live match; below, of the archive matches in its region."""
ARCHIVE = ((2, 4), (4, 6))
RECENCY = 7
LEFT, STEP, TOP, HEIGHT = 70, 50, 50, 140


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = GREY, size: int = 12) -> str:
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' {FONT} font-size='{size}' fill='{colour}'>{words}</text>"


def page(width: int, height: int, parts: list[str]) -> str:
    begin = f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}'>"
    return "\n".join([begin, f"<rect width='{width}' height='{height}' fill='white'/>", *parts, "</svg>", ""])


def region() -> str:
    """A live match, its recency region, and the archive matches in it."""

    def at(second: float) -> float:
        return LEFT + STEP * second

    def high(price: float) -> float:
        return TOP + HEIGHT * (1 - price / max(PRICES))

    begin, end = LIVE[1] - RECENCY, LIVE[1]
    bottom = TOP + HEIGHT
    size = f"width='{at(end) - at(begin):g}' height='{HEIGHT + 14}'"
    parts = [f"<rect x='{at(begin):g}' y='{TOP - 14}' {size} fill='{SHADE}'/>"]
    parts.append(text((at(begin) + at(end)) / 2, TOP - 22, "recency region of the live match: 7 seconds", colour=BLUE))
    points = " ".join(f"{at(i):g},{high(price):.1f}" for i, price in enumerate(PRICES))
    parts.append(f"<polyline points='{points}' fill='none' stroke='{GREY}' stroke-width='1.5'/>")
    for first, last in (*ARCHIVE, LIVE):
        colour = RED if (first, last) == LIVE else BLUE
        points = " ".join(f"{at(i):g},{high(PRICES[i]):.1f}" for i in range(first, last + 1))
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='3'/>")
    parts += [f"<circle cx='{at(i):g}' cy='{high(p):.1f}' r='3' fill='{INK}'/>" for i, p in enumerate(PRICES)]
    parts += [text(at(i), bottom + 18, f"02:{i:02d}") for i in range(len(PRICES))]
    parts.append(text(at(3), bottom + 40, "archive match: 02:02 to 02:04", colour=BLUE))
    parts.append(text(at(5) + 10, bottom + 58, "archive match: 02:04 to 02:06", colour=BLUE))
    parts.append(text(at(8.5), bottom + 40, "live match: 02:08 to 02:09", colour=RED))
    return page(LEFT + STEP * len(PRICES) + 10, bottom + 72, parts)


def main(directory: Path) -> None:
    (directory / "recency.svg").write_text(region(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
