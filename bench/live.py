"""`make bench NAME=live`: live tasks, micro-batches and Flink: latency at three rates, and sustained throughput."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import episode
from bench.figures import new_figure, put_figure
from bench.harness import ROOT, Report, local_session, median, say, verdict
from bench.live_events import COLUMNS, KEYS, MICROSECONDS, TICK, Walks
from bench.live_flink import flink_latency, flink_throughput
from bench.stream import seconds as trigger_seconds
from episode.spark.startup.session import ROCKSDB, STATE_STORE
from episode.spark.stores.catalog import register
from episode.spark.stores.source import CATALOG

RATES = (1_000, 10_000, 100_000)
SECONDS, WARM = 30.0, 10.0
BACKLOG, COMMIT, RUNS = 20_000_000, 1_000_000, 3
FLINK_EVENTS = 500_000
MODES = ("pull", "push", "adaptive")
TARGET_RATE, MOST_MEDIAN, MOST_99 = 10_000, 20.0, 100.0
QUANTILES = (0.5, 0.9, 0.99, 1.0)
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
SPAN = 10 * MICROSECONDS
BEGIN = 1_700_000_000 * MICROSECONDS
QUERY = """\
SELECT * FROM Ticks MATCH_RECOGNIZE (
  PARTITION BY key
  MEASURES LAST(ts) AS match_end, A.price AS init_price, LAST(B.price) AS min_price, C.sent AS sent
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B{3,} C) WITHIN 1 minute
  DEFINE B AS price < PREV(price), C AS price >= PREV(price))"""
MATCHES = "key INT, match_end TIMESTAMP, init_price DOUBLE, min_price DOUBLE, sent BIGINT"


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the append of a match's last event to the match being read, and what the producer did."""

    contender: str
    rate: int
    millis: np.ndarray
    produced: float
    append: float

    def at(self, quantile: float) -> float:
        return float(np.quantile(self.millis, quantile)) if len(self.millis) else float("nan")


# ---- the surroundings of a query -----------------------------------------------------------------------


@contextmanager
def streams(delay: str = "0 seconds") -> Iterator[Path]:
    """A catalog of its own, with the stream of ticks and the stream of matches."""
    before = os.environ.get("EPISODE_CATALOG")
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as place:
        os.environ["EPISODE_CATALOG"] = str(Path(place) / "catalog")
        try:
            episode.streams.create("Ticks", COLUMNS, time="ts", key="key", delay=delay)
            episode.streams.create("Falls", MATCHES, time="match_end", key="key")
            yield Path(place)
        finally:
            if before is None:
                del os.environ["EPISODE_CATALOG"]
            else:
                os.environ["EPISODE_CATALOG"] = before


@contextmanager
def running(which: str, **arguments: Any) -> Iterator[None]:
    """A process of `bench.live_events`, until its file `stop` is there."""
    command = [sys.executable, "-m", "bench.live_events", which, json.dumps(arguments)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield
    finally:
        Path(arguments["stop"]).touch()
        if process.wait(60):
            raise SystemExit(f"bench.live_events {which} has failed")


def live_query(mode: str, tasks: int) -> Callable[[Any, Path], Any]:
    def start(spark: Any, place: Path) -> Any:
        return episode.start(QUERY, spark=spark, into="Falls", input=mode, tasks=tasks, checkpoint=place / "checkpoint")

    return start


def micro_batches(spark: Any, place: Path) -> Any:
    matches = episode.sql(QUERY, spark=spark)
    return _into_falls(matches, place / "checkpoint").start("Falls")


def _into_falls(matches: Any, checkpoint: Path) -> Any:
    writer = matches.writeStream.format("episode").option(CATALOG, os.environ["EPISODE_CATALOG"])
    return writer.option("checkpointLocation", str(checkpoint))


# ---- latency -------------------------------------------------------------------------------------------


def latency(
    spark: Any, contender: str, start: Callable[[Any, Path], Any], rate: int, warm: float, measured: float
) -> Latency:
    with streams() as place:
        catalog = os.environ["EPISODE_CATALOG"]
        query = start(spark, place)
        stop, made, found = (str(place / name) for name in ("stop", "made.npz", "found.npz"))
        try:
            with (
                running("follow", catalog=catalog, stream="Falls", stop=stop, report=found),
                running("produce", catalog=catalog, stream="Ticks", rate=rate, stop=stop, report=made),
            ):
                deadline = time.time() + 60
                while not episode.streams.count("Falls") and time.time() < deadline:
                    time.sleep(0.2)
                time.sleep(warm)
                begin = time.time()
                time.sleep(measured)
                end = time.time()
                _drain(int(end * MICROSECONDS))
        finally:
            query.stop()
        with np.load(found) as file:
            sent, read = file["sent"], file["read"]
        with np.load(made) as file:
            produced, append = float(file["events"]) / float(file["seconds"]), float(np.median(file["appends"]))
    inside = (sent >= begin * MICROSECONDS) & (sent < end * MICROSECONDS)
    result = Latency(contender, rate, (read[inside] - sent[inside]) / 1000, produced, append * 1000)
    said = ", ".join(f"{quantile:.0%} {result.at(quantile):.1f} ms" for quantile in QUANTILES)
    say(f"{contender}, {rate:,} events/s ({produced:,.0f}): {len(result.millis):,} matches, {said}")
    return result


def _drain(sent: int) -> None:
    """Wait until a match is out whose last event was sent after a moment; not for ever."""
    store = episode.streams.store_of("Falls")
    deadline = time.time() + 60
    while time.time() < deadline:
        head = store.head()
        if head and max(store.read(head - 1, head, columns=["sent"])[0].column("sent").to_pylist()) >= sent:
            return
        time.sleep(0.2)


# ---- throughput ----------------------------------------------------------------------------------------


def fill(events: int) -> None:
    """A backlog in the store: one commit for each second of a fast stream."""
    walks = Walks()
    for number in range(events // COMMIT):
        ts = BEGIN + number * SPAN + (np.arange(COMMIT) * (SPAN / COMMIT)).astype(np.int64)
        episode.streams.append("Ticks", walks.events(ts, 0))


def live_rate(spark: Any, place: Path, mode: str, tasks: int, events: int, number: int) -> float:
    """Events/s of a query over a backlog, from when its tasks have begun until they have all of it."""
    checkpoint, into = place / f"checkpoint-{mode}-{number}", f"Falls{mode}{number}"
    query = episode.start(QUERY, spark=spark, into=into, input=mode, tasks=tasks, checkpoint=checkpoint)
    samples: dict[int, list[tuple[float, int]]] = {}
    try:
        while True:
            last = query.lastProgress
            for task in [] if last is None else last["tasks"]:
                samples.setdefault(task["task"], []).append((time.time(), task["events"]))
            if samples and sum(sample[-1][1] for sample in samples.values()) >= events:
                break
            if not query.isActive:
                raise SystemExit(f"The query has ended: {query.exception()}")
            time.sleep(0.02)
    finally:
        query.stop()
    log = episode.streams.store_of(into).log
    return _slope(samples, log.path(log.head()).stat().st_mtime)


def _slope(samples: dict[int, list[tuple[float, int]]], last_match: float) -> float:
    """Events of all tasks since the first moment when all had begun, by the seconds until the last ones, and their
    matches."""
    changes = {
        task: [one for i, one in enumerate(some) if one[1] and (i == 0 or one[1] != some[i - 1][1])]
        for task, some in samples.items()
    }
    begin = max(some[0][0] for some in changes.values())
    end = max(last_match, *(some[-1][0] for some in changes.values()))
    done = sum(some[-1][1] - _at(some, begin) for some in changes.values())
    return done / (end - begin)


def _at(changes: Sequence[tuple[float, int]], moment: float) -> int:
    return max((events for when, events in changes if when <= moment), default=0)


def batch_rate(spark: Any, place: Path, events: int, number: int) -> float:
    """Events/s of micro-batches of a million events over a backlog, the first two left out."""
    reader = spark.readStream.format("episode").option(CATALOG, os.environ["EPISODE_CATALOG"])
    matches = episode.sql(QUERY, Ticks=reader.option("maxEventsPerTrigger", COMMIT).load("Ticks"))
    query = _into_falls(matches, place / f"batches-{number}").trigger(availableNow=True).start("Falls")
    query.awaitTermination()
    progress = [one for one in query.recentProgress if one.numInputRows > 0][2:]
    return COMMIT / median(trigger_seconds(progress))


def throughput(spark: Any, events: int, runs: int) -> dict[str, list[float]]:
    rates: dict[str, list[float]] = {"micro-batches": [], **{f"live tasks, {mode}": [] for mode in MODES}}
    with streams("1 second") as place:
        fill(events)
        for number in range(runs + 1):
            turn = {"micro-batches": batch_rate(spark, place, events, number)}
            for mode in MODES:
                turn[f"live tasks, {mode}"] = live_rate(spark, place, mode, 2, events, number)
            for name, rate in turn.items():
                say(f"{name}: {rate:,.0f} events/s{' (not counted)' if number == 0 else ''}")
                rates[name] += [rate] if number else []
    return rates


# ---- the report ----------------------------------------------------------------------------------------


def report_latency(page: Report, found: Sequence[Latency], measured: float) -> None:
    page.heading("Latency")
    page.text(
        f"One process appends to a stream of the embedded store every {TICK * 1000:.0f} ms, of {KEYS:,} keys, at a "
        "rate; another one follows the stream of matches. A match is a price fall, `A B{3,} C`, reported with its C. "
        "From just before the append of the C (which includes bringing it to the disk) to when the reader has the "
        f"match; {measured:.0f} s after warming up. DELAY 0 seconds. One live task; micro-batches run one after the "
        "other without a pause. Flink's events come over a socket, its matches by its print sink: nothing of "
        "it is on a disk. Where fewer events were produced than the rate says, the contender held the producer up; "
        "where there are no figures, no match of the time measured was out three seconds after it.",
    )
    page.table(
        ["contender", "events/s", "produced", "an append", "matches", *(f"{q:.0%} within" for q in QUANTILES)],
        [
            [
                one.contender,
                f"{one.rate:,}",
                f"{one.produced:,.0f}",
                f"{one.append:.1f} ms" if one.append else "",
                f"{len(one.millis):,}",
                *(f"{one.at(quantile):,.1f} ms" if len(one.millis) else "–" for quantile in QUANTILES),
            ]
            for one in found
        ],
    )
    aimed = [one for one in found if one.rate == TARGET_RATE and one.contender.startswith("live tasks")]
    page.table(
        [f"at {TARGET_RATE:,} events/s", "median", f"≤ {MOST_MEDIAN:.0f} ms", "99%", f"≤ {MOST_99:.0f} ms"],
        [
            [
                one.contender,
                f"{one.at(0.5):.1f} ms",
                verdict(one.at(0.5) <= MOST_MEDIAN),
                f"{one.at(0.99):.1f} ms",
                verdict(one.at(0.99) <= MOST_99),
            ]
            for one in aimed
        ],
    )


def report_throughput(page: Report, rates: dict[str, list[float]], flink: float | None, events: int) -> None:
    page.heading("Throughput")
    page.text(
        f"A backlog of {events:,} events in the store, in commits of {COMMIT:,}; matches go into a stream. Two live "
        "tasks, from when both have begun until all matches are out; micro-batches of a million events, without the "
        "first two. Medians, in turns in one session. Flink reads CSV files of the same events, fewer of them.",
    )
    base = median(rates["micro-batches"])
    lines = []
    for name, values in rates.items():
        rate = median(values)
        target = ["≥ 1×", verdict(rate >= base)] if name != "micro-batches" else ["", ""]
        span = f"{min(values):,.0f} – {max(values):,.0f}"
        lines.append([name, f"{rate:,.0f}", span, f"{rate / base:.2f}×", *target])
    if flink is not None:
        lines.append(["Flink", f"{flink:,.0f}", "", f"{flink / base:.3f}×", "", ""])
    page.table(["contender", "events/s", "least – greatest", "of micro-batches", "target", ""], lines)


def plot(page: Report, found: Sequence[Latency]) -> None:
    figure, panels = new_figure(len({one.rate for one in found}), width=4.2, height=3.6)
    for axes, rate in zip(panels, sorted({one.rate for one in found})):
        for one in found:
            if one.rate == rate and len(one.millis):
                axes.plot(np.sort(one.millis), np.linspace(0, 1, len(one.millis)), label=one.contender)
        axes.set(xscale="log", xlabel="milliseconds", ylabel="share of matches", title=f"{rate:,} events/s")
        axes.legend(fontsize=7)
    put_figure(page, figure, "Latency from append to the match being readable")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="live", help="of the report")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="measured at each rate")
    parser.add_argument("--warm", type=float, default=WARM, help="seconds before them")
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    parser.add_argument("--scale", type=float, default=1.0, help="of the backlog")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", choices=["latency", "throughput"], action="append")
    parser.add_argument("--without-flink", action="store_true")
    arguments = parser.parse_args()
    wanted = arguments.only or ["latency", "throughput"]
    spark = local_session()
    spark.conf.set(STATE_STORE, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sparkContext.setLogLevel("OFF")  # a stream that is stopped in the middle of a micro-batch says so at length
    register(spark)
    page = Report(arguments.name, "Live tasks: latency and throughput")
    page.text("Price falls (`A B{3,} C`, WITHIN 1 minute) of 1,000 keys, Spark on local[2].")
    if "latency" in wanted:
        contenders = {f"live tasks, {mode}": live_query(mode, 1) for mode in MODES} | {"micro-batches": micro_batches}
        found = [
            latency(spark, name, start, rate, arguments.warm, arguments.seconds)
            for rate in arguments.rates
            for name, start in contenders.items()
        ]
        if not arguments.without_flink:
            found += [
                Latency("Flink", rate, *flink_latency(rate, arguments.warm, arguments.seconds), 0.0)
                for rate in arguments.rates
            ]
        report_latency(page, sorted(found, key=lambda one: one.rate), arguments.seconds)
        plot(page, found)
    if "throughput" in wanted:
        events = max(5, round(BACKLOG * arguments.scale / COMMIT)) * COMMIT
        rates = throughput(spark, events, arguments.runs)
        flink = None
        if not arguments.without_flink:
            local = QUERY.replace("PARTITION BY key", "PARTITION BY key ORDER BY ts")
            flink = flink_throughput(max(50_000, round(FLINK_EVENTS * arguments.scale)), local)
        report_throughput(page, rates, flink, events)
    spark.stop()
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
