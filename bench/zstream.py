"""`make bench NAME=zstream`: the evaluation of ZStream (SIGMOD 2009, section 6) again, each experiment by its name.

Throughput is events per second of one core, without delivering matches; the plans of a setting run in turns, and must
find the same number of matches. The paper's NFA is the automaton here.
"""

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from bench import stocks, weblog
from bench.evaluation import Experiments, run_experiments
from bench.event_plans import (
    AUTOMATON,
    CHOSEN,
    Contender,
    Measured,
    Query,
    automaton_of,
    chosen_of,
    estimated,
    peak_memory,
    run,
    shown,
    side_by_side,
    tree_of,
)
from bench.figures import new_figure, put_figure
from bench.harness import Report, median, say, verdict
from bench.plain_tree import LeftDeepTree
from episode.plan.events.cost import Shape, left_deep
from episode.plan.events.explain import reason_of

PACKAGES = ("llvmlite", "numpy", "pyarrow")
LEFT, RIGHT = "left-deep", "right-deep"
HOW = (
    "Thousand events per second of one core, matches found but not delivered; the plans of a setting in turns, one "
    "discarded run and then {runs}, medians. *chosen* is the plan that the engine takes by itself, its statistics and "
    "changes of plan included."
)

NFA = "The NFA gets a tenth of the events."


def stock_query(pattern: str, within: int, where: str = "") -> Query:
    text = f"PATTERN {pattern} {where} WITHIN {within} units RETURN IBM.id AS id"
    return Query(text, stocks.TYPES, stocks.SCHEMA, "name")


QUERY_4 = stock_query("IBM; Sun; Oracle", 200, "WHERE IBM.price > Sun.price")
QUERY_5 = stock_query("IBM; Sun; Oracle", 200)
QUERY_6 = stock_query("IBM; Sun; Oracle; Google", 100, "WHERE Oracle.price > Sun.price AND Oracle.price > Google.price")
QUERY_7 = stock_query("IBM; !Sun; Oracle", 200)
QUERY_8 = Query(
    "PATTERN Publication; Project; Course WHERE [ip] WITHIN 36000 units RETURN Publication.url AS url",
    weblog.TYPES, weblog.SCHEMA, "kind",
)  # fmt: skip


def right_deep(places: int) -> Shape:
    """The tree that joins the last two first."""
    shape: Shape = places - 1
    for place in range(places - 2, -1, -1):
        shape = (place, shape)
    return shape


SHAPES_6: dict[str, Shape] = {
    LEFT: left_deep(4),
    RIGHT: right_deep(4),
    "bushy": ((0, 1), (2, 3)),
    "inner": (0, ((1, 2), 3)),
    "inner left": ((0, (1, 2)), 3),
}
"""All trees over four places; the paper leaves the last one out."""


@dataclass(frozen=True)
class Setting:
    """Rates of the names and selectivities of the conditions, by the name with the lesser price."""

    name: str
    rates: dict[str, float]
    below: dict[str, float]

    def table(self, rows: int, first: int = 0) -> pa.Table:
        return stocks.stocks(rows, self.rates, self.below, first)


def stock_setting(name: str, rates: str, **below: float) -> Setting:
    """Rates as the paper writes them, 1:100:100."""
    names = ("IBM", "Sun", "Oracle", "Google")
    return Setting(name, dict(zip(names, map(float, rates.split(":")))), below)


# ---- Figures 8 and 9: selectivity ----------------------------------------------------------------


def selectivity(options: argparse.Namespace) -> None:
    """Figures 8 and 9: Query 4 with a predicate of ever smaller selectivity between the first two classes."""
    rows = int(200_000 * options.scale)
    plans = _three(QUERY_4)
    settings = {share: stock_setting(f"1/{share}", "1:1:1", Sun=1 / share) for share in (1, 2, 4, 8, 16, 32)}
    found = {
        share: side_by_side([*plans, chosen_of(QUERY_4)], [setting.table(rows)], options.runs, setting.name, rows // 10)
        for share, setting in settings.items()
    }
    costs = {share: _costs(plans, one) for share, one in found.items()}
    page = _page(options, "selectivity", "ZStream, Figures 8 and 9: selectivity of a predicate", QUERY_4)
    page.text(f"{rows:,} events, rates 1:1:1. *estimated*: cost of right-deep over cost of left-deep. {NFA}")
    page.table(
        ["selectivity", "matches", *_names(plans), "left / right", "estimated", "chosen of the best"],
        [
            [
                settings[share].name,
                f"{one[LEFT].matches:,}",
                *_rates(one),
                f"{_faster(one, LEFT, RIGHT):.2f}",
                f"{costs[share][RIGHT] / costs[share][LEFT]:.2f}",
                _of_best(one),
            ]
            for share, one in found.items()
        ],
    )
    best = _faster(found[32], LEFT, RIGHT)
    agree = all(_agrees(one, costs[share], (LEFT, RIGHT)) for share, one in found.items())
    nfa = _faster(found[32], RIGHT, AUTOMATON)
    page.table(
        ["", "paper", "here", ""],
        [
            ["left-deep over right-deep at 1/32", "5", f"{best:.1f}", verdict(best >= 5)],
            ["left-deep gains as selectivity falls", "yes", _yes(_grows(found)), verdict(_grows(found))],
            ["the cost model predicts which is faster (where they differ by 10%)", "yes", _yes(agree), verdict(agree)],
            ["right-deep over NFA at 1/32", "about 1", f"{nfa:.1f}", ""],
            ["chosen plan within 10% of the best", "", _worst(found), verdict(_all_close(found))],
        ],
    )
    _two_plots(page, options, found, costs, rows, "selectivity", [settings[share].name for share in found])
    _where(page, found, rows)
    _finish(page)


def _grows(found: dict[Any, dict[str, Measured]]) -> bool:
    ratios = [_faster(one, LEFT, RIGHT) for one in found.values()]
    return all(after > before * 0.95 for before, after in pairwise(ratios))


# ---- Figures 10 and 11: rates --------------------------------------------------------------------


def rates(options: argparse.Namespace) -> None:
    """Figures 10 and 11: Query 5, IBM traded more often and less often than the others."""
    rows = int(200_000 * options.scale)
    plans = _three(QUERY_5)
    settings = [
        stock_setting(text, text) for text in ("25:1:1", "10:1:1", "4:1:1", "1:1:1", "1:4:4", "1:10:10", "1:25:25")
    ]
    found = {
        one.name: side_by_side([*plans, chosen_of(QUERY_5)], [one.table(rows)], options.runs, one.name, rows // 10)
        for one in settings
    }
    costs = {name: _costs(plans, one) for name, one in found.items()}
    page = _page(options, "rates", "ZStream, Figures 10 and 11: event rates", QUERY_5)
    page.text(
        f"{rows:,} events; rates of IBM, Sun and Oracle. *estimated*: cost of right-deep over cost of left-deep. {NFA}"
    )
    page.table(
        ["rates", "matches", *_names(plans), "left / right", "estimated", "chosen of the best"],
        [
            [
                name,
                f"{one[LEFT].matches:,}",
                *_rates(one),
                f"{_faster(one, LEFT, RIGHT):.2f}",
                f"{costs[name][RIGHT] / costs[name][LEFT]:.2f}",
                _of_best(one),
            ]
            for name, one in found.items()
        ],
    )
    agree = all(_agrees(one, costs[name], (LEFT, RIGHT)) for name, one in found.items())
    often, seldom = _faster(found["25:1:1"], RIGHT, LEFT), _faster(found["1:25:25"], LEFT, RIGHT)
    page.table(
        ["", "paper", "here", ""],
        [
            ["right-deep over left-deep, IBM often (25:1:1)", "above 1", f"{often:.2f}", verdict(often > 1)],
            ["left-deep over right-deep, IBM seldom (1:25:25)", "above 1", f"{seldom:.2f}", verdict(seldom > 1)],
            ["the gap is wider where IBM is seldom", "yes", _yes(seldom > often), verdict(seldom > often)],
            ["left-deep over right-deep at 1:1:1", "1", f"{_faster(found['1:1:1'], LEFT, RIGHT):.2f}", ""],
            ["the cost model predicts which is faster (where they differ by 10%)", "yes", _yes(agree), verdict(agree)],
            ["chosen plan within 10% of the best", "", _worst(found), verdict(_all_close(found))],
        ],
    )
    _two_plots(page, options, found, costs, rows, "rates of IBM : Sun : Oracle", list(found))
    _where(page, found, rows)
    _finish(page)


# ---- Figures 12 and 13, Table 3: plans -----------------------------------------------------------


SETTINGS_6 = (
    stock_setting("rate 1:100:100:100", "1:100:100:100", Sun=1, Google=1),
    stock_setting("sel1 = 1/50", "1:1:1:1", Sun=1 / 50, Google=1),
    stock_setting("sel2 = 1/50", "1:1:1:1", Sun=1, Google=1 / 50),
)
"""The paper's."""
MORE_6 = (
    stock_setting("rate 100:1:100:100", "100:1:100:100", Sun=1, Google=1),
    stock_setting("rate 100:100:1:100", "100:100:1:100", Sun=1, Google=1),
    stock_setting("rate 100:100:100:1", "100:100:100:1", Sun=1, Google=1),
    stock_setting("sel1 = sel2 = 1/50", "1:1:1:1", Sun=1 / 50, Google=1 / 50),
    stock_setting("all 1", "1:1:1:1", Sun=1, Google=1),
)


def plans(options: argparse.Namespace) -> None:
    """Figures 12 and 13 and Table 3: Query 6 under all trees and the automaton; the choice; memory."""
    rows = int(200_000 * options.scale)
    contenders = [*(tree_of(QUERY_6, shape, name) for name, shape in SHAPES_6.items()), automaton_of(QUERY_6)]
    tables = {one.name: [one.table(rows)] for one in (*SETTINGS_6, *MORE_6)}
    tables["all 1"] = [tables["all 1"][0].slice(0, rows // 4)]
    run(contenders[0], [tables[SETTINGS_6[0].name][0].slice(0, 2_000)])
    run(contenders[-1], [tables[SETTINGS_6[0].name][0].slice(0, 2_000)])
    memory = {
        setting.name: {
            one.name: peak_memory(one, [setting.table(2_000, first) for first in range(0, 20_000, 2_000)])
            for one in contenders
        }
        for setting in SETTINGS_6[:2]
    }
    found = {
        name: side_by_side([*contenders, chosen_of(QUERY_6)], table, options.runs, name, rows // 10)
        for name, table in tables.items()
    }
    costs = {name: _costs(contenders, one) for name, one in found.items()}
    page = _page(options, "plans", "ZStream, Figures 12 and 13, Table 3: plans of a longer query", QUERY_6)
    page.text(
        f"{rows:,} events. Trees: left-deep [[[IBM; Sun]; Oracle]; Google], right-deep [IBM; [Sun; [Oracle; Google]]], "
        "bushy [[IBM; Sun]; [Oracle; Google]], inner [IBM; [[Sun; Oracle]; Google]], and inner left "
        f"[[IBM; [Sun; Oracle]]; Google], which the paper leaves out. The first three settings are the paper's. {NFA}"
    )
    page.text(
        "*the plan alone*: the tree that was chosen, run as a fixed plan, against the best: how good the choice is, "
        "without what choosing costs."
    )
    page.table(
        ["setting", "matches", *_names(contenders), "chosen of the best", "the plan alone", "the plan"],
        [
            [
                name,
                f"{one[LEFT].matches:,}",
                *_rates(one),
                _of_best(one),
                _alone(one),
                _plan_of(QUERY_6, one[CHOSEN]),
            ]
            for name, one in found.items()
        ],
    )
    page.heading("Estimated costs")
    page.text("Million units per window, by the cost model with the statistics that the engine has seen.")
    page.table(
        ["setting", *_names(contenders)[:-1], "least", "fastest"],
        [
            [
                name,
                *(f"{cost / 1e6:.4f}" for cost in one.values()),
                min(one, key=one.__getitem__),
                _fastest(found[name]),
            ]
            for name, one in costs.items()
        ],
    )
    page.heading("Peak memory")
    page.text(
        "MiB by which the process grows while it matches 20,000 events in ten pieces; a process for each plan. Records "
        "of a round are kept to what fits the cache, so memory depends on the plan as little as in the paper."
    )
    page.table(
        ["setting", *_names(contenders)[:-1]],
        [
            *([name, *(f"{size / 2**20:.1f}" for size in one.values())] for name, one in memory.items()),
            ["paper, rate 1:100:100:100", "7.4", "7.2", "6.7", "7.6", "", "6.7"],
            ["paper, sel1 = 1/50", "7.1", "6.5", "6.7", "6.5", "", "6.6"],
        ],
    )
    first, second, third = (found[one.name] for one in SETTINGS_6)
    inner = _faster(second, "inner", max((LEFT, RIGHT), key=lambda name: second[name].rate))
    page.heading("Against the paper")
    page.table(
        ["", "paper", "here", ""],
        [
            ["rate 1:100:100:100: left-deep the best of its trees", "yes", _fastest(first, SHAPES_6), ""],
            ["sel1 = 1/50: inner over the best of left- and right-deep", "almost 2", f"{inner:.1f}", ""],
            [
                "sel1 = 1/50: bushy does extremely poorly: inner over bushy",
                "",
                f"{_faster(second, 'inner', 'bushy'):.1f}",
                "",
            ],
            ["sel2 = 1/50: right-deep over left-deep", "above 1", f"{_faster(third, RIGHT, LEFT):.1f}", ""],
            ["chosen plan within 10% of the best of all plans", "", _worst(found), verdict(_all_close(found))],
        ],
    )
    _two_plots(page, options, found, costs, rows, "", list(found), bars=True)
    _where(page, found, rows)
    _finish(page)


# ---- Figure 14: adaptation -----------------------------------------------------------------------


def adaptation(options: argparse.Namespace) -> None:
    """Figure 14: Query 6 over the three streams one after the other, adaptive against fixed plans."""
    rows = int(600_000 * options.scale)
    runs = max(1, options.runs * 3 // 5)
    contenders = [*(tree_of(QUERY_6, shape, name) for name, shape in SHAPES_6.items()), automaton_of(QUERY_6)]
    tables = [one.table(rows, number * rows) for number, one in enumerate(SETTINGS_6)]
    found = side_by_side([*contenders, chosen_of(QUERY_6)], tables, runs, "concatenated", rows // 10)
    page = _page(options, "adaptation", "ZStream, Figure 14: plans that adapt", QUERY_6, runs)
    page.text(
        f"Three streams of {rows:,} events one after the other: {', then '.join(one.name for one in SETTINGS_6)}. "
        f"*chosen* goes through all of them with one matcher. {NFA}"
    )
    part = {
        one.name: {name: each.events[number] / each.parts[number] for name, each in found.items()}
        for number, one in enumerate(SETTINGS_6)
    }
    ratios = {name: max(one.values()) / one[CHOSEN] for name, one in part.items()}
    page.table(
        ["stream", *_names(contenders), "chosen of the best"],
        [
            [name, *(f"{rate / 1e3:,.0f}" for rate in one.values()), f"{1 / ratios[name]:.0%}"]
            for name, one in part.items()
        ],
    )
    best = max(ratios.values())
    page.text(
        f"Target: adaptive within 10% of the best plan in every stream: slowest {best:.2f} × the best: "
        f"{verdict(best <= 1.1)}. Paper: “nearly as good as the best of the other plans”."
    )
    page.heading("Changes of plan")
    kept = found[CHOSEN].matcher.adaptation
    page.table(
        ["round", "because", "plan"],
        [[one.round, reason_of(kept.plan, one), shown(QUERY_6, one.plan)] for one in kept.changes],
    )
    page.text(f"{kept.rounds:,} rounds; {kept.matches:,} matches.")
    figure, axes = new_figure(1)
    for name in found:
        axes[0].plot(list(part), [one[name] for one in part.values()], "o-", label=name)
    axes[0].set(ylabel="events/s", yscale="log", title="Throughput in each stream")
    axes[0].legend(fontsize=8)
    put_figure(page, figure, "Throughput of each plan in each stream")
    _finish(page)


# ---- Figures 15 and 16: negation -----------------------------------------------------------------


DOWN, ON_TOP = "pushed down", "on top"


def negation(options: argparse.Namespace) -> None:
    """Figures 15 and 16: Query 7 with the negation pushed down and on top, by rates of Oracle and of Sun."""
    rows = int(400_000 * options.scale)
    contenders = [tree_of(QUERY_7, left_deep(2), DOWN), tree_of(QUERY_7, left_deep(2), ON_TOP, on_top=True)]
    figures = {
        "Figure 15: Oracle more often": [f"1:1:{n}" for n in (1, 2, 5, 10, 20, 50)],
        "Figure 16: Sun more often": [f"1:{n}:1" for n in (1, 2, 5, 10, 20, 50)],
    }
    page = _page(options, "negation", "ZStream, Figures 15 and 16: negation pushed down", QUERY_7)
    page.text(f"{rows:,} events; rates of IBM, Sun and Oracle. *matching*: without preparing, which both plans share.")
    figure, axes = new_figure(2)
    ratios = {}
    for ax, (title, settings) in zip(axes, figures.items(), strict=True):
        found = {
            text: side_by_side(
                [*contenders, chosen_of(QUERY_7)], [stock_setting(text, text).table(rows)], options.runs, text
            )
            for text in settings
        }
        ratios.update({text: _faster(one, DOWN, ON_TOP) for text, one in found.items()})
        page.heading(title)
        page.table(
            ["rates", "matches", *_names(contenders), "pushed down / on top", "matching only"],
            [
                [
                    text,
                    f"{one[DOWN].matches:,}",
                    *_rates(one),
                    f"{ratios[text]:.1f}",
                    f"{one[ON_TOP].matching / one[DOWN].matching:.1f}",
                ]
                for text, one in found.items()
            ],
        )
        for name in (DOWN, ON_TOP):
            ax.plot(settings, [one[name].rate for one in found.values()], "o-", label=name)
        ax.set(title=title, ylabel="events/s", ylim=(0, None))
        ax.legend()
    page.heading("Against the paper")
    most, least = max(ratios.values()), min(ratios.values())
    page.table(
        ["", "paper", "here", ""],
        [
            ["pushed down over on top, at the most", "almost an order of magnitude", f"{most:.1f}", verdict(most >= 8)],
            ["pushed down always faster", "yes", f"least {least:.2f}", verdict(least > 1)],
        ],
    )
    put_figure(page, figure, "Throughput with the negation pushed down and on top")
    _finish(page)


# ---- Figure 17: web log --------------------------------------------------------------------------


def web(options: argparse.Namespace) -> None:
    """Figure 17 and Table 5: Query 8 on a month of web accesses."""
    records = int(weblog.RECORDS * options.scale)
    log = weblog.weblog(records)
    contenders = _three(QUERY_8)
    for one in contenders:
        run(one, [log.slice(0, 10_000)])
    memory = {one.name: peak_memory(one, [log]) for one in contenders}
    found = side_by_side([*contenders, chosen_of(QUERY_8)], [log], options.runs, "web")
    page = _page(options, "web", "ZStream, Figure 17: web access pattern", QUERY_8)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in weblog.COUNTS.items())
    page.text(
        f"{records:,} accesses of a month ({counts}: the paper's Table 4; the log itself is made up). *matching*: "
        "without preparing (columns, conditions on single events). [ip] partitions the events by address, so that "
        "all plans join within an address only; the paper applies it as a predicate."
    )
    page.table(
        ["plan", "thousand events/s", "seconds", "matching", "pairs tried", "matches", "peak memory"],
        [
            [
                name,
                f"{one.rate / 1e3:,.0f}",
                f"{one.seconds:.3f}",
                f"{one.matching:.3f}",
                f"{one.counted[0]:,}" if name != AUTOMATON else "",
                f"{one.matches:,}",
                f"{memory[name] / 2**20:.0f} MiB" if name in memory else "",
            ]
            for name, one in found.items()
        ],
    )
    page.table(
        ["", "paper", "here"],
        [
            ["left-deep over right-deep", "“much faster”", f"{_faster(found, LEFT, RIGHT):.2f}"],
            ["the same, matching only", "", f"{found[RIGHT].matching / found[LEFT].matching:.2f}"],
            ["right-deep over NFA", "a little above 1", f"{_faster(found, RIGHT, AUTOMATON):.2f}"],
            ["chosen of the best", "", _of_best(found)],
        ],
    )
    figure, axes = new_figure(1)
    axes[0].bar(list(found), [one.rate for one in found.values()])
    axes[0].set(ylabel="events/s", title="Query 8 on a month of web accesses")
    put_figure(page, figure, "Throughput of each plan")
    _finish(page)


# ---- speed ---------------------------------------------------------------------------------------


def speed(options: argparse.Namespace) -> None:
    """Query 5 at 1:1:1 against a tree in plain Python, and events per second where matches are rare."""
    rows, few = int(100_000 * options.scale), int(3_000 * options.scale)
    dense = stock_setting("1:1:1", "1:1:1").table(rows)
    events = dense.slice(0, few).to_pylist()
    contender = chosen_of(QUERY_5)
    ours, theirs, uncollected = [], [], []
    expected = run(contender, [dense.slice(0, few)]).matches
    for turn in range(options.runs + 1):
        mine = run(contender, [dense])
        usual, without = _plain_seconds(events, expected), _plain_seconds(events, expected, collecting=False)
        say(
            f"episode {mine.seconds:.3f} s for {rows:,} events, "
            f"plain Python {usual:.3f} s ({without:.3f} s) for {few:,}"
        )
        if turn:
            ours.append(mine.seconds)
            theirs.append(usual)
            uncollected.append(without)
    ratio = (rows / median(ours)) / (few / median(theirs))
    other = (rows / median(ours)) / (few / median(uncollected))
    many = int(5_000_000 * options.scale)
    rare = Setting("rare", {"IBM": 1, "Sun": 1, "Oracle": 1, **{f"S{n:02}": 10 for n in range(97)}}, {"Sun": 1})
    table = rare.table(many)
    seldom = {
        "Query 5, each class one event in 973": side_by_side([chosen_of(QUERY_5)], [table], options.runs, "rare")[
            CHOSEN
        ],
        "Query 4, the same events": side_by_side([chosen_of(QUERY_4)], [table], options.runs, "rare")[CHOSEN],
    }
    page = _page(options, "speed", "ZStream's trees, compiled: speed", QUERY_5)
    page.heading("Against a tree in plain Python")
    page.text(
        "Query 5 at rates 1:1:1. Plain Python: `bench/plain_tree.py`, a left-deep tree over lists of tuples, events as "
        "dicts; on fewer events, as it is slower, with the same window."
    )
    page.table(
        ["", "events", "matches", "seconds", "events/s"],
        [
            ["episode", f"{rows:,}", f"{mine.matches:,}", f"{median(ours):.3f}", f"{rows / median(ours):,.0f}"],
            *(
                [name, f"{few:,}", f"{expected:,}", f"{median(taken):.3f}", f"{few / median(taken):,.0f}"]
                for name, taken in (("plain Python", theirs), ("the same, without garbage collection", uncollected))
            ),
        ],
    )
    page.text(
        f"Ratio: {ratio:.0f}. Target: at least 50: {verdict(ratio >= 50)}. (To plain Python without its garbage "
        f"collector, which goes over the records again and again: {other:.0f}.) For each match episode takes "
        f"{median(ours) / mine.matches * 1e9:.1f} ns, plain Python {median(theirs) / expected * 1e9:.0f} ns "
        f"({median(uncollected) / expected * 1e9:.0f} ns)."
    )
    page.heading("Where matches are rare")
    page.table(
        ["query", "events", "matches", "events/s", "preparing", "matching", "target"],
        [
            [
                name,
                f"{many:,}",
                f"{one.matches:,}",
                f"{many / one.seconds:,.0f}",
                f"{one.preparing / many * 1e9:.1f} ns for each event",
                f"{one.matching / many * 1e9:.1f} ns for each event",
                f"≥ 5 million: {verdict(many / one.seconds >= 5e6)}",
            ]
            for name, one in seldom.items()
        ],
    )
    figure, axes = new_figure(1)
    axes[0].bar(["plain Python", "episode"], [few / median(theirs), rows / median(ours)])
    axes[0].set(ylabel="events/s", yscale="log", title="Query 5 at 1:1:1, one core")
    put_figure(page, figure, "Throughput of a tree in plain Python and of episode")
    _finish(page)


def _plain_seconds(events: list[dict[str, Any]], expected: int, *, collecting: bool = True) -> float:
    """Seconds of the tree in plain Python; objects that are there before are no burden to its garbage collection."""
    gc.collect()
    gc.freeze()
    if not collecting:
        gc.disable()
    begin = time.process_time()
    matches = LeftDeepTree(["IBM", "Sun", "Oracle"], 200).run(events)
    taken = time.process_time() - begin
    gc.enable()
    gc.unfreeze()
    if matches != expected:
        raise SystemExit(f"the tree in plain Python finds {matches:,} matches, episode {expected:,}")
    return taken


# ---- what the reports share ----------------------------------------------------------------------


def _three(query: Query) -> list[Contender]:
    return [tree_of(query, left_deep(3), LEFT), tree_of(query, right_deep(3), RIGHT), automaton_of(query)]


def _names(contenders: list[Contender]) -> list[str]:
    return [*(one.name for one in contenders), CHOSEN]


def _rates(measured: dict[str, Measured]) -> list[str]:
    return [f"{one.rate / 1e3:,.1f}" for one in measured.values()]


def _faster(measured: dict[str, Measured], one: str, other: str) -> float:
    """Throughput of one over that of the other."""
    return measured[one].rate / measured[other].rate


def _fastest(measured: dict[str, Measured], among: Any = None) -> str:
    names = [name for name in measured if name != CHOSEN and (among is None or name in among)]
    return max(names, key=lambda name: measured[name].rate)


def _lag(measured: dict[str, Measured]) -> float:
    return measured[_fastest(measured)].rate / measured[CHOSEN].rate


def _of_best(measured: dict[str, Measured]) -> str:
    return f"{1 / _lag(measured):.0%} of {_fastest(measured)}"


def _alone(measured: dict[str, Measured]) -> str:
    """The chosen tree of Query 6 as a fixed plan, against the best."""
    physical = measured[CHOSEN].matcher.adaptation.physical
    assert physical is not None
    name = next((name for name, shape in SHAPES_6.items() if shape == physical.shapes[-1][1]), AUTOMATON)
    return f"{_faster(measured, AUTOMATON if physical.automaton else name, _fastest(measured)):.0%}"


def _worst(found: dict[Any, dict[str, Measured]]) -> str:
    return f"slowest {max(map(_lag, found.values())):.2f} × the best"


def _all_close(found: dict[Any, dict[str, Measured]]) -> bool:
    return max(map(_lag, found.values())) <= 1.1


def _costs(contenders: list[Contender], measured: dict[str, Measured]) -> dict[str, float]:
    """By the cost model, with the statistics that the engine has seen."""
    statistics = measured[CHOSEN].matcher.adaptation.statistics
    assert statistics is not None
    return {one.name: estimated(one, statistics) for one in contenders}


def _agrees(measured: dict[str, Measured], costs: dict[str, float], names: tuple[str, str]) -> bool:
    """Is the cheaper one by estimate the faster one, unless they are about the same?"""
    one, other = names
    ratio = _faster(measured, one, other)
    return 0.9 < ratio < 1.1 or (ratio > 1) == (costs[one] < costs[other])


def _plan_of(query: Query, measured: Measured) -> str:
    physical = measured.matcher.adaptation.physical
    assert physical is not None
    return shown(query, physical)


def _yes(true: bool) -> str:
    return "yes" if true else "no"


def _page(options: argparse.Namespace, name: str, title: str, query: Query, runs: int | None = None) -> Report:
    page = Report(f"{options.name}-{name}", title)
    page.text(f"`{query.text.split(' RETURN')[0]}`", HOW.format(runs=runs or options.runs))
    return page


def _where(page: Report, found: dict[Any, dict[str, Measured]], rows: int) -> None:
    """What the hardware is asked for: pairs tried, records written, and nanoseconds for each."""
    page.heading("Where the time goes")
    page.text(
        "Trees: pairs that the joins try and records that they put out, at all levels, for each event; nanoseconds of "
        "matching (without preparing) for each of both. Comparing times and one value for a pair takes about 1 ns and "
        "writing a record of three events 4 to 6 ns, if it stays in the cache."
    )
    lines = []
    for setting, measured in found.items():
        for name, one in measured.items():
            if name in (AUTOMATON, CHOSEN):
                continue
            tried, records = one.counted
            lines.append(
                [
                    setting if not isinstance(setting, int) else f"1/{setting}",
                    name,
                    f"{one.preparing / rows * 1e9:.0f} ns",
                    f"{one.matching / rows * 1e9:,.0f} ns",
                    f"{tried / rows:,.1f}",
                    f"{records / rows:,.1f}",
                    f"{one.matching / (tried + records) * 1e9:.1f} ns",
                ]
            )
    page.table(
        [
            "setting",
            "plan",
            "preparing an event",
            "matching an event",
            "pairs tried",
            "records",
            "for each pair or record",
        ],
        lines,
    )


def _two_plots(
    page: Report,
    options: argparse.Namespace,
    found: dict[Any, dict[str, Measured]],
    costs: dict[Any, dict[str, float]],
    rows: int,
    label: str,
    ticks: list[str],
    *,
    bars: bool = False,
) -> None:
    """Throughput beside one over the estimated cost."""
    figure, axes = new_figure(2)
    names = list(next(iter(found.values())))
    for number, name in enumerate(names):
        speeds = [one[name].rate for one in found.values()]
        estimates = [1 / one[name] for one in costs.values()] if name not in (AUTOMATON, CHOSEN) else None
        if bars:
            width = 0.8 / len(names)
            at = [place + (number - len(names) / 2) * width for place in range(len(ticks))]
            axes[0].bar(at, speeds, width, label=name)
            if estimates:
                axes[1].bar(at, estimates, width, label=name)
        else:
            axes[0].plot(range(len(ticks)), speeds, "o-", label=name)
            if estimates:
                axes[1].plot(range(len(ticks)), estimates, "o-", label=name)
    for ax, title, unit in zip(axes, ("Throughput", "1 / estimated cost"), ("events/s", "1 / cost"), strict=True):
        ax.set(title=title, xlabel=label, ylabel=unit, yscale="log")
        ax.set_xticks(
            range(len(ticks)), ticks, rotation=30 if bars else 0, ha="right" if bars else "center", fontsize=8
        )
        ax.legend(fontsize=8)
    put_figure(page, figure, "Throughput, and one over the estimated cost")


def _finish(page: Report) -> None:
    page.write(packages=PACKAGES)


EXPERIMENTS: Experiments = {
    "selectivity": selectivity,
    "rates": rates,
    "plans": plans,
    "adaptation": adaptation,
    "negation": negation,
    "web": web,
    "speed": speed,
}


if __name__ == "__main__":
    run_experiments(EXPERIMENTS, "zstream", __doc__)
