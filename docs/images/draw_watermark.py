"""Draws events of a stream, its watermark, and late events as SVG.

Run it: python docs/images/draw_watermark.py [directory]
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, RED, GREEN, PALE, SHADE = "#1c2430", "#5a6572", "#3b6fb6", "#c0392b", "#2e7d4f", "#eef2f7", "#dbe7f5"

BATCHES = ((2, 4, 3), (9, 12, 8), (16, 5, 13), (20, 10, 18), (24, 22))
"""Seconds of the events of five micro-batches, in order of arrival."""
DELAY = 5
LEFT, STEP, TOP, HEIGHT, MOST = 80, 42, 50, 260, 26


def watermarks() -> list[int | None]:
    """The watermark that each micro-batch begins with: the greatest time of those before it, minus the delay."""
    found: list[int | None] = [None]
    for number in range(1, len(BATCHES)):
        found.append(max(time for batch in BATCHES[:number] for time in batch) - DELAY)
    return found


def text(x: float, y: float, words: str, anchor: str = "middle", colour: str = GREY, size: int = 12) -> str:
    return f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' {FONT} font-size='{size}' fill='{colour}'>{words}</text>"


def stream() -> str:
    """Events by arrival (across) and event time (upwards); what is at or below the line of the watermark is late."""

    def high(second: float) -> float:
        return TOP + HEIGHT * (1 - second / MOST)

    bottom, right = TOP + HEIGHT, LEFT + STEP * sum(len(batch) + 1 for batch in BATCHES)
    parts = [text(LEFT - 50, 24, "event time", "start"), text(right, bottom + 42, "order of arrival", "end")]
    parts += [
        f"<line x1='{LEFT - 14}' y1='{high(second):.1f}' x2='{right}' y2='{high(second):.1f}' stroke='{PALE}'/>"
        for second in range(0, MOST, 5)
    ]
    parts += [text(LEFT - 20, high(second) + 4, f"{second} s", "end") for second in range(0, MOST, 5)]
    x = float(LEFT)
    for number, (batch, watermark) in enumerate(zip(BATCHES, watermarks()), 1):
        width = STEP * (len(batch) + 1) - 6
        parts.append(text(x + width / 2, bottom + 20, f"micro-batch {number}", colour=INK))
        if watermark is not None and watermark >= 0:
            y = high(watermark)
            box = f"x='{x:g}' y='{y:.1f}' width='{width}' height='{bottom - y:.1f}'"
            parts.append(f"<rect {box} fill='{SHADE}'/>")
            parts.append(
                f"<line x1='{x:g}' y1='{y:.1f}' x2='{x + width:g}' y2='{y:.1f}' stroke='{BLUE}' stroke-width='3'/>"
            )
            parts.append(text(x + 4, bottom - 8, f"watermark {watermark} s", "start", BLUE, 11))
        for place, second in enumerate(batch):
            late = watermark is not None and second <= watermark
            at = x + STEP * (place + 0.9)
            parts.append(f"<circle cx='{at:g}' cy='{high(second):.1f}' r='6' fill='{RED if late else GREEN}'/>")
            words = f"{second} s, late" if late else f"{second} s"
            parts.append(text(at, high(second) + (20 if late else -11), words, colour=RED if late else INK, size=11))
        x += STEP * (len(batch) + 1)
    parts.append(
        text(
            LEFT + 70, 24, f"watermark = greatest time so far − {DELAY} s, from the next micro-batch on", "start", BLUE
        )
    )
    begin = f"<svg xmlns='http://www.w3.org/2000/svg' width='{right + 20}' height='{bottom + 56}'"
    begin += f" viewBox='0 0 {right + 20} {bottom + 56}'>"
    ground = f"<rect width='{right + 20}' height='{bottom + 56}' rx='6' fill='white'/>"
    return "\n".join([begin, ground, *parts, "</svg>", ""])


def main(directory: Path) -> None:
    (directory / "watermark.svg").write_text(stream(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
