"""`make bench NAME=pcq`: the evaluation of pattern correlation (DejaVu, DEBS 2011, section 5) again, by experiment.

In process and on one core but for the experiments on Spark; ways to compare run in turns in one process.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.correlated import (
    ARCHIVE,
    ARCHIVE_CACHED,
    CHOSEN,
    EAGER,
    FALL,
    LIVE,
    LIVE_CACHED,
    PLANS,
    RISE,
    TICK,
    Correlation,
    Run,
    archived,
    costly_shapes,
    mixed,
    shapes,
    side_by_side,
    stream_of,
    walk,
    window_first,
)
from bench.evaluation import Experiments, run_experiments
from bench.figures import new_figure, put_figure
from bench.harness import Report, verdict
from bench.pcq_spark import in_stream, on_spark

PACKAGES = ("llvmlite", "numpy", "pyarrow")
HOW = (
    "Events in memory, fed to the matcher in pieces of 20,000, on one core; seconds that the core worked. Ways to "
    "compare in turns, one discarded run and then {runs}, medians. All ways find the same pairs."
)
ALL_WAYS = (EAGER, LIVE, LIVE_CACHED, ARCHIVE, ARCHIVE_CACHED, CHOSEN)
WITHIN = 1.1
"""How far the chosen plan may be from the best."""


def measured(query: Correlation, table: pa.Table, ways: Sequence[str], runs: int, setting: str) -> dict[str, Run]:
    return side_by_side({name: query.spec(PLANS[name]) for name in ways}, table, runs, setting)


def _best(found: dict[str, Run]) -> str:
    return min((name for name in found if name != CHOSEN), key=lambda name: found[name].seconds)


def _choice(page: Report, what: str, found: dict[Any, dict[str, Run]]) -> None:
    """How far the chosen plan was from the best, in every setting."""
    page.heading("The choice")
    rows = []
    for setting, one in found.items():
        best = _best(one)
        ratio = one[CHOSEN].seconds / one[best].seconds
        rows.append([setting, best, f"{one[best].seconds:.3f} s", f"{one[CHOSEN].seconds:.3f} s", f"{ratio:.2f}",
                     verdict(ratio <= WITHIN)])  # fmt: skip
    page.table([what, "best", "its time", "chosen", "chosen / best", "at most 1.10"], rows)


def _rates(page: Report, what: str, ways: Sequence[str], found: dict[Any, dict[str, Run]]) -> None:
    page.table(
        [f"{what}, thousand tuples/s", *ways, "pairs"],
        [
            [setting, *(f"{one[way].rate / 1e3:,.0f}" for way in ways), f"{one[ways[0]].matches:,}"]
            for setting, one in found.items()
        ],
    )


def _plot(page: Report, title: str, label: str, ways: Sequence[str], found: dict[Any, dict[str, Run]]) -> None:
    figure, (ax,) = new_figure(1)
    for way in ways:
        ax.plot(list(found), [one[way].rate / 1e3 for one in found.values()], "o-", label=way)
    ax.set(xlabel=label, ylabel="thousand tuples/s", title=title, ylim=(0, None))
    ax.legend()
    _finish(page, figure, title)


# ---- Figure 9: the recent buffer ------------------------------------------------------------------------

CAPACITIES = (50, 100, 200, 300, 400, 500, 600)


def buffer(options: argparse.Namespace) -> None:
    """Figure 9: the capacity of the recent buffer, with the rest of the region read from an archive."""
    rows, whole = int(40_000 * options.scale), 500
    table = shapes(rows, PERIOD)
    query = Correlation(FALL, TICK, whole)
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as catalog:
        history = archived(table, catalog)
        specs = {"no archive": query.spec(PLANS[LIVE])}
        for capacity in CAPACITIES:
            plan = replace(PLANS[LIVE], recent_buffer=capacity)
            specs[f"{capacity}"] = query.spec(plan, history)
        found = side_by_side(specs, table, options.runs, "recent buffer", feed=1_000)
    page = _page(options, "buffer", "Pattern correlation, Figure 9: the recent buffer")
    page.text(
        f"Q1 over {rows:,} tuples, live first without a cache, P = {whole}, fed in pieces of 1,000; the archive is a "
        "stream store that holds all tuples, in Parquet. In the paper, reading from disk makes throughput fall in "
        "proportion to what the buffer lacks, and a buffer of P tuples is enough."
    )
    page.table(
        ["capacity R", "thousand tuples/s", "of that without an archive", "pairs"],
        [
            [name, f"{one.rate / 1e3:,.1f}", f"{one.rate / found['no archive'].rate:.2f}", f"{one.matches:,}"]
            for name, one in found.items()
        ],
    )
    figure, (ax,) = new_figure(1)
    ax.plot(CAPACITIES, [found[f"{one}"].rate / 1e3 for one in CAPACITIES], "o-", label="archive")
    ax.axhline(found["no archive"].rate / 1e3, linestyle="--", label="no archive")
    ax.set(xlabel="R, tuples", ylabel="thousand tuples/s", title="Recent buffer, P = 500", ylim=(0, None))
    ax.legend()
    _finish(page, figure, "Throughput by the capacity of the recent buffer")


# ---- Figures 10 and 11, Table 5: the recency ------------------------------------------------------------

RECENCIES = (10, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000)
PERIOD = 50


def recency(options: argparse.Namespace) -> None:
    """Figures 10 and 11 with Table 5: the recency region grows."""
    rows = int(400_000 * options.scale)
    table = shapes(rows, PERIOD)
    ways = ALL_WAYS
    found = {one: measured(Correlation(FALL, TICK, one), table, ways, options.runs, f"P = {one}") for one in RECENCIES}
    page = _page(options, "recency", "Pattern correlation, Figures 10 and 11, Table 5: the recency region")
    page.text(f"Q1 over {rows:,} tuples; a fall and a tick shape in every {PERIOD} tuples.")
    _rates(page, "P", ways, found)
    page.heading("Table 5: what is held")
    page.table(
        ["P", "buffer without cache: paper", "here", "buffer with cache: paper", "here", "cache: paper", "here"],
        [
            [one, one, found[one][LIVE].buffer, 10 if one == 10 else 49, found[one][LIVE_CACHED].buffer, entries,
             found[one][LIVE_CACHED].cache]
            for one, entries in zip(RECENCIES, (0, 1, 3, 7, 11, 15, 19, 23, 27, 31, 35, 39), strict=True)
        ],
    )  # fmt: skip
    last = found[RECENCIES[-1]]
    page.text(
        "The paper's stream has an archive match about every 25 tuples, this one every 50. Rows are counted at the end "
        "of a feed. In the paper, cost without the cache grows as the square of P, and with it with the results."
    )
    page.table(
        ["at P = 1000", "here"],
        [
            ["cache over no cache (live first)", f"{last[LIVE].seconds / last[LIVE_CACHED].seconds:.1f}×"],
            ["cache over no cache (archive first)", f"{last[ARCHIVE].seconds / last[ARCHIVE_CACHED].seconds:.1f}×"],
            ["eager over live first with cache, time", f"{last[EAGER].seconds / last[LIVE_CACHED].seconds:.2f}"],
        ],
    )
    _choice(page, "P", found)
    _plot(page, "Throughput by the recency", "P, tuples", ways, found)


# ---- Figure 12: the cache -----------------------------------------------------------------------------

DISTANCES = (20, 40, 80, 120, 160, 200)
RUNS_OF_EQUAL = (1, 2, 4, 8, 16, 32)
COSTLY = (
    "A F* B+ C* D+",
    "F AS F.price = PREV(F.price), B AS B.price < PREV(B.price), C AS C.price >= PREV(C.price) AND C.price <= A.price, "
    "D AS D.price > PREV(D.price) AND D.price > A.price",
)


def cache(options: argparse.Namespace) -> None:
    """Figure 12: the query result cache, by the distance of regions and by the cost of the archive pattern."""
    rows = int(400_000 * options.scale)
    ways = (LIVE, LIVE_CACHED, EAGER, CHOSEN)
    query = Correlation(FALL, TICK, 200)
    apart = {one: measured(query, shapes(rows, one), ways, options.runs, f"distance {one}") for one in DISTANCES}
    costly = Correlation(FALL, COSTLY, 200)
    cost = {
        one: measured(costly, costly_shapes(rows, 80, one), ways, options.runs, f"runs of {one}")
        for one in RUNS_OF_EQUAL
    }
    page = _page(options, "cache", "Pattern correlation, Figure 12: the query result cache")
    page.text(f"{rows:,} tuples, P = 200. (a) Q1 with a fall and a tick shape in every Δ tuples.")
    _rates(page, "(a) Δ", ways, apart)
    page.text(
        "(b) Δ = 80; the archive pattern may begin with tuples of equal price (`A F* B+ C* D+`), of which there are "
        "runs of a length that end in vain: its cost grows with the length. In the paper, the gain grows with the cost."
    )
    page.table(
        ["(b) length of runs", *(f"{way}, thousand tuples/s" for way in ways), "gain of the cache"],
        [
            [length, *(f"{one[way].rate / 1e3:,.0f}" for way in ways),
             f"{one[LIVE_CACHED].rate / one[LIVE].rate - 1:.2f}"]
            for length, one in cost.items()
        ],
    )  # fmt: skip
    _choice(page, "Δ", apart)
    _choice(page, "length of runs", cost)
    figure, (left, right) = new_figure(2)
    for way in ways:
        left.plot(DISTANCES, [one[way].rate / 1e3 for one in apart.values()], "o-", label=way)
    left.set(xlabel="Δ, tuples", ylabel="thousand tuples/s", title="(a) distance of regions", ylim=(0, None))
    left.legend()
    gains = [one[LIVE_CACHED].rate / one[LIVE].rate - 1 for one in cost.values()]
    right.plot(RUNS_OF_EQUAL, gains, "o-")
    right.set(xlabel="length of runs", ylabel="relative gain of the cache", title="(b) cost", ylim=(0, None))
    _finish(page, figure, "The query result cache")


# ---- Figure 13: the order of the join ------------------------------------------------------------------

RATIOS = ((64, 1), (16, 1), (4, 1), (1, 1), (1, 4), (1, 16), (1, 64))
ZONES = ((32, 1), (8, 1), (1, 1), (1, 8), (1, 32))
ZONE_FALL = ("A G* B+", "G AS G.volume > 0 AND G.volume = PREV(G.volume), B AS B.price < PREV(B.price)")
ZONE_RISE = ("A F* D+", "F AS F.volume < 0 AND F.volume = PREV(F.volume), D AS D.price > PREV(D.price)")


def zones(rows: int, before_falls: int, after_rises: int, period: int = 2_000) -> pa.Table:
    """In every period a fall and, much later, a rise: before falls lie runs of equal negative volume, costly for the
    archive pattern alone; after rises runs of equal positive volume, costly for the live pattern alone."""
    at, number = np.arange(rows) % period, np.arange(rows)
    moves = np.where(at == period // 2, -1.0, np.where(at == period - 1, 1.0, 0.0))
    volume = np.zeros(rows)
    before = (at < period // 2) & (at >= period // 2 - 450)
    after = at < 450
    volume[before] = -1 - (number[before] // before_falls) % 2
    volume[after] = 1 + (number[after] // after_rises) % 2
    return stream_of(1_000_000 + np.cumsum(moves), volume)


def order(options: argparse.Namespace) -> None:
    """Figure 13: the order of the join, by selectivity and by the cost of the regions."""
    rows = int(800_000 * options.scale)
    ways = ALL_WAYS
    query = Correlation(FALL, RISE, 500)
    seldom, often = {}, {}
    for falls, rises in RATIOS:
        name = f"{falls}:{rises}"
        seldom[name] = measured(
            query, mixed(rows, 600 * rises, 600 * falls), ways, options.runs, f"live : archive = {name}"
        )
        often[name] = measured(
            query, mixed(rows, 20 * rises, 20 * falls), ways, options.runs, f"live : archive = {name}, dense"
        )
    costly = Correlation(ZONE_FALL, ZONE_RISE, 500)
    cost = {f"{a}:{b}": measured(costly, zones(rows, a, b), ways, options.runs, f"cost {a}:{b}") for a, b in ZONES}
    page = _page(options, "order", "Pattern correlation, Figure 13: the order of the join")
    page.text(
        f"Q2 (a fall, and a rise before it) over {rows:,} tuples, P = 500. (a) Falls and rises in a ratio; the more "
        "frequent one comes every 600 tuples: regions of the rarer one do not overlap."
    )
    _rates(page, "live : archive matches", ways, seldom)
    page.text("The same with 20 in place of 600: regions overlap, and the cache is of use.")
    _rates(page, "live : archive matches, dense", ways, often)
    page.text(
        "(b) As many falls as rises; regions before falls are costly for the archive pattern, regions after rises for "
        "the live pattern, in a ratio."
    )
    _rates(page, "cost before falls : after rises", ways, cost)
    for what, found in (("live : archive", seldom), ("live : archive, dense", often), ("cost", cost)):
        _choice(page, what, found)
    figure, axes = new_figure(3)
    for ax, title, found in zip(axes, ("(a) seldom", "(a) often", "(b) cost"), (seldom, often, cost), strict=True):
        for way in ways:
            ax.plot(list(found), [one[way].rate / 1e6 for one in found.values()], "o-", label=way)
        ax.set(ylabel="million tuples/s", title=title, ylim=(0, None))
        ax.legend()
    _finish(page, figure, "The order of the join")


# ---- Figure 14: ticks ---------------------------------------------------------------------------------

TICK_RECENCIES = (100, 200, 300, 400, 500, 1_000, 2_000)
FIRST_TARGET = 54


def real(options: argparse.Namespace) -> None:
    """Figure 14: ticks of a busy stock, all ways against live first without a cache."""
    rows = int(50_000 * options.scale)
    table = walk(rows)
    ways = ALL_WAYS
    found = {
        one: measured(Correlation(FALL, TICK, one), table, ways, options.runs, f"ticks, P = {one}")
        for one in TICK_RECENCIES
    }
    few = table.slice(0, rows // 10)
    windows = {one: window_first(Correlation(FALL, TICK, one), few) for one in TICK_RECENCIES}
    page = _page(options, "ticks", "Pattern correlation, Figure 14: ticks")
    page.text(
        f"Q1 over {rows:,} ticks of one stock, a random walk in cents (`bench/correlated.py`); the paper has ticks of "
        "the New York Stock Exchange. The baseline of the paper is live first without the cache."
    )
    _rates(page, "P", ways, found)
    at = found[500]
    gain = at[LIVE].seconds / at[_best(at)].seconds
    page.table(
        ["", "paper", "here", ""],
        [[f"best ({_best(at)}) over the baseline at P = 500", "54×", f"{gain:.0f}×", verdict(gain >= FIRST_TARGET)]],
    )
    page.table(
        ["P", "best over the baseline", "windows first, thousand tuples/s", "best over windows first"],
        [
            [one, f"{each[LIVE].seconds / each[_best(each)].seconds:.0f}×", f"{windows[one].rate / 1e3:,.1f}",
             f"{each[_best(each)].rate / windows[one].rate:,.0f}×"]
            for one, each in found.items()
        ],
    )  # fmt: skip
    page.text(
        "Windows first is the state of the art of the paper's section 3.1: a window ends at every tuple, and both "
        f"patterns are evaluated anew in it; over the first {few.num_rows:,} ticks."
    )
    _choice(page, "P", found)
    _plot(page, "Ticks", "P, tuples", ways, found)


def _page(options: argparse.Namespace, name: str, title: str) -> Report:
    page = Report(f"{options.name}-{name}", title)
    page.text(HOW.format(runs=options.runs))
    return page


def _finish(page: Report, figure: Any, caption: str) -> None:
    put_figure(page, figure, caption)
    page.write(packages=PACKAGES)


EXPERIMENTS: Experiments = {
    "buffer": buffer,
    "recency": recency,
    "cache": cache,
    "order": order,
    "ticks": real,
    "spark": on_spark,
    "stream": in_stream,
}

if __name__ == "__main__":
    run_experiments(EXPERIMENTS, "pcq", __doc__)
