"""Statements of clients of Spark's JVM: what the parser extension costs others, and how long episode's take to plan.

A session of this process with the jar is the client: `spark.sql` goes through the parser of the JVM and its planner,
`episode.sql` plans here, over the same session.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import episode
from bench.harness import Report, say, verdict
from episode.clients.jar import EXTENSION, JAR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("pyspark", "py4j", "llvmlite", "pyarrow")
UNTOUCHED, FIRST, LATER = 1.0, 5.0, 0.1
"""Targets: milliseconds more of a statement without clauses; seconds of the first planned statement; seconds more than
`episode.sql` of later ones."""

ROWS = "SELECT id % 10 AS k, id AS ts, hash(id) % 100 AS v FROM range(10000)"
QUERY = """
    SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts MEASURES first(A.v) AS top, last(B.v) AS bottom
        PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)) WHERE top > 5
"""
COLUMNS = ", ".join(f"if(pattern LIKE 'a{at}%', {at}, x) AS c{at}" for at in range(300))
PLAIN = {
    "short": "SELECT a, b FROM t WHERE a > 5",
    "long (16 KB), with the word pattern": f"SELECT {COLUMNS} FROM t /* no MATCH_RECOGNIZE here */",
}


def session() -> SparkSession:
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": str(JAR),
        "spark.sql.extensions": EXTENSION,
        "spark.episode.python": sys.executable,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sql(f"CREATE TEMP VIEW t AS {ROWS}").collect()
    return found


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def milliseconds_of_parsers(spark: SparkSession, text: str, runs: int) -> tuple[float, float]:
    """The median of Spark's parser alone, and of the one with the extension, in turns."""
    own: Any = spark._jsparkSession.sessionState().sqlParser()
    sparks: Any = spark._jvm.org.apache.spark.sql.execution.SparkSqlParser()
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(runs):
        taken[0].append(seconds(lambda: sparks.parsePlan(text)))
        taken[1].append(seconds(lambda: own.parsePlan(text)))
    return statistics.median(taken[0]) * 1e3, statistics.median(taken[1]) * 1e3


def first_statement() -> None:
    """Print the seconds of the first planned statement of a session that is up."""
    spark = session()
    say(f"planned {seconds(lambda: spark.sql(QUERY)):.3f}")
    spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["first"], help="the first statement alone, in this process")
    parser.add_argument("--runs", type=int, default=5, help="processes; the other measurements have ten times as many")
    parser.add_argument("--name", default="jvm-clients", help="of the report")
    arguments = parser.parse_args()
    if arguments.part == "first":
        first_statement()
        return
    first = [_first_of_a_process() for _ in range(arguments.runs)]
    spark = session()
    rows, untouched = [], 0.0
    for name, text in PLAIN.items():
        alone, extended = milliseconds_of_parsers(spark, text, 100 * arguments.runs)
        say(f"{name}: {alone:.3f} ms, {extended:.3f} ms")
        rows.append([f"without clauses, {name}", f"{alone:.2f} ms", f"{extended:.2f} ms", f"{extended - alone:.3f} ms"])
        untouched = max(untouched, extended - alone)
    spark.sql(QUERY)
    here, there = [], []
    for _ in range(10 * arguments.runs):
        here.append(seconds(lambda: episode.sql(QUERY, spark=spark)))
        there.append(seconds(lambda: spark.sql(QUERY)))
    direct, planned = statistics.median(here), statistics.median(there)
    say(f"later: {direct:.3f} s, {planned:.3f} s; first: {first}")
    rows.append(
        ["with a clause, later ones", f"{direct * 1e3:.0f} ms", f"{planned * 1e3:.0f} ms", _more(planned - direct)]
    )
    page = Report(arguments.name, "Statements of clients of Spark's JVM")
    page.text(
        "Parsing statements without episode's clauses, by Spark's parser and by the one with the extension (both by "
        "py4j), and planning one with a clause, by `episode.sql` and by `spark.sql` through the planner; medians.",
        f"The first planned statement of a session, with the start of the planner: {statistics.median(first):.1f} s "
        f"(from {min(first):.1f} to {max(first):.1f} s).",
        f"Targets: less than {UNTOUCHED:.0f} ms more for statements without clauses: {verdict(untouched < UNTOUCHED)}; "
        f"the first one under {FIRST:.0f} s: {verdict(statistics.median(first) < FIRST)}; later ones within {LATER} s "
        f"of `episode.sql`: {verdict(planned - direct < LATER)}.",
    )
    page.table(["statement", "Spark, or `episode.sql`", "with the extension", "more"], rows)
    page.write(packages=PACKAGES)


def _more(difference: float) -> str:
    return f"{difference * 1e3:.0f} ms"


def _first_of_a_process() -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.jvm_clients", "first"], capture_output=True, text=True, check=True
    )
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "planned " in line]
    return float(line.rpartition(" ")[2])


if __name__ == "__main__":
    main()
