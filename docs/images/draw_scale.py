"""Draws the plots of the page on scale as SVG, from the cost model and the simulated cluster; the same every time.

Run it in the root of the repository: PYTHONPATH=. python docs/images/draw_scale.py [directory].
`python -m bench.sizing calibrate` runs it, too: it changes what the plots are drawn from.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.simulated_cluster import (
    Cluster,
    Faults,
    Load,
    live_costs,
    micro_batch_costs,
    simulate_live,
    simulate_micro_batches,
)

from episode.sizing.constants import Constants, load_constants
from episode.sizing.model import cores_for_batch, live_tasks, micro_batches, work_of
from episode.sizing.profile import ROWS, QueryProfile, assumed_profile

HERE = Path(__file__).parent
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, GREY, PALE, BLUE, RED, GREEN = "#1c2430", "#5a6572", "#e3e7ec", "#3b6fb6", "#c0392b", "#2e8b57"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 280, 70, 170, 24, 50
RATE, KEYS, CORES = 10_000_000, 1_000_000, 4
LOST, SECONDS = 60.0, 240.0
ENDLESS = 60.0
"""A micro-batch of so many seconds, after four minutes, is one of a row that grows without end."""

Points = list[tuple[float, float]]
Curve = tuple[str, str, Points]


@dataclass(frozen=True)
class Axis:
    """Marks from the least to the greatest; logarithmic or even."""

    name: str
    marks: tuple[float, ...]
    log: bool = False

    def place(self, value: float) -> float:
        """0 at the first mark, 1 at the last."""
        first, last, at = self.marks[0], self.marks[-1], min(max(value, self.marks[0]), self.marks[-1])
        if self.log:
            return math.log(at / first) / math.log(last / first)
        return (at - first) / (last - first)


def plot(curves: list[Curve], across: Axis, up: Axis) -> str:
    """Curves with their names and colours."""

    def place(x: float, y: float) -> tuple[float, float]:
        right = LEFT + (WIDTH - LEFT - RIGHT) * across.place(x)
        return right, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up.place(y)

    (x0, y0), (x1, y1) = place(across.marks[0], up.marks[0]), place(across.marks[-1], up.marks[-1])
    lines = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}'>"]
    lines.append(f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>")
    for value in up.marks:
        y = place(across.marks[0], value)[1]
        lines.append(f"<path d='M{x0:g} {y:.1f} H{x1:g}' stroke='{PALE}'/>")
        lines.append(_text(x0 - 8, y + 4, _number(value), "end"))
    lines += [_text(place(value, up.marks[0])[0], y0 + 18, _number(value), "middle") for value in across.marks]
    lines.append(f"<path d='M{x0:g} {y1:g} V{y0:g} H{x1:g}' fill='none' stroke='{INK}'/>")
    lines.append(_text((x0 + x1) / 2, HEIGHT - 10, across.name, "middle"))
    lines.append(_text(x0 - 55, TOP - 8, up.name, "start"))
    for number, (name, colour, points) in enumerate(curves):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        lines.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        lines.append(_text(x1 + 12, TOP + 20 + 22 * number, name, "start", colour))
    return "\n".join([*lines, "</svg>", ""])


def _number(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _text(x: float, y: float, text: str, anchor: str, colour: str = GREY) -> str:
    where = f"x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'"
    return f"<text {where} {FONT} font-size='12' fill='{colour}'>{text}</text>"


# ---- what is drawn -------------------------------------------------------------------------------------------


def cores(known: Constants, query: QueryProfile) -> list[Curve]:
    """Cores by the rate; a batch has a day's events, and an hour for them."""
    rates = [10 ** (4 + number / 8) for number in range(25)]
    work = work_of(query, known)

    def batch(rate: float) -> int:
        return cores_for_batch(rate * 86_400, work, known, 3_600.0, row_bytes=query.row_bytes, keys=KEYS)

    return [
        ("batch, 1 day in 1 hour", GREEN, [(rate, batch(rate)) for rate in rates]),
        ("micro-batches", BLUE, [(rate, micro_batches(rate, KEYS, query, known).cores) for rate in rates]),
        ("live tasks", RED, [(rate, live_tasks(rate, KEYS, query, known).cores) for rate in rates]),
    ]


def clusters(known: Constants, query: QueryProfile) -> tuple[Cluster, Cluster]:
    """Of micro-batches and of live tasks, for the rate of the page: whole nodes, two at least."""
    needed = (micro_batches(RATE, KEYS, query, known).cores, live_tasks(RATE, KEYS, query, known).cores)
    micro, live = (Cluster(max(2, -(-count // CORES)), CORES) for count in needed)
    return micro, live


def loss(known: Constants, query: QueryProfile) -> list[Curve]:
    """The latency of 99% of the events, over time, when a node is lost."""
    micro, live = clusters(known, query)
    load, faults = Load(RATE, SECONDS, KEYS), Faults(lost=(LOST,), replaced=30.0)
    one = simulate_micro_batches(micro, load, micro_batch_costs(query, known, micro.slots), faults)
    other = simulate_live(live, load, live_costs(query, known), faults)
    return [
        (f"micro-batches, {micro.nodes} nodes", BLUE, _over_time(*one.over_time(4.0))),
        (f"live tasks, {live.nodes} nodes", RED, _over_time(*other.over_time(4.0))),
    ]


def _over_time(times, values) -> Points:  # type: ignore[no-untyped-def]
    return [(float(time), float(value)) for time, value in zip(times, values, strict=True) if time <= SECONDS]


def skew(known: Constants, query: QueryProfile) -> list[Curve]:
    """The latency of 99% of the events after four minutes, by the share of the busiest key."""
    micro, live = clusters(known, query)
    shares = [10 ** (-3 + number / 10) for number in range(28)]

    def of_micro(share: float) -> float:
        costs = micro_batch_costs(query, known, micro.slots)
        found = simulate_micro_batches(micro, Load(RATE, SECONDS, KEYS, share), costs)
        return found.at(0.99) if found.lengths[-1] < ENDLESS else math.inf

    def of_live(share: float) -> float:
        return simulate_live(live, Load(RATE, SECONDS, KEYS, share), live_costs(query, known)).at(0.99)

    return [
        ("micro-batches", BLUE, [(100 * share, of_micro(share)) for share in shares]),
        ("live tasks", RED, [(100 * share, of_live(share)) for share in shares]),
    ]


def main(directory: Path = HERE) -> None:
    known = load_constants()
    query = assumed_profile(ROWS, known, "the tick query")
    rates = Axis("events/s", (1e4, 1e5, 1e6, 1e7), log=True)
    seconds = Axis("seconds to the match, 99%", (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0), log=True)
    drawn = {
        "scale-cores": plot(cores(known, query), rates, Axis("cores", (1.0, 10.0, 100.0, 1000.0), log=True)),
        "scale-loss": plot(loss(known, query), Axis("seconds", (0.0, 60.0, 120.0, 180.0, 240.0)), seconds),
        "scale-skew": plot(
            skew(known, query), Axis("share of the busiest key, %", (0.1, 1.0, 10.0, 50.0), log=True), seconds
        ),
    }
    for name, text in drawn.items():
        (directory / f"{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
