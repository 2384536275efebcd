"""Draws the two plots of the page on cluster monitoring as SVG, from the log of the example; the same every time.

Run it: python docs/images/draw_cluster.py [directory]
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "cluster_monitoring.py"
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, BLUE, RED = "#1c2430", "#5a6572", "#3b6fb6", "#c0392b"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 60, 170, 20, 50

Curve = tuple[str, str, list[tuple[float, float]]]


def plot(curves: list[Curve], across: str, up: str, highest: float, longest: float) -> str:
    """Curves of (minutes, value) points, each with its name and colour, under axes from 0 on."""

    def place(minutes: float, value: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * minutes / longest
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / highest

    (x0, y0), (x1, y1) = place(0, 0), place(longest, highest)
    lines = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}'>"]
    lines.append(f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>")
    lines.append(f"<path d='M{x0:g} {y1:g} V{y0:g} H{x1:g}' fill='none' stroke='{INK}'/>")
    for part in range(5):
        minutes, value = longest * part / 4, highest * part / 4
        x, y = place(minutes, value)
        lines.append(_text(x, y0 + 18, f"{minutes:g}", "middle"))
        lines.append(_text(x0 - 8, y + 4, f"{value:g}", "end"))
    lines.append(_text((x0 + x1) / 2, HEIGHT - 10, across, "middle"))
    lines.append(_text(x0 - 45, TOP - 6, up, "start"))
    for number, (name, colour, points) in enumerate(curves):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        lines.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        lines.append(_text(x1 + 12, TOP + 20 + 22 * number, name, "start", colour))
    return "\n".join([*lines, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str, colour: str = GREY) -> str:
    where = f"x='{x:g}' y='{y:g}' text-anchor='{anchor}'"
    return f"<text {where} {FONT} font-size='12' fill='{colour}'>{text}</text>"


def minutes_of(events: Any, type_: str, column: str, number: int, since: Any = None) -> list[tuple[float, float]]:
    """(minutes, value) of the events of a type that belong to one job or task."""
    rows = events.filter(
        (np.array(events["type"].to_pylist()) == type_) & (events[column].to_numpy(zero_copy_only=False) == number)
    )
    times = rows["ts"].to_numpy()
    since = times[0] if since is None else since
    return list(zip(((times - since) / np.timedelta64(60, "s")).tolist(), rows["val"].to_pylist(), strict=True))


def main(directory: Path = HERE) -> None:
    log = runpy.run_path(str(EXAMPLE))["cluster_log"]()
    events = log.events
    queues = [
        (f"job {job}", colour, minutes_of(events, "QueueSize", "job_id", job)) for job, colour in ((0, BLUE), (1, RED))
    ]
    drawn = plot(queues, "minutes since the job began", "outputs of mappers that wait", 60, 6)
    (directory / "cluster-queues.svg").write_text(drawn, encoding="utf-8")
    uneven = log.uneven[0]
    loads = [
        (f"reducer {uneven}", RED, minutes_of(events, "LoadStd", "task_id", uneven)),
        (f"reducer {uneven + 1}", BLUE, minutes_of(events, "LoadStd", "task_id", uneven + 1)),
    ]
    drawn = plot(loads, "minutes since the reducer's first reading", "spread of the load", 1, 4)
    (directory / "cluster-loads.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
