"""`make bench NAME=esper`: three queries through Esper, and through episode on the same events, both in one process.

Esper comes from Maven Central into bench/.esper; a program of ours (bench/peers/esper) feeds it events from memory, in
one thread. episode runs without Spark, over Arrow tables in memory. What Esper does not do alike was changed in the
query; episode runs the changed query, too, and must find what Esper finds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import episode
from bench import esper_queries
from bench.cars import CARS, SECONDS, aggressive_drivers, cars, thresholds
from bench.data_sets import DATA
from bench.flink import TICK_WITH_END
from bench.harness import Report, Taken, say, seconds_of
from bench.maven import taken_once
from bench.queries import select
from bench.stocks import stocks
from bench.ticks import ticks

VERSION = "9.0.0"
HERE = Path(__file__).parent
PARTS, PLACE = HERE / "peers" / "esper", HERE / ".esper"
TICKS, TRADES, REPORTS, KEYS = 5_000_000, 20_000, 5_000_000, 1_000
RUNS = 3
MEMORY_GB = 8
PACKAGES = ("pyarrow", "numpy", "llvmlite")
NAMES = ("IBM", "Sun", "Oracle")
QUERY_5 = "PATTERN IBM; Sun; Oracle WITHIN 200 units RETURN IBM.id AS id"

CHANGES = (
    "The tick query: Esper reports a match as soon as the pattern fits and does not wait for a longer one, so a greedy "
    "quantifier at the end does not take all it could. As with Flink, `E`, the first row that no longer rises, ends "
    "the match, for both.",
    "Esper's SKIP TO NEXT ROW gives up attempts that began before the first row of a match and still run; that of SQL "
    "does not. What SQL means is `all matches after match skip to current row`.",
    "Query 5: Esper's `timer:within` ends a pattern at its time; 201 units there are `WITHIN 200 units` here.",
    "Aggressive drivers: EPL has no situations and no relations of intervals between them as a pattern. Each kind of "
    "situation is derived by `match_recognize` into a stream of its own, and three windows of five minutes are joined "
    "by comparisons of their ends. So a match is reported when its last situation has ended (`detect='complete'`), "
    "not at the earliest moment.",
    "Esper takes events in order of arrival; there is no ORDER BY. All events here are in order of time.",
)


@dataclass(frozen=True)
class Question:
    """A query on both sides. columns: the events as numbers, ts in milliseconds. ours: all matches, as a table.
    compared: columns that are compared match by match; none: the number is."""

    name: str
    kind: str
    epl: str
    rows: int
    columns: dict[str, np.ndarray]
    ours: Callable[[], pa.Table]
    compared: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    matches: int
    esper: Taken
    episode: Taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--trades", type=int, default=TRADES)
    parser.add_argument("--reports", type=int, default=REPORTS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="esper", help="of the report")
    arguments = parser.parse_args()
    prepare()
    questions = (_tick(arguments.ticks), _trades(arguments.trades), _drivers(arguments.reports))
    _report(arguments, {one.name: (one, _ask(one, arguments.runs)) for one in questions})


def prepare() -> None:
    """Esper and the program that feeds it, when they are not there."""
    sources = "".join(file.read_text() for file in sorted(PARTS.rglob("*.*")) if file.is_file())
    place = f"-Dbuild.place={PLACE}/build"
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={PLACE}/lib"]
    taken_once(PLACE, sources, (["compile", place], [*copy, place]), PARTS)


# ---- the questions -----------------------------------------------------------------------------------------


def _tick(rows: int) -> Question:
    table = pq.read_table(ticks(rows, KEYS))
    columns = {
        "key": table.column("key").to_numpy(),
        "ts": table.column("ts").cast(pa.int64()).to_numpy() // 1_000,
        "price": table.column("price").to_numpy(),
    }
    query = select(TICK_WITH_END)
    compared = ("symbol", "init_price", "max_price")
    return Question(
        "tick", "tick", esper_queries.TICK, rows, columns, lambda: episode.sql_local(query, ticks=table), compared
    )


def _trades(rows: int) -> Question:
    table = stocks(rows, dict.fromkeys(NAMES, 1.0))
    code = np.array([NAMES.index(name) for name in table.column("name").to_pylist()], np.int32)
    columns = {"name": code, "ts": table.column("ts").to_numpy()}

    def ours() -> pa.Table:
        return episode.match_local(table, QUERY_5, time="ts", type_column="name")

    return Question("ZStream's Query 5", "trade", esper_queries.QUERY_5, rows, columns, ours, ())


def _drivers(rows: int) -> Question:
    table = pa.concat_tables(cars(rows)).combine_chunks()
    limits = thresholds(next(cars(CARS * SECONDS)))
    query = aggressive_drivers(limits)
    columns = {
        "car_id": table.column("car_id").to_numpy(),
        "ts": table.column("ts").cast(pa.int64()).to_numpy() // 1_000,
        "speed": table.column("speed").to_numpy(),
        "accel": table.column("accel").to_numpy(),
    }

    def ours() -> pa.Table:
        return episode.match_local(table, query, time="ts", key="car_id", detect="complete")

    epl = esper_queries.aggressive_drivers(limits)
    return Question("aggressive drivers", "report", epl, rows, columns, ours, ("id", "avg_speed"))


# ---- asking ------------------------------------------------------------------------------------------------


def _ask(question: Question, runs: int) -> Outcome:
    """Both sides, one after the other; fails where they find other matches."""
    say(f"{question.name}: {question.rows:,} events")
    place = DATA / "esper"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name, values in question.columns.items():
        np.ascontiguousarray(values).tofile(place / name)
    (place / "query.epl").write_text(question.epl)
    home = os.environ.get("JAVA_HOME")
    command = [
        f"{home}/bin/java" if home else "java",
        f"-Xmx{MEMORY_GB}G",
        "-cp",
        f"{PLACE}/build/classes:{PLACE}/lib/*",
    ]
    arguments = [question.kind, str(place / "query.epl"), str(place), str(question.rows // 5), str(runs)]
    done = subprocess.run([*command, "episode.bench.Feed", *arguments], stdout=subprocess.PIPE, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    theirs = Taken([float(seconds) for seconds, _ in lines])
    counts = {int(count) for _, count in lines}
    found = question.ours()
    if counts != {found.num_rows}:
        raise SystemExit(f"{question.name}: Esper finds {counts} matches, episode {found.num_rows:,}")
    _same(question, found, place / "matches")
    ours = Taken()
    for _ in range(runs):
        wall, cores = seconds_of(question.ours)
        ours.wall.append(wall)
        ours.cores.append(cores)
    shutil.rmtree(place)
    say(f"{question.name}: {found.num_rows:,} matches, Esper {theirs}, episode {ours}")
    return Outcome(found.num_rows, theirs, ours)


def _same(question: Question, found: pa.Table, file: Path) -> None:
    """Fails where the values of the matches differ, but for the rounding of averages."""
    if not question.compared:
        return
    theirs = np.fromfile(file, ">f8").astype("f8").reshape(-1, len(question.compared))
    ours = np.stack([found.column(name).to_numpy().astype("f8") for name in question.compared], axis=1)
    if not np.allclose(_in_order(theirs), _in_order(ours), rtol=1e-9, atol=0):
        raise SystemExit(f"{question.name}: the values of the matches differ")


def _in_order(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]


# ---- the report --------------------------------------------------------------------------------------------


def _report(arguments: argparse.Namespace, found: dict[str, tuple[Question, Outcome]]) -> None:
    page = Report(arguments.name, "Three queries through Esper")
    page.text(
        f"Esper {VERSION}, events from memory, fed in one thread, {MEMORY_GB} GB of heap, after a run over a fifth of "
        "the events that warms up. episode in one process without Spark (`sql_local`, `match_local`), from Arrow "
        "tables in memory to Arrow tables, after a run that is not counted. "
        f"{arguments.runs} runs each; median (least – greatest). The numbers of matches are equal, and where a match "
        "has values, they are compared match by match.",
    )
    lines = []
    for name, (question, one) in found.items():
        for title, taken in (("Esper", one.esper), ("episode", one.episode)):
            lines.append(
                [
                    name,
                    f"{question.rows:,}",
                    f"{one.matches:,}",
                    title,
                    taken,
                    f"{question.rows / taken.median:,.0f}",
                    f"{one.esper.median / taken.median:.1f}×",
                ]
            )
    page.table(["query", "events", "matches", "", "time", "events/s", "of Esper's rate"], lines)
    page.text(
        "Esper handles every event as it comes, and is made for that: it answers before it takes the next one. episode "
        "takes the events of a call or of a micro-batch together."
    )
    page.heading("What had to change for Esper")
    page.text("\n".join(f"* {change}" for change in CHANGES))
    page.heading("The queries in EPL")
    for name, (question, _) in found.items():
        page.text(f"{name[0].upper()}{name[1:]}:", f"```sql\n{question.epl.strip()}\n```")
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
