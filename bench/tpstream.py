"""`make bench NAME=tpstream`: the evaluation of TPStream (EDBT 2018, section 6) again, each experiment by its name.

In process and on one core but for the experiment on Spark; ways to compare run in turns in one process.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from bench.cars import (
    CARS,
    FULL,
    SECONDS,
    SIMPLIFIED,
    aggressive_drivers,
    cars,
    cars_on_disk,
    thresholds,
)
from bench.cars import SCHEMA as CAR_SCHEMA
from bench.cars import TYPES as CAR_TYPES
from bench.evaluation import Experiments, run_experiments
from bench.figures import new_figure, put_figure
from bench.harness import Report, median, millions, say, verdict
from bench.intervals import NAMES, USUAL, Stream, intervals, schema_of, types_of
from bench.situation_plans import Contender, Forced, Measured, Query, matches_of, run, side_by_side
from episode.lang.situations import allen
from episode.lang.situations.allen import Relation
from episode.matchers.protocol import EventBatch
from episode.matchers.situations.matcher import SituationPatternMatcher
from episode.plan.situations.cost import next_symbols, triggers
from episode.plan.situations.explain import orders_words
from episode.plan.situations.plan import COMPLETE, DETECTED_AT, EARLIEST, MatchMoment, SituationMoment

PACKAGES = ("llvmlite", "numpy", "pyarrow")
HOW = (
    "Events in memory, fed to the matcher in pieces of up to a million, on one core; seconds that the core worked. "
    "Ways to compare in turns, one discarded run and then {runs}, medians."
)
COUNTED = "Matches are found and counted, not put out."


def every_order(masks: tuple[tuple[int, ...], ...], first: int) -> list[tuple[int, ...]]:
    """All orders without needless cross products."""
    orders: list[tuple[int, ...]] = [()]
    rest = [symbol for symbol in range(len(masks)) if symbol != first]
    for _ in rest:
        orders = [(*order, symbol) for order in orders for symbol in next_symbols(masks, [first, *order], rest)]
    return orders


def interval_query(pattern: str, within: int, streams: int = 3, returns: str = "") -> Query:
    defined = ", ".join(f"{name.upper()} AS {name}" for name in NAMES[:streams])
    text = f"DEFINE {defined} PATTERN {pattern} WITHIN {within}"
    return Query(f"{text} {returns}".rstrip(), types_of(streams), schema_of(streams))


def car_query(text: str) -> Query:
    return Query(text, CAR_TYPES, CAR_SCHEMA, ("car_id",))


def car_batches(rows: int) -> tuple[str, Callable[[str, bool], Query], list[EventBatch]]:
    """Words on the data, queries over them by pattern (with durations?), and the reports by car."""
    limits = thresholds(next(cars(CARS * SECONDS)))

    def query(pattern: str, durations: bool) -> Query:
        return car_query(aggressive_drivers(limits, pattern, durations=durations))

    words = (
        f"{CARS:,} cars report every second (`bench/cars.py`). Thresholds as in the paper: speed above its 99th "
        f"percentile ({limits.speed} mph), acceleration above the 90th of the positive ({limits.accel} m/s²) and below "
        f"that of the negative values ({limits.brake} m/s²)."
    )
    return words, query, query(FULL, True).batches(cars(rows))


# ---- Figure 5a, 5b: aggressive drivers ------------------------------------------------------------


def drivers(options: argparse.Namespace) -> None:
    """Figure 5 (a, b): aggressive drivers, simplified and full pattern, by the number of events."""
    sizes = [max(1, int(million * options.scale)) for million in (1, 2, 5, 10, 20)]
    sizes = sorted(set(sizes))
    words, query, batches = car_batches(sizes[-1] * CARS * SECONDS)
    contenders = [
        Contender("simplified", query(SIMPLIFIED, False).spec(), delivered=True),
        Contender("full", query(FULL, False).spec(), delivered=True),
    ]
    found = {
        size: side_by_side(contenders, batches[:size], options.runs, f"{size} million", alike=False) for size in sizes
    }
    page = _page(options, "drivers", "TPStream, Figure 5 (a, b): aggressive drivers")
    page.text(f"`{query(FULL, False).text}`", words)
    page.text("Listing 1 without duration limits; *simplified*: meets and overlaps only. Matches are put out.")
    page.table(
        ["million events", "simplified", "matches", "full", "matches", "ns for each event", "full / simplified"],
        [
            [
                size,
                f"{one['simplified'].seconds:.3f} s",
                f"{one['simplified'].matches:,}",
                f"{one['full'].seconds:.3f} s",
                f"{one['full'].matches:,}",
                f"{one['simplified'].each:.1f}, {one['full'].each:.1f}",
                f"{one['full'].seconds / one['simplified'].seconds:.2f}",
            ]
            for size, one in found.items()
        ],
    )
    rates = [one["full"].each for one in found.values()]
    spread, both = max(rates) / min(rates), found[sizes[-1]]["full"].seconds / found[sizes[-1]]["simplified"].seconds
    page.table(
        ["", "paper", "here", ""],
        [
            [
                "time grows with the events: time for each, greatest over least, at most 1.15",
                "linear",
                f"{spread:.2f}",
                verdict(spread <= 1.15),
            ],
            ["full over simplified, at most 1.1", "“almost identical”", f"{both:.2f}", verdict(both <= 1.1)],
        ],
    )
    figure, (ax,) = new_figure(1)
    for name in ("simplified", "full"):
        ax.plot(sizes, [one[name].seconds for one in found.values()], "o-", label=name)
    ax.set(xlabel="million events", ylabel="seconds", title="Aggressive drivers", xlim=(0, None), ylim=(0, None))
    ax.legend()
    _finish(page, figure, "Time by the number of events")


# ---- Figure 5c: windows ---------------------------------------------------------------------------

WINDOWS = (500, 1_000, 5_000, 20_000, 50_000, 100_000)
SEARCH, SCAN = "range search", "scan"
MANY, PAPERS = "many situations", "the paper's"
SHORT = Stream((2, 10), (1, 5))


def window(options: argparse.Namespace) -> None:
    """Figure 5 (c): A before B overlaps C, by the window, against a scan of the buffers."""
    from bench import scanning

    settings = {
        MANY: (int(1_000_000 * options.scale), [SHORT.seldom(20_000 / SHORT.period), SHORT, SHORT]),
        PAPERS: (int(2_000_000 * options.scale), [USUAL] * 3),
    }
    found: dict[str, dict[int, dict[str, Measured]]] = {}
    for name, (rows, streams) in settings.items():
        found[name] = {}
        for within in WINDOWS:
            query = interval_query("A before B AND B overlaps C", within)
            spec = query.spec(query.initial())
            contenders = [Contender(SEARCH, spec), Contender(SCAN, spec, code=scanning.scanning_code)]
            batches = query.batches(intervals(rows, streams))
            found[name][within] = side_by_side(contenders, batches, options.runs, f"{name}, {within:,} s")
    page = _page(options, "window", "TPStream, Figure 5 (c): disconnected pattern")
    page.text(
        "`A before B AND B overlaps C`. *range search* is the engine; *scan* is the same compiled code but that it "
        "tests every situation of a buffer against the constraint. Both search in the same order "
        f"({interval_query('A before B AND B overlaps C', 1).shown(query.initial(), [1])}). {COUNTED}"
    )
    page.text(
        "The number of matches grows with the window, as every A of the window goes with each B that overlaps a C; "
        "writing them down costs both ways the same. With the paper's densities (a situation of each kind in 85 "
        "events, as many A as B) deriving and writing down are most of the work here. So that the search dominates, "
        f"*many situations* has B and C of {SHORT.duration[0]} to {SHORT.duration[1]} s with gaps of {SHORT.gap[0]} to "
        f"{SHORT.gap[1]} s and an A in 20,000 s. *for each match*: the time above that of the smallest window by the "
        "matches above its, where the time is longer by a fifth at least.",
        "The paper's factor is over ISEQ, which scans as it does not use the order of the starts, and which takes "
        "further steps where results are built and buffers pruned; the scan here does not have those.",
    )
    ratios = {
        name: {at: one[SCAN].seconds / one[SEARCH].seconds for at, one in by.items()} for name, by in found.items()
    }
    for name, by in found.items():
        rows, streams = settings[name]
        page.heading(f"Densities: {name}")
        page.text(f"{rows:,} events. Situations in 1,000 s: " + _densities(streams) + ".")
        least = by[WINDOWS[0]][SEARCH]
        page.table(
            [
                "window", "matches", "of one event", f"{SEARCH}, million events/s", SCAN, "scan / search",
                "the same, kernel alone", "search, for each match",
            ],
            [
                [
                    f"{at:,} s",
                    f"{one[SEARCH].matches:,}",
                    f"{one[SEARCH].matches / rows:.3f}",
                    f"{one[SEARCH].rate / 1e6:.2f}",
                    f"{one[SCAN].rate / 1e6:.2f}",
                    f"{ratios[name][at]:.1f}",
                    f"{one[SCAN].steps['detect'] / one[SEARCH].steps['detect']:.1f}",
                    _for_each_match(one[SEARCH], least),
                ]
                for at, one in by.items()
            ],
        )  # fmt: skip
    many = found[MANY]
    flat = many[WINDOWS[-1]][SEARCH].seconds / many[WINDOWS[0]][SEARCH].seconds
    ratio = ratios[MANY][WINDOWS[-1]]
    page.heading("Against the paper")
    page.table(
        ["", "paper", "here", ""],
        [
            [f"scan over search at {WINDOWS[-1]:,} s, at least 10", "14 (ISEQ)", f"{ratio:.1f}", verdict(ratio >= 10)],
            [
                "search: time with the largest window over that with the smallest, at most 1.25",
                "",
                f"{flat:.2f}",
                verdict(flat <= 1.25),
            ],
            [
                "scan over search with the paper's densities",
                "14",
                f"{ratios[PAPERS][WINDOWS[-1]]:.1f}",
                "",
            ],
        ],
    )
    figure, axes = new_figure(2)
    for ax, (name, by) in zip(axes, found.items(), strict=True):
        for way in (SEARCH, SCAN):
            ax.plot(WINDOWS, [one[way].seconds for one in by.values()], "o-", label=way)
        ax.set(xlabel="window, s", ylabel="seconds", xscale="log", yscale="log", title=f"Densities: {name}")
        ax.legend()
    _finish(page, figure, "Time by the window")


def _densities(streams: Sequence[Stream]) -> str:
    return ", ".join(
        f"{name.upper()} {1_000 / stream.period:.3g}" for name, stream in zip(NAMES, streams, strict=False)
    )


def _for_each_match(one: Measured, least: Measured) -> str:
    """Where what is measured is not lost in what both share."""
    more, longer = one.matches - least.matches, one.seconds - least.seconds
    return f"{longer / more * 1e9:.1f} ns" if longer > 0.2 * least.seconds else ""


# ---- Figure 6: query patterns ---------------------------------------------------------------------

KINDS = ("Equal", "Meets", "Chain", "Star", "Combined")
STREAMS = range(4, 11)
LIMIT = 2.0


def patterns(options: argparse.Namespace) -> None:
    """Figure 6: five kinds of patterns over 4 to 10 streams, random instances."""
    instances, rows, sets = max(3, int(20 * options.scale)), int(500_000 * min(1, options.scale * 2)), 5
    data = [list(intervals(rows, [USUAL] * max(STREAMS), seed=number, feed=50_000)) for number in range(sets)]
    taken: dict[str, dict[int, list[float]]] = {kind: {} for kind in KINDS}
    kept: dict[str, dict[int, list[float]]] = {kind: {} for kind in KINDS}
    cut = 0
    for streams in STREAMS:
        everything = interval_query(pattern_of("Equal", streams, 0), 2_000, streams)
        batches = [everything.batches(tables) for tables in data]
        for kind in KINDS:
            taken[kind][streams], kept[kind][streams] = [], []
            for number in range(instances):
                query = interval_query(pattern_of(kind, streams, number), 2_000, streams)
                adaptive, initial = Contender(kind, query.spec()), Contender(kind, query.spec(query.initial()))
                if number == 0:
                    run(adaptive, batches[0][:1])
                measured = run(adaptive, batches[number % sets], most=LIMIT)
                cut += sum(measured.events) < rows
                taken[kind][streams].append(measured.each)
                kept[kind][streams].append(run(initial, batches[number % sets], most=LIMIT).each)
            say(
                f"{kind}, {streams} streams: {median(taken[kind][streams]):.1f} ns for each event, "
                f"at most {max(taken[kind][streams]):.1f}; initial plan {median(kept[kind][streams]):.1f}"
            )
    page = _page(options, "patterns", "TPStream, Figure 6: kinds of patterns")
    page.text(
        f"{instances} instances of each kind and number of streams, {rows:,} events each ({sets} sets of events in "
        f"turns), window 2,000 s. *Equal*, *Meets*: S1 ⊕ S2 ⊕ … with that relation; *Chain*: with relations drawn from "
        "all thirteen; *Star*: S1 with every other; *Combined*: a chain of the first half, and its last one with every "
        f"one of the rest. The engine chooses and changes its orders by itself. {COUNTED} An instance that takes more "
        f"than {LIMIT:.0f} s is not fed further ({cut} were cut); its time for each event is that of the events fed."
    )
    page.text("Nanoseconds for each event: median (25th – 75th percentile, greatest).")
    for words, times in (("The engine as it is:", taken), ("The initial plan, kept to:", kept)):
        page.text(words)
        page.table(
            ["streams", *KINDS],
            [[streams, *(_quartiles(times[kind][streams]) for kind in KINDS)] for streams in STREAMS],
        )
    first, last = min(STREAMS), max(STREAMS)
    lines = []
    for kind in KINDS:
        medians = [median(taken[kind][streams]) for streams in STREAMS]
        growth, fit = medians[-1] / medians[0], _straightness(list(STREAMS), medians)
        lines.append(
            [
                kind,
                f"{growth:.2f}",
                f"at most {last / first:.1f}",
                f"{fit:.3f}",
                verdict(growth <= last / first),
                f"{median(kept[kind][last]) / median(kept[kind][first]):.2f}",
            ]
        )
    page.heading("Against the paper")
    page.text(
        "Paper: “the median processing time increases linearly with the number of situations”. Target: it grows no "
        "faster than the streams. R²: of a straight line through the medians."
    )
    page.table(
        ["kind", f"median with {last} streams over that with {first}", "target", "R²", "", "initial plan kept to"],
        lines,
    )
    figure, axes = new_figure(len(KINDS), width=3.2)
    for ax, kind in zip(axes, KINDS, strict=True):
        ax.boxplot([taken[kind][streams] for streams in STREAMS], tick_labels=list(STREAMS), showfliers=False)
        ax.set(title=kind, xlabel="streams", ylabel="ns for each event", ylim=(0, None))
    _finish(page, figure, "Time for each event by kind and number of streams")


def pattern_of(kind: str, streams: int, number: int) -> str:
    """A pattern of a kind; its relations are drawn by the number. Contradictory ones are drawn again."""
    random = np.random.default_rng([2018, KINDS.index(kind), streams, number])
    symbols = [name.upper() for name in NAMES[:streams]]
    half = streams // 2
    if kind == "Star":
        pairs = [(symbols[0], other) for other in symbols[1:]]
    elif kind == "Combined":
        pairs = [*pairwise(symbols[:half]), *((symbols[half - 1], other) for other in symbols[half:])]
    else:
        pairs = list(pairwise(symbols))
    fixed = {"Equal": Relation.EQUALS, "Meets": Relation.MEETS}.get(kind)
    while True:
        drawn = [fixed or allen.RELATIONS[random.integers(len(allen.RELATIONS))] for _ in pairs]
        constraints = [(left, right, [relation]) for (left, right), relation in zip(pairs, drawn, strict=True)]
        if allen.contradiction(constraints) is None:
            return " AND ".join(f"{left} {relation.value} {right}" for left, right, (relation,) in constraints)


def _quartiles(values: list[float]) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.1f} ({low:.1f} – {high:.1f}, {max(values):,.0f})"


def _straightness(x: list[int], y: list[float]) -> float:
    return float(np.corrcoef(x, y)[0, 1] ** 2)


# ---- Figure 7a: latency ---------------------------------------------------------------------------

RELATIONS_7 = (
    Relation.BEFORE, Relation.MEETS, Relation.OVERLAPS, Relation.STARTS, Relation.DURING, Relation.FINISHES,
    Relation.EQUALS,
)  # fmt: skip
RATIOS_7 = {"2:1": 0.5, "1:1": 1.0, "1:2": 2.0}
WITHIN_7 = 1_000


def latency(options: argparse.Namespace) -> None:
    """Figure 7 (a): event time by which matches are reported earlier than at the end of their situations."""
    rows = int(20_000_000 * options.scale)
    gains: dict[str, dict[str, tuple[float, float, int]]] = {}
    for name, times in RATIOS_7.items():
        streams = [USUAL, USUAL.lasting(times)]
        first = interval_query("A before B", WITHIN_7, 2)
        batches = first.batches(intervals(rows, streams))
        gains[name] = {}
        for relation in RELATIONS_7:
            query = interval_query(f"A {relation.value} B", WITHIN_7, 2, "RETURN A.start AS a, B.start AS b")
            gained = _gained(query, batches)
            mean = float(gained.mean()) if len(gained) else 0.0
            gains[name][relation.value] = mean, expected_gain(relation, *streams), len(gained)
            say(f"{name}, {relation.value}: {gains[name][relation.value]}")
    page = _page(options, "latency", "TPStream, Figure 7 (a): latency in event time", timed=False)
    page.text(
        f"{rows:,} events of two streams; situations of A last 55 s on average, those of B by the ratio. The same "
        "query under `detect='earliest'` and under `detect='complete'` (at the end of all situations, as ISEQ); "
        f"matches of both are compared by their situations. Window {WITHIN_7:,} s.",
        "*expected*: from the generator: durations a and b uniform and independent, all offsets of B to A alike. A "
        "before B: the mean of b (weighted with the offsets that the window leaves); meets: the mean of b; overlaps: "
        "the mean of B.te - A.te over all a, b and offsets at which A overlaps B; starts: of b - a where b > a; "
        "during: of B.te - A.te over all offsets at which A is inside B, (b - a) / 2 for each a < b; finishes and "
        "equals: 0. The paper gives the average duration of B for before and meets, and B.duration / 2 for during.",
    )
    page.table(
        ["relation", *(f"{name}: {what}" for name in gains for what in ("seconds earlier", "expected", "matches"))],
        [
            [
                relation.value,
                *(
                    cell
                    for by in gains.values()
                    for cell in (
                        f"{by[relation.value][0]:.2f}",
                        f"{by[relation.value][1]:.2f}",
                        f"{by[relation.value][2]:,}",
                    )
                ),
            ]
            for relation in RELATIONS_7
        ],
    )
    worst = max(abs(got - want) / max(want, 1.0) for by in gains.values() for got, want, _ in by.values())
    sequential = max(
        abs(by[relation][0] / (55 * times) - 1)
        for by, times in zip(gains.values(), RATIOS_7.values(), strict=True)
        for relation in ("before", "meets")
    )
    half = ", ".join(
        f"{name}: {by['during'][0] / (55 * times):.2f}" for (name, by), times in zip(gains.items(), RATIOS_7.values())
    )
    page.heading("Against the paper")
    page.table(
        ["", "paper", "here", ""],
        [
            ["gain, furthest from what is expected, at most 5%", "", f"{worst:.1%}", verdict(worst <= 0.05)],
            [
                "before, meets: furthest from the average duration of B, at most 5%",
                "equal",
                f"{sequential:.1%}",
                verdict(sequential <= 0.05),
            ],
            ["during: gain over the average duration of B", "1/2", half, ""],
            [
                "overlaps at 1:1",
                "about 35 s",
                f"{gains['1:1']['overlaps'][0]:.1f} s (expected {gains['1:1']['overlaps'][1]:.1f})",
                "",
            ],
        ],
    )
    figure, (ax,) = new_figure(1)
    for number, (name, by) in enumerate(gains.items()):
        at = np.arange(len(RELATIONS_7)) + (number - 1) * 0.27
        ax.bar(at, [got for got, _, _ in by.values()], 0.25, label=f"A : B = {name}")
        ax.plot(at, [want for _, want, _ in by.values()], "k_", markersize=9)
    ax.set(ylabel="seconds earlier", title="Latency gained (bars), expected (lines)")
    ax.set_xticks(range(len(RELATIONS_7)), [relation.value for relation in RELATIONS_7], fontsize=8)
    ax.legend(fontsize=8)
    _finish(page, figure, "Latency gained for each relation")


def _gained(query: Query, batches: list[EventBatch]) -> np.ndarray:
    """For each match reported in both ways, by how much earlier one is."""
    names = {_moment(atom): name for atom, name in query.spec().plan.measures.atoms.items()}
    frames = {}
    for detect in (EARLIEST, COMPLETE):
        table = matches_of(query, batches, detect)
        columns = {what: table.column(name).to_numpy() for what, name in names.items()}
        frames[detect] = columns["A"] * 4_000 + (columns["B"] - columns["A"] + 2_000), columns[DETECTED_AT]
    early, late = frames[EARLIEST], frames[COMPLETE]
    _, at_early, at_late = np.intersect1d(early[0], late[0], assume_unique=True, return_indices=True)
    return late[1][at_late] - early[1][at_early]


def _moment(atom: Any) -> str:
    if isinstance(atom, SituationMoment):
        return f"{atom.symbol}.end" if atom.end else atom.symbol
    return atom.name if isinstance(atom, MatchMoment) else str(atom)


def expected_gain(relation: Relation, first: Stream, second: Stream) -> float:
    """Mean seconds between the certainty of a relation and the end of both situations: over all durations a, b and all
    offsets at which the relation holds."""
    a, b = (np.arange(stream.duration[0], stream.duration[1] + 1.0) for stream in (first, second))
    a, b = a[:, None], b[None, :]
    if relation == Relation.BEFORE:
        count, each = WITHIN_7 - a - b, b
    elif relation == Relation.MEETS:
        count, each = np.ones_like(a + b), b
    elif relation == Relation.OVERLAPS:  # gains from `least` to b - 1
        least = np.maximum(1 + b - a, 1)
        count, each = np.maximum(b - least, 0), (least + b - 1) / 2
    elif relation == Relation.STARTS:
        count, each = (b > a) * 1.0, b - a
    elif relation == Relation.DURING:
        count, each = np.maximum(b - a - 1, 0), (b - a) / 2
    else:
        return 0.0
    return float((count * each).sum() / count.sum()) if count.any() else 0.0


# ---- Figure 8a: initial plans ---------------------------------------------------------------------

QUERIES_8 = {
    "Q1": "A overlaps B AND A overlaps C AND B starts C",
    "Q2": "A overlaps B AND A before C AND B overlaps C",
    "Q3": "A before B AND A before C AND B before C",
}
ADAPTIVE = "adaptive"


def plans(options: argparse.Namespace) -> None:
    """Figure 8 (a): Q1 to Q3 under every order; is the one chosen first the best?"""
    sizes = {"Q1": 5_000_000, "Q2": 5_000_000, "Q3": 2_000_000}
    page = _page(options, "plans", "TPStream, Figure 8 (a): initial plans")
    page.text(
        "Three streams of the paper's generator, window 5,000 s. Plans: for each symbol whose situations can complete "
        "a match, the order in which the other buffers are searched. *initial*: the one that the engine begins with, "
        f"by the paper's table of selectivities; here it is kept to. {COUNTED} *adaptive*: the engine as it is."
    )
    lags, figure_data = {}, {}
    for name, pattern in QUERIES_8.items():
        query = interval_query(pattern, 5_000)
        rows = int(sizes[name] * options.scale)
        orders, leading = plans_of(query)
        initial = query.initial()
        names = {order: query.shown(order, leading) for order in orders}
        contenders = [Contender(names[order], query.spec(order)) for order in orders]
        batches = query.batches(intervals(rows, [USUAL] * 3))
        found = side_by_side([*contenders, Contender(ADAPTIVE, query.spec())], batches, options.runs, name)
        fixed = {key: one for key, one in found.items() if key != ADAPTIVE}
        best = min(fixed, key=lambda key: fixed[key].seconds)
        lags[name] = found[names[initial]].seconds / found[best].seconds
        figure_data[name] = fixed, names[initial], found[ADAPTIVE]
        page.heading(f"{name}: {pattern}")
        page.text(f"{rows:,} events, {found[best].matches:,} matches, {found[best].searches:,} searches.")
        page.table(
            ["plan", "thousand events/s", "kernel, ns for each event", "of the best", ""],
            [
                [
                    key,
                    f"{one.rate / 1e3:,.0f}",
                    f"{one.steps['detect'] / rows * 1e9:.1f}",
                    f"{found[best].seconds / one.seconds:.1%}",
                    ", ".join([*(["initial"] if key == names[initial] else []), *(["best"] if key == best else [])]),
                ]
                for key, one in sorted(found.items(), key=lambda item: item[1].seconds)
            ],
        )
    page.heading("Against the paper")
    page.table(
        ["query", "paper", "initial plan over the best, time", "target: at most 1.05"],
        [
            [name, paper, f"{lags[name]:.3f}", verdict(lags[name] <= 1.05)]
            for name, paper in (("Q1", "the best"), ("Q2", "the best"), ("Q3", "negligibly below the best"))
        ],
    )
    figure, (ax,) = new_figure(1)
    for number, way in enumerate(("best", "worst", "initial", ADAPTIVE)):
        rates = []
        for fixed, initial_name, adaptive in figure_data.values():
            every = [one.rate for one in fixed.values()]
            rates.append(
                {"best": max(every), "worst": min(every), "initial": fixed[initial_name].rate}.get(way, adaptive.rate)
            )
        ax.bar(np.arange(len(rates)) + (number - 1.5) * 0.2, rates, 0.19, label=way)
    ax.set_xticks(range(len(figure_data)), list(figure_data))
    ax.set(ylabel="events/s", yscale="log", title="Initial plans")
    ax.legend(fontsize=8)
    _finish(page, figure, "Throughput of plans")


def plans_of(query: Query) -> tuple[list[Forced], list[int]]:
    """Every plan, and the symbols that begin a search; orders of other symbols do not matter."""
    plan = query.spec().plan
    able = triggers(plan.masks, plan.at_least, plan.at_most, plan.eager)
    leading = [symbol for symbol, (start, end) in enumerate(able) if start or end]
    initial = query.initial()
    choices = [
        every_order(plan.masks, symbol) if symbol in leading else [initial[symbol]]
        for symbol in range(len(plan.symbols))
    ]
    return list(product(*choices)), leading


# ---- Figure 8b: adaptation ------------------------------------------------------------------------

PHASES = {"1:1:1": (2, (1, 1, 1)), "1:50:50": (10, (50, 1, 1)), "50:1:50": (10, (1, 50, 1))}
"""Feeds of half a million events, and how many times as rare as usual. Situations are as dense as usual in the first
phase only, where an event has so many matches that it takes as long as the others."""
TPS_1, TPS_2, TPS_O, TPS_A, TPS_K = "TPS-1: C → B → A", "TPS-2: C → A → B", "TPS-O", "TPS-A", "TPS-2 adapting in vain"
C_B_A: Forced = ((1, 2), (2, 0), (1, 0))
C_A_B: Forced = ((1, 2), (2, 0), (0, 1))


def adaptation(options: argparse.Namespace) -> None:
    """Figure 8 (b): Q3 while the rates of situations change."""
    feed = int(500_000 * options.scale)
    query = interval_query(QUERIES_8["Q3"], 10_000)
    tables: list[pa.Table] = []
    phase_of: list[int] = []
    sizes = [count * feed for count, _ in PHASES.values()]
    for number, (count, times) in enumerate(PHASES.values()):
        streams = [USUAL.seldom(time) if time > 1 else USUAL for time in times]
        tables += intervals(sizes[number], streams, first=sum(sizes[:number]), feed=feed)
        phase_of += [number] * count
    batches = query.batches(tables)
    fixed = [Contender(TPS_1, query.spec(C_B_A)), Contender(TPS_2, query.spec(C_A_B))]
    tried = {name: _phases(one, phase_of) for name, one in side_by_side(fixed, batches, 1, "first").items()}
    best = [C_B_A if first < second else C_A_B for first, second in zip(tried[TPS_1], tried[TPS_2], strict=True)]

    def switch(matcher: SituationPatternMatcher, number: int) -> None:
        matcher.orders.orders = np.array(best[phase_of[number]], np.int64)

    contenders = [
        *fixed,
        Contender(TPS_O, query.spec(C_A_B), before_feed=switch),
        Contender(TPS_A, query.spec()),
        Contender(TPS_K, query.spec(), before_feed=partial(_never_change, C_A_B)),
    ]
    runs = 2 * options.runs - 1
    found = side_by_side(contenders, batches, runs, "adaptation")
    parts = {name: _phases(one, phase_of) for name, one in found.items()}
    page = _page(options, "adaptation", "TPStream, Figure 8 (b): plans that adapt", runs=runs)
    page.text(
        f"`{query.text}`",
        f"Phases of {', '.join(f'{size:,}' for size in sizes)} events one after the other, with situations A : B : C "
        f"as often as {', '.join(PHASES)}; fewer where an event has more matches. *TPS-O*: the better fixed plan of "
        "each phase, switched by hand where it begins "
        f"({', '.join('C → B → A' if one == C_B_A else 'C → A → B' for one in best)}); *TPS-A*: the engine as it is; "
        "*TPS-2 adapting in vain*: moving averages are watched and plans made anew, but the orders stay as in TPS-2. "
        f"{COUNTED} {found[TPS_A].matches:,} matches.",
    )
    page.table(
        ["phase, thousand events/s", *found, "TPS-A / TPS-O, time", "adapting in vain costs"],
        [
            [
                phase,
                *(f"{sizes[number] / parts[name][number] / 1e3:,.0f}" for name in found),
                f"{parts[TPS_A][number] / parts[TPS_O][number]:.3f}",
                f"{parts[TPS_K][number] / parts[TPS_2][number] - 1:.1%}",
            ]
            for number, phase in enumerate(PHASES)
        ],
    )
    worst = max(mine / theirs for mine, theirs in zip(parts[TPS_A], parts[TPS_O], strict=True))
    overhead = found[TPS_K].seconds / found[TPS_2].seconds - 1
    worst_overhead = max(mine / theirs for mine, theirs in zip(parts[TPS_K], parts[TPS_2], strict=True)) - 1
    in_all = found[TPS_A].seconds / found[TPS_O].seconds - 1
    page.table(
        ["", "paper", "here", ""],
        [
            ["TPS-A over TPS-O in every phase, at most 1.05", "“very close”", f"{worst:.3f}", verdict(worst <= 1.05)],
            ["TPS-A over TPS-O in all", "1.7%", f"{in_all:.1%}", ""],
            [
                "what adapting costs: in vain against the same fixed plan, under 2%",
                "under 2%",
                f"{overhead:.1%}",
                verdict(overhead < 0.02),
            ],
            [
                "the same in the phase where it costs most",
                "",
                f"{worst_overhead:.1%}",
                verdict(worst_overhead < 0.02),
            ],
        ],
    )
    changes = found[TPS_A].matcher.orders
    page.heading("Changes of plan")
    page.text(
        f"{changes.plans} plans; the first changes: "
        + "; ".join(f"`{orders_words(changes.plan, one)}`" for one in changes.changes[:5])
        if changes.changes
        else "None."
    )
    figure, (ax,) = new_figure(1)
    for number, name in enumerate((TPS_1, TPS_2, TPS_A, TPS_O)):
        rates = [size / seconds for size, seconds in zip(sizes, parts[name], strict=True)]
        ax.bar(np.arange(len(PHASES)) + (number - 1.5) * 0.2, rates, 0.19, label=name)
    ax.set_xticks(range(len(PHASES)), list(PHASES))
    ax.set(ylabel="events/s", yscale="log", title="Q3 while rates change")
    ax.legend(fontsize=8)
    _finish(page, figure, "Throughput in each phase")


def _phases(measured: Measured, phase_of: Sequence[int]) -> list[float]:
    """Seconds of each phase, where feeds are of these phases."""
    return np.bincount(phase_of, measured.parts).tolist()


def _never_change(order: Forced, matcher: SituationPatternMatcher, number: int) -> None:
    """Let plans be made anew, and never find one that is cheap enough."""
    if number == 0:
        matcher.orders.orders = np.array(order, np.int64)
        matcher.orders.gain = 1.0


# ---- speed ----------------------------------------------------------------------------------------


def speed(options: argparse.Namespace) -> None:
    """Listing 1 on one core: events per second, where the time goes, and what the hardware allows."""
    from bench.kernel import bandwidth

    rows = int(10 * options.scale) * CARS * SECONDS or CARS * SECONDS
    words, query, batches = car_batches(rows)
    limited = query(FULL, True)
    ours = side_by_side([Contender("Listing 1", limited.spec(), delivered=True)], batches, options.runs, "speed")[
        "Listing 1"
    ]
    ordering, reading = [], []
    tables = list(cars(min(rows, 2 * CARS * SECONDS)))
    few = sum(table.num_rows for table in tables)
    for _ in range(options.runs + 1):
        begin = time.process_time()
        limited.batches(tables)
        ordering.append((time.process_time() - begin) / few)
        reading.append(_read_once(limited, batches) / rows)
    order, read, memory = median(ordering[1:]), median(reading[1:]), bandwidth(options.runs)
    page = _page(options, "speed", "TPStream's query for aggressive drivers: speed on one core")
    page.text(f"`{limited.text}`", words)
    page.text(
        f"{rows:,} reports in {len(batches)} feeds, by car and in order of time; {ours.matches:,} matches put out."
    )
    page.table(
        ["", "events/s", "target", ""],
        [["Listing 1", millions(ours.rate), "≥ 10.0 million", verdict(ours.rate >= 10e6)]],
    )
    page.heading("Where the time goes")
    page.text(
        "*prepare*: columns as lanes, the conditions as bits; *detect*: situations and matches; *values*: the output "
        "with its aggregates; *hold*: what is kept for the next feed. *order* comes before feeding and is not in the "
        "figure above: grouping the reports by car."
    )
    rest = ours.seconds - sum(ours.steps.values())
    page.table(
        ["step", "seconds", "ns for each event", "share"],
        [
            [step, f"{seconds:.3f}", f"{seconds / rows * 1e9:.1f}", f"{seconds / ours.seconds:.0%}"]
            for step, seconds in [*ours.steps.items(), ("rest", rest), ("all", ours.seconds)]
        ]
        + [["order", f"{order * rows:.3f}", f"{order * 1e9:.1f}", ""]],
    )
    page.heading("What the hardware allows")
    width = 8 + 8 + 8 + 8
    page.table(
        ["bound", "million events/s", "Listing 1 reaches"],
        [
            [
                "a loop that reads key, time, speed and acceleration once and derives the situations of this query "
                "(numba, written by hand)",
                f"{1 / read / 1e6:,.0f}",
                f"{ours.rate * read:.0%}",
            ],
            [
                f"memory: {memory / 1e9:.1f} GB/s read by one core, {width} bytes an event",
                f"{memory / width / 1e6:,.0f}",
                f"{ours.rate * width / memory:.0%}",
            ],
        ],
    )
    figure, (ax,) = new_figure(1)
    steps = {**ours.steps, "rest": rest}
    ax.bar(list(steps), [seconds / rows * 1e9 for seconds in steps.values()])
    ax.set(ylabel="ns for each event", title="Where the time goes")
    _finish(page, figure, "Nanoseconds for each event by step")


def _read_once(query: Query, batches: list[EventBatch]) -> float:
    """Seconds of deriving the situations of Listing 1 by hand."""
    limits = thresholds(next(cars(CARS * SECONDS)))
    second, seconds = 1_000_000, 0.0
    for batch in batches:
        columns = [batch.table.column(name).chunk(0).to_numpy() for name in ("speed", "accel")]
        begin = time.process_time()
        _derive(batch.key, batch.time, *columns, limits.speed, limits.accel, limits.brake, second)
        seconds += time.process_time() - begin
    return seconds


@njit(cache=True)
def _derive(key, time, speed, accel, most_speed, most_accel, most_brake, second):
    """How many situations of A, B and C there are."""
    found = 0
    in_a = in_b = in_c = False
    since_a = since_b = since_c = 0
    own = key[0]
    for i in range(len(key)):
        now = time[i]
        if key[i] != own:
            own = key[i]
            in_a = in_b = in_c = False
        a, b, c = accel[i] > most_accel, speed[i] > most_speed, accel[i] < most_brake
        if a != in_a:
            found += in_a and now - since_a >= 5 * second
            in_a, since_a = a, now
        if b != in_b:
            found += in_b and 4 * second <= now - since_b <= 30 * second
            in_b, since_b = b, now
        if c != in_c:
            found += in_c and now - since_c >= 3 * second
            in_c, since_c = c, now
    return found


# ---- on Spark -------------------------------------------------------------------------------------


def on_spark(options: argparse.Namespace) -> None:
    """Listing 1 on Spark, from Parquet to noop, against Spark's own repartition and sort."""
    import episode
    from bench.harness import local_session
    from bench.harness import side_by_side as in_turns

    rows = max(1, int(20 * options.scale)) * CARS * SECONDS
    path = str(cars_on_disk(rows))
    limits = thresholds(next(cars(CARS * SECONDS)))
    text = aggressive_drivers(limits)
    query = car_query(text)
    expected = run(Contender("Listing 1", query.spec()), query.batches(cars(rows))).matches
    os.sched_setaffinity(0, CORES)
    spark = local_session()

    def to_noop(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def matched(detect: str = EARLIEST) -> Any:
        return episode.match(spark.read.parquet(path), text, time="ts", key="car_id", detect=detect)

    matches = matched().count()
    if matches != expected:
        raise SystemExit(f"on Spark {matches:,} matches, in process {expected:,}")
    taken = in_turns(
        {
            "sort": lambda: to_noop(
                spark.read.parquet(path).repartition("car_id").sortWithinPartitions("car_id", "ts")
            ),
            "episode": lambda: to_noop(matched()),
            "complete": lambda: to_noop(matched(COMPLETE)),
        },
        options.runs,
    )
    spark.stop()
    ratio = taken["episode"].median / taken["sort"].median
    page = Report(f"{options.name}-spark", "TPStream's query for aggressive drivers on Spark")
    page.text(
        f"`{text}`",
        f"{rows:,} reports of {CARS:,} cars in Parquet, in order of time; {matches:,} matches, as many as in process. "
        f"Spark on local[2]; one discarded run each, then in turns, {options.runs} runs; median (least – greatest).",
    )
    page.table(
        ["from Parquet to noop", "time", "of all cores", "events/s", "of the sort's time", "target", ""],
        [
            [
                title,
                str(taken[name]),
                f"{taken[name].median_cores:.1f} s",
                f"{rows / taken[name].median:,.0f}",
                f"{taken[name].median / taken['sort'].median:.2f}",
                "≤ 0.5" if name == "episode" else "",
                verdict(ratio <= 0.5) if name == "episode" else "",
            ]
            for name, title in (
                ("sort", "Spark: `repartition(car_id).sortWithinPartitions(car_id, ts)`"),
                ("episode", "episode.match"),
                ("complete", "episode.match, detect='complete'"),
            )
        ],
    )
    page.write(packages=("pyspark", *PACKAGES))


# ---- what the reports share -----------------------------------------------------------------------


def _page(options: argparse.Namespace, name: str, title: str, *, runs: int | None = None, timed: bool = True) -> Report:
    page = Report(f"{options.name}-{name}", title)
    if timed:
        page.text(HOW.format(runs=runs or options.runs))
    return page


def _finish(page: Report, figure: Any, caption: str) -> None:
    put_figure(page, figure, caption)
    page.write(packages=PACKAGES)


CORES = os.sched_getaffinity(0)
EXPERIMENTS: Experiments = {
    "drivers": drivers,
    "window": window,
    "patterns": patterns,
    "latency": latency,
    "plans": plans,
    "adaptation": adaptation,
    "speed": speed,
    "spark": on_spark,
}


if __name__ == "__main__":
    run_experiments(EXPERIMENTS, "tpstream", __doc__)
