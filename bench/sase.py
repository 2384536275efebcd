"""`make bench NAME=sase`: the evaluation of SASE++ (SIGMOD 2014, section 6) again, each experiment by its name.

The template is SEQ(A a, B+ b[], C c) under skip-till-any-match. Throughput is events per second of one core, with the
rows of the matches made. What a contender cannot do within its budget of steps is shown as —.
"""

from __future__ import annotations

import argparse
import math
import os
from functools import partial

import numpy as np
import pyarrow as pa
from examples import cluster_monitoring

import episode
from bench.closures import SCHEMA, Rates, Result, Task, agree, run, shown_rate, side_by_side, stream
from bench.confidence_cost import computed_twice
from bench.data_sets import DATA, made_once
from bench.evaluation import Experiments, run_experiments
from bench.figures import new_figure, put_figure
from bench.harness import Report, Taken, local_session, median, verdict
from bench.harness import side_by_side as harness_side_by_side
from bench.phases import Phases, Places
from bench.shard_stages import STAGES, planned, stages_of
from episode import Options, Tuning
from episode.matchers.events import matcher
from episode.matchers.events.construct import ResultConstruction
from episode.matchers.events.output import EventOutput
from episode.queries.language import Given
from episode.spark.batch.runtime import Batch

PACKAGES = ("llvmlite", "numpy", "pyarrow")
RUNS, POSTPONED, FLY, COLLAPSED = "runs (SASE+)", "postponed", "on the fly", "collapsed"
PATTERN = "PATTERN SEQ(A a, B+ b[], C c)"
TRUE = "c.val > max(b[].val)"
PREDICATES = {
    "true-value consistent": "c.val > max(b[].val)",
    "false-value consistent": "c.val > max(b[].val) AND c.val < 1.05 * max(b[].val)",
    "true- and false-value consistent": "b[i].val < 0.02 AND c.val < 0.02",
    "inconsistent": "c.val > 1.9 * avg(b[].val) AND c.val > sum(b[].val)",
}
A_NODE, PAPERS_LEAST = 13.62, 300_000
SORT = "Spark's repartition and sort"
PLACES: Places = {
    "initialisation": [(matcher, "prepare_events")],
    "pattern matching": [(matcher.EventPatternMatcher, "feed")],
    "result construction": [(ResultConstruction, "__init__"), (ResultConstruction, "matches")],
    "rows": [(EventOutput, "tables")],
}
PHASES = tuple(PLACES)
HOW = "Events per second of one core; contenders in turns, one discarded run and then {runs}, medians."


def engines(where: str, within: int) -> dict[str, Task]:
    text = f"{PATTERN} WHERE {where} WITHIN {within} units RETURN a.ts AS at"
    collapsed = f"{PATTERN} WHERE {where} WITHIN {within} units RETURN COLLAPSED a.ts AS at"
    tasks = {
        RUNS: Task(text, Options(tuning=Tuning(closure="runs", step_budget=10**10))),
        POSTPONED: Task(text, Options(tuning=Tuning(closure="postponed"))),
        FLY: Task(text, Options(tuning=Tuning(closure="on the fly"))),
    }
    return {**tasks, COLLAPSED: Task(collapsed)}


def selectivity(options: argparse.Namespace) -> None:
    """Figure 4 (a): the number of matches for each event, by how high the values of C are."""
    rows = int(200_000 * options.scale)
    page = _page(options, "selectivity", "Selectivity (Figure 4 a)", TRUE)
    page.text(
        f"{rows:,} events, of them A 2 %, B 40 %, C 2 %; window 25. Values of B are uniform in [0, 1), of C below s."
    )
    lines, curves = [], []
    for highest in (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 1.0, 2.0):
        table = stream(rows, Rates(0.02, 0.4, 0.02, highest))
        found = side_by_side(f"s = {highest}", engines(TRUE, 25), table, options.runs)
        agree(f"s = {highest}", found, (RUNS, POSTPONED, FLY, COLLAPSED))
        theta = _value(found) / rows
        curves.append((theta, found))
        lines.append([f"{highest:g}", f"{theta:.2g}", *map(shown_rate, found.values()), _times(found)])
    page.table(["s", "matches / events", RUNS, POSTPONED, FLY, COLLAPSED, "best over runs"], lines)
    _plot(page, [(f"{theta:.1g}", found) for theta, found in curves], "matches / events")
    page.write(packages=PACKAGES)


def window(options: argparse.Namespace) -> None:
    """Figures 4 (b) and (c): windows, and how many runs are created."""
    page = _page(options, "window", "Windows and runs (Figures 4 b and c)", TRUE)
    page.text(
        "A and C are one event in 50 up to a window of 100, then so rare that a window has about two of each; B is "
        "40 % of the events; values of C are below 0.25 / W. Runs of SASE+: partial matches that its automaton would "
        "create, counted without creating them by AGGREGATE over SEQ(A a, B* b[]). Intermediate matches: what the "
        "shared pattern matching gives."
    )
    lines, curves, best = [], [], 0.0
    for within in (25, 30, 35, 40, 100, 1_000, 10_000, 100_000):
        share = 0.02 if within <= 100 else 2.0 / within
        rows = int((50_000 if within <= 40 else max(100_000, 4 * within)) * options.scale)
        table = stream(rows, Rates(share, 0.4, share, 0.25 / within))
        tasks = engines(TRUE, within)
        if within > 40:
            tasks.pop(RUNS)
        found = side_by_side(f"W = {within}", tasks, table, options.runs)
        agree(f"W = {within}", found, tuple(tasks))
        created = run(Task(f"PATTERN SEQ(A a, B* b[]) WITHIN {within} units AGGREGATE count(*) AS trends",
                           Options(tuning=Tuning(counts="double"))), table)  # fmt: skip
        intermediate = run(
            Task(
                f"{PATTERN} WITHIN {within} units RETURN COLLAPSED a.ts AS at", Options(tuning=Tuning(counts="double"))
            ),
            table,
        )
        best = max(best, _factor(found))
        curves.append((f"{within:,}", found))
        counts = [f"{created.value:.2g}" if created else "—", f"{intermediate.rows:,}" if intermediate else "—"]
        lines.append([f"{within:,}", *_four(found), _times(found), *counts])
    header = ["W", RUNS, POSTPONED, FLY, COLLAPSED, "best over runs", "runs of SASE+", "intermediate matches"]
    page.table(header, lines)
    page.text(
        f"Postponing over runs at its best: {best:,.0f} × (target ≥ 400 ×: {verdict(best >= 400)}; the paper: 383 ×)."
    )
    _plot(page, curves, "W")
    page.write(packages=PACKAGES)


def classes(options: argparse.Namespace) -> None:
    """Figure 4 (d), and the other classes of predicates."""
    page = _page(options, "classes", "Classes of predicates by window (Figure 4 d)", "one of each class")
    curves = []
    for name, where in PREDICATES.items():
        page.heading(name)
        page.text(f"`WHERE {where}`")
        lines = []
        for within in (25, 35, 100, 1_000):
            share = 0.02 if within <= 100 else 2.0 / within
            table = stream(int(50_000 * options.scale), Rates(share, 0.4, share, 1.25 / within))
            tasks = engines(where, within)
            if within > 35:
                tasks.pop(RUNS)
            found = side_by_side(f"{name}, W = {within}", tasks, table, options.runs)
            agree(f"{name}, W = {within}", found, tuple(tasks))
            curves.append((f"{name[:5]} {within}", found))
            lines.append([f"{within:,}", *_four(found), f"{_value(found):,.0f}"])
        page.table(["W", RUNS, POSTPONED, FLY, COLLAPSED, "matches"], lines)
    page.write(packages=PACKAGES)


def breakdown(options: argparse.Namespace) -> None:
    """Figures 4 (e) and (f): where the time goes, measured directly."""
    page = _page(options, "breakdown", "Where the time goes (Figures 4 e and f)", TRUE)
    page.text(
        "50,000 events or more, of them B 40 %; A and C 2 %, from W = 1,000 on two in a window. Milliseconds of one "
        "core, on a clock around the functions themselves. Initialisation: which variables each event qualifies for. "
        "Pattern matching: of SASE+ all runs; otherwise the shared runs that collect the events of intermediate "
        "matches. Result construction: the matches of these. Rows: columns of the output."
    )
    figure, axes = new_figure(2)
    works = {RUNS: (15, 20, 25, 30), FLY: (25, 50, 100, 1_000, 10_000)}
    for ax, (engine, windows) in zip(axes, works.items(), strict=True):
        page.heading(engine)
        lines = []
        taken: dict[int, dict[str, float]] = {}
        for within in windows:
            share = 0.02 if within <= 100 else 2.0 / within
            table = stream(int(max(50_000, 4 * within) * options.scale), Rates(share, 0.4, share, 0.25 / within))
            found = _phases_of(engines(TRUE, within)[engine], table, options.runs)
            if found is None:
                lines.append([f"{within:,}", *["—"] * len(PHASES), "—"])
                continue
            taken[within] = found
            shown = [*(found[name] for name in PHASES), sum(found.values())]
            lines.append([f"{within:,}", *(f"{1e3 * seconds:.1f}" for seconds in shown)])
        page.table(["W", *PHASES, "sum"], lines)
        below = [0.0] * len(taken)
        for name in PHASES:
            heights = [1e3 * found[name] for found in taken.values()]
            ax.bar(range(len(taken)), heights, bottom=below, label=name)
            below = [one + other for one, other in zip(below, heights, strict=True)]
        ax.set(title=engine, xlabel="W", ylabel="ms")
        ax.set_xticks(range(len(taken)), [f"{within:,}" for within in taken], fontsize=8)
        ax.legend(fontsize=8)
    put_figure(page, figure, "Where the time goes")
    page.write(packages=PACKAGES)


def _phases_of(task: Task, table: pa.Table, runs: int) -> dict[str, float] | None:
    """Medians of the phases' seconds, after a run that does not count; None where it is too much."""
    several: list[Phases] = []
    for _ in range(runs + 1):
        phases = Phases()
        with phases.watching(PLACES):
            if run(task, table) is None:
                return None
        several.append(phases)
    return {name: median([one.seconds.get(name, 0.0) for one in several[1:]]) for name in PHASES}


def collapsed(options: argparse.Namespace) -> None:
    """The cost of collapsed results by the number of matches that they stand for."""
    page = _page(options, "collapsed", "Collapsed results", "none")
    page.text("Windows with one A, n times B and one C: 2^n - 1 matches each. 200,000 events in all.")
    lines = []
    for count in (10, 20, 40, 60, 80, 100, 120):
        windows = int(200_000 * options.scale) // (count + 2)
        table = _windows(windows, count)
        tasks = {COLLAPSED: Task(f"{PATTERN} WITHIN {count + 1} units RETURN COLLAPSED a.ts AS at")}
        found = side_by_side(f"n = {count}", tasks, table, options.runs)[COLLAPSED]
        assert found is not None
        lines.append(
            [count, f"{2.0**count:.1g}", f"{found.value:.2g}", f"{found.seconds / found.events * 1e9:,.0f} ns"]
        )
    page.table(["n", "matches of a row", "matches in all", "for each event"], lines)
    page.write(packages=PACKAGES)


def aggregates(options: argparse.Namespace) -> None:
    """Aggregates without enumeration."""
    page = _page(options, "aggregates", "Aggregates over all matches", "none, and rising values")
    rows = int(1_000_000 * options.scale)
    count = "AGGREGATE count(*) AS trends"
    double = Options(tuning=Tuning(counts="double"))
    lines, seconds = [], {}
    for within in (100, 1_000, 10_000):
        table = stream(rows, Rates(0.01, 0.02, 0.01))
        tasks = {"count": Task(f"{PATTERN} WITHIN {within} units {count}", double)}
        found = side_by_side(f"count, W = {within}", tasks, table, options.runs)["count"]
        assert found is not None
        seconds[within] = found.seconds
        lines.append([f"{within:,}", f"{found.seconds:.3f} s", f"{found.rate:,.0f}", f"{found.value:.3g}"])
    page.heading("All matches, local predicates")
    page.text(f"{rows:,} events, A 1 %, B 2 %, C 1 %.")
    page.table(["W", "time", "events/s", "matches"], lines)
    ratio = seconds[10_000] / seconds[100]
    page.text(f"W = 10,000 takes {ratio:.1f} × the time of W = 100 (target < 10 ×: {verdict(ratio < 10)}).")
    page.heading("Rising values: b[i].val > b[i-1].val")
    lines, best = [], 0.0
    for within in (100, 1_000):
        table = stream(rows, Rates(0.01, 0.2, 0.01))
        text = f"{PATTERN} WHERE b[i].val > b[i-1].val WITHIN {within} units {count}"
        found = side_by_side(f"rising, W = {within}", {"rising": Task(text, double)}, table, options.runs)["rising"]
        assert found is not None
        best = max(best, found.rate)
        lines.append([f"{within:,}", f"{found.seconds:.3f} s", f"{found.rate:,.0f}", f"{found.value:.3g}"])
    page.text("A 1 %, B 20 %, C 1 %.")
    page.table(["W", "time", "events/s", "matches"], lines)
    page.text(f"At its best {best:,.0f} events/s (target ≥ 1,000,000: {verdict(best >= 1e6)}).")
    page.write(packages=PACKAGES)


def imprecise(options: argparse.Namespace) -> None:
    """Figure 5 (a): imprecise time, by window and threshold."""
    where = "b[i].val < 0.02 AND c.val < 0.5"
    page = _page(options, "imprecise", "Imprecise time (Figure 5 a)", where)
    page.text("Intervals of 10 points. A window has about five A and five C, and four B that pass their condition.")
    given = Given(interval=("lo", "hi"), type_column="type")
    lines, curves, greatest = [], [], 0
    for within in (1_000, 3_000, 10_000, 30_000):
        rates = Rates(5 / within, 200 / within, 5 / within)
        table = stream(int(max(200_000, 20 * within) * options.scale), rates, 10)
        tasks = {
            f"DP {threshold}": Task(
                f"{PATTERN} WHERE {where} WITHIN {within} units CONFIDENCE >= {threshold} RETURN a.ts AS at",
                given=given,
            )
            for threshold in (0.3, 0.5, 0.7, 0.9)
        }
        found = side_by_side(f"W = {within}", tasks, table, options.runs)
        if all(one is not None for one in found.values()):
            greatest = max(greatest, within)
        curves.append((f"{within:,}", found))
        matches = found["DP 0.3"].rows if found["DP 0.3"] else 0
        lines.append([f"{within:,}", *map(shown_rate, found.values()), f"{matches:,}"])
    page.table(["W", "DP 0.3", "DP 0.5", "DP 0.7", "DP 0.9", "matches at 0.3"], lines)
    page.text(f"Windows up to {greatest:,} (target 30,000: {verdict(greatest >= 30_000)}).")
    _plot(page, curves, "W")
    page.write(packages=PACKAGES)


def confidence(options: argparse.Namespace) -> None:
    """Figure 5 (b): what computing confidence costs."""
    where = "b[i].val < 0.02 AND c.val < 0.5"
    page = _page(options, "confidence", "The cost of confidence (Figure 5 b)", where)
    page.text(
        "The streams and queries of Figure 5 (a). Milliseconds of one core for computing confidence: what a query "
        "takes longer if each confidence is computed twice; in brackets the share of the whole query. DP 0: no "
        "threshold, so that every possible match is weighed."
    )
    given = Given(interval=("lo", "hi"), type_column="type")
    names = {threshold: f"DP {threshold:g}" for threshold in (0.0, 0.3, 0.5, 0.7, 0.9)}
    lines, curves = [], []
    windows = (1_000, 3_000, 10_000, 30_000)
    for within in windows:
        rates = Rates(5 / within, 200 / within, 5 / within)
        table = stream(int(max(200_000, 20 * within) * options.scale), rates, 10)
        found = {}
        for threshold, name in names.items():
            wanted = f"CONFIDENCE >= {threshold}" if threshold else ""
            task = Task(f"{PATTERN} WHERE {where} WITHIN {within} units {wanted} RETURN a.ts AS at", given=given)
            found[name] = _confidence_of(task, table, options.runs)
        curves.append(found)
        lines.append([f"{within:,}", *(f"{1e3 * own:.1f} ({own / whole:.0%})" for own, whole in found.values())])
    page.table(["W", *names.values()], lines)
    figure, (ax,) = new_figure(1)
    for name in names.values():
        ax.plot(range(len(curves)), [1e3 * found[name][0] for found in curves], "o-", label=name)
    ax.set(xlabel="W", ylabel="ms for confidence", yscale="log")
    ax.set_xticks(range(len(curves)), [f"{within:,}" for within in windows], fontsize=8)
    ax.legend(fontsize=8)
    put_figure(page, figure, "Time to compute confidence")
    page.write(packages=PACKAGES)


def _confidence_of(task: Task, table: pa.Table, runs: int) -> tuple[float, float]:
    """Medians of the seconds for confidence and of the query's, after a run that does not count."""
    with computed_twice():
        twice = _seconds_of(task, table, runs)
    once = _seconds_of(task, table, runs)
    return max(0.0, twice - once), once


def _seconds_of(task: Task, table: pa.Table, runs: int) -> float:
    several = []
    for _ in range(runs + 1):
        found = run(task, table)
        assert found is not None
        several.append(found.seconds)
    return median(several[1:])


def study(options: argparse.Namespace) -> None:
    """Figure 5 (h): the queries of the case study."""
    page = Report(f"{options.name}-study", "The case study: watching a compute cluster (Figure 5 h)")
    table = study_log(options.scale)
    page.text(
        f"{table.num_rows:,} events of `examples/cluster_monitoring.py`. " + HOW.format(runs=options.runs),
        f"The paper: 300,000 to over 7 million events/s for each query, and {A_NODE} events/s from each node.",
    )
    lines = []
    for name, (text, given) in study_queries().items():
        found = side_by_side(name, {name: Task(text, given=given)}, table, options.runs)[name]
        if found is None:
            lines.append([name, "—", "—", "—", "**not met**"])
            continue
        nodes = f"{found.rate / A_NODE:,.0f}"
        lines.append([name, f"{found.rate:,.0f}", f"{found.rows:,}", nodes, verdict(found.rate >= PAPERS_LEAST)])
    page.table(["query", "events/s of one core", "rows", "nodes that one core watches", "≥ 300,000 events/s"], lines)
    page.write(packages=PACKAGES)


def spark(options: argparse.Namespace) -> None:
    """The case study on Spark, from Parquet, against Spark's own sort of its rows."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    page = Report(f"{options.name}-spark", "The case study on Spark, against Spark's sort")
    logs = (study_log(options.scale, part) for part in range(10))
    directory = made_once(DATA / f"cluster-{options.scale:g}", logs, 1 << 18)
    session = local_session()
    events = session.read.parquet(str(directory))

    def sort() -> None:
        events.repartition("task_id").sortWithinPartitions("task_id", "ts").write.format("noop").mode(
            "overwrite"
        ).save()

    works = {SORT: sort}
    for name, (text, given) in study_queries().items():
        works[name] = partial(_match_on_spark, str(directory), text, given)
    taken = harness_side_by_side(works, options.runs)
    sorting = taken[SORT]
    page.text(f"{events.count():,} events in Parquet; matches to noop. local[2].")
    lines = [[name, str(one), f"{one.median / sorting.median:.2f}", f"{one.median_cores:.2f} s",
              f"{one.median_cores / sorting.median_cores:.2f}", "" if name == SORT else
              verdict(one.median <= 0.6 * sorting.median)] for name, one in taken.items()]  # fmt: skip
    page.table(["work", "time", "of the sort's", "seconds of cores", "of the sort's", "time ≤ 0.6"], lines)
    _put_stages(page, {name: planned(session, events, *query) for name, query in study_queries().items()}, taken)
    page.write(packages=(*PACKAGES, "pyspark"))
    session.stop()


def _put_stages(page: Report, batches: dict[str, Batch], taken: dict[str, Taken]) -> None:
    """Where the time goes: what workers do, in this process, with rows left out and with all of them."""
    page.heading("Where the time goes")
    page.text(
        "Seconds of one core, in one process with the functions that the workers run, measured directly: reading the "
        "columns from Parquet; leaving out rows that no class takes; packing (shards, grouping, narrowing, Arrow). "
        "Then, after the shuffle: unpacking, ordering by key and time, which variables an event qualifies for, "
        "matching, making rows. In Spark: all cores, with planning, tasks, pipes and the shuffle; the sum apart from "
        "that is what Spark takes beside the workers.",
    )
    for title, screened in (("As it is", True), ("With all rows", False)):
        lines = []
        for name, batch in batches.items():
            stages_of(batch, screened=screened)
            found = stages_of(batch, screened=screened)
            total = found.phases.total
            ours = [f"{taken[name].median_cores:.2f}", f"{taken[name].median_cores - total:.2f}"] if screened else []
            moved = [f"{found.moved:,}", f"{found.bytes / 1e6:,.0f} MB"]
            lines.append([name, *found.phases.shown(*STAGES), f"{total:.2f}", *ours, *moved, f"{found.matches:,}"])
        page.text(f"{title}:")
        spark = ["in Spark", "beside the workers"] if screened else []
        page.table(["query", *STAGES, "sum", *spark, "rows moved", "in envelopes", "rows out"], lines)


def _match_on_spark(path: str, text: str, given: Given) -> None:
    time = given.interval or given.time
    found = episode.match(path, text, time=time, type_column=given.type_column, granularity=given.granularity)
    found.write.format("noop").mode("overwrite").save()


def study_log(scale: float, part: int = 0) -> pa.Table:
    """About a million events; further parts are of other jobs and tasks, and later."""
    jobs = int(4_000 * scale)
    return cluster_monitoring.cluster_log(jobs, jobs_per_hour=600, seed=2014 + part, first_job=part * jobs).events


def study_queries() -> dict[str, tuple[str, Given]]:
    precise = Given(time="ts", type_column="type")
    vague = Given(interval=("lo", "hi"), type_column="type", granularity="1 second")
    study = cluster_monitoring
    plain = {"Q1": study.MAPPERS, "Q2": study.REDUCERS, "Q3": study.STRAGGLERS, "Q4": study.QUEUES, "Q6": study.RISING}
    found = {name: (text, precise) for name, text in plain.items()}
    return dict(sorted({**found, "Q5": (study.UNEVEN, vague)}.items()))


# ---- what the reports share ----------------------------------------------------------------------------


def _windows(windows: int, count: int) -> pa.Table:
    """Windows of one A, `count` times B and one C, one after the other."""
    kinds = np.tile(np.array(["A", *["B"] * count, "C"], object), windows)
    ts = pa.array(np.arange(len(kinds), dtype=np.int64))
    values = pa.array(np.random.default_rng(1).random(len(kinds)))
    return pa.Table.from_arrays([ts, ts, ts, pa.array(kinds, pa.string()), values], schema=SCHEMA)


def _value(found: dict[str, Result | None]) -> float:
    return max((one.value for one in found.values() if one is not None), default=math.nan)


def _factor(found: dict[str, Result | None]) -> float:
    runs = found.get(RUNS)
    others = [one.rate for name in (POSTPONED, FLY) if (one := found.get(name)) is not None]
    return max(others) / runs.rate if runs is not None and others else 0.0


def _four(found: dict[str, Result | None]) -> list[str]:
    return [shown_rate(found.get(name)) for name in (RUNS, POSTPONED, FLY, COLLAPSED)]


def _times(found: dict[str, Result | None]) -> str:
    return f"{_factor(found):,.1f} ×" if _factor(found) else "—"


def _page(options: argparse.Namespace, name: str, title: str, where: str) -> Report:
    page = Report(f"{options.name}-{name}", title)
    page.text(f"`{PATTERN}`, predicates: `{where}`", HOW.format(runs=options.runs))
    return page


def _plot(page: Report, curves: list[tuple[str, dict[str, Result | None]]], label: str) -> None:
    figure, (ax,) = new_figure(1)
    names = list(dict.fromkeys(name for _, found in curves for name in found))
    for name in names:
        speeds = [math.nan if found.get(name) is None else found[name].rate for _, found in curves]  # type: ignore[union-attr]
        ax.plot(range(len(curves)), speeds, "o-", label=name)
    ax.set(xlabel=label, ylabel="events/s", yscale="log")
    ax.set_xticks(range(len(curves)), [tick for tick, _ in curves], fontsize=8)
    ax.legend(fontsize=8)
    put_figure(page, figure, "Throughput")


EXPERIMENTS: Experiments = {
    "selectivity": selectivity,
    "window": window,
    "classes": classes,
    "breakdown": breakdown,
    "collapsed": collapsed,
    "aggregates": aggregates,
    "imprecise": imprecise,
    "confidence": confidence,
    "study": study,
    "spark": spark,
}


if __name__ == "__main__":
    run_experiments(EXPERIMENTS, "sase", __doc__)
