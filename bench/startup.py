"""The seconds before the first row: loading, the first and the second small query of a process.

Every run is a process of its own, with a session that episode starts (its workers are forked from a daemon that has
everything loaded), and in a session of one's own (Spark's defaults). Python keeps bytecode, as `pip install` writes it,
even where this process does not. The least of several runs is reported: all others were disturbed by something.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.harness import Report, busy_seconds, say

PACKAGES = ("pyspark", "llvmlite", "numpy", "pyarrow", "pandas")
QUERIES = {
    "row pattern": """
        SELECT * FROM t MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY ts MEASURES A.ts AS begins, LAST(UP.ts) AS ends, A.v - LAST(DOWN.v) AS fall
            PATTERN (A DOWN+ UP+) DEFINE DOWN AS DOWN.v < PREV(DOWN.v), UP AS UP.v > PREV(UP.v))""",
    "event pattern": """
        FROM t PARTITION BY k ORDER BY ts TYPE BY type PATTERN A; !B; C WHERE A.v < C.v WITHIN 20 seconds
        RETURN A.ts AS a, C.ts AS c""",
}
ROWS = 10_000
SESSIONS = {"episode": "episode", "own": "own session"}
"""Kinds of sessions, and how they are called in the report."""

PHASES = ("import episode", "session", "plan 1", "run 1", "plan 2", "run 2", "plan 3", "run 3")


# ---- one process ----------------------------------------------------------------------------------------


def one_process(kind: str, query: str, path: str) -> dict[str, float]:
    """Seconds of each phase, and the jobs, stages and tasks of each query."""
    taken: dict[str, float] = {}
    at, busy = time.perf_counter(), busy_seconds()

    def end(phase: str) -> None:
        nonlocal at, busy
        taken[phase], taken[f"cores {phase}"] = time.perf_counter() - at, busy_seconds() - busy
        at, busy = time.perf_counter(), busy_seconds()

    import episode

    end("import episode")
    if kind == "own":
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    else:
        from episode.spark.startup.session import session

        spark = session(None)
    end("session")
    context = spark.sparkContext
    for number in (1, 2, 3):
        context.setJobGroup(f"query {number}", "")
        frame = episode.sql(query, t=path)
        end(f"plan {number}")
        frame.toArrow()
        end(f"run {number}")
        tracker = context.statusTracker()
        jobs = tracker.getJobIdsForGroup(f"query {number}")
        stages = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
        infos = [info for info in map(tracker.getStageInfo, stages) if info is not None]
        taken |= {f"jobs {number}": len(jobs), f"stages {number}": len(stages)}
        taken[f"tasks {number}"] = sum(info.numTasks for info in infos)
        at, busy = time.perf_counter(), busy_seconds()
    return taken


def events(path: Path) -> None:
    """A small Parquet file."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(7)
    times = pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us", "UTC"))
    kinds = pa.array(np.array(["A", "B", "C", "D"])[draw.integers(0, 4, ROWS)])
    keys = pa.array([f"k{key}" for key in draw.integers(0, 10, ROWS)])
    pq.write_table(pa.table({"k": keys, "ts": times, "v": draw.random(ROWS), "type": kinds}), path)


# ---- all processes ---------------------------------------------------------------------------------------


def measured(kind: str, query: str, path: Path, runs: int, environment: dict[str, str]) -> dict[str, float]:
    """The least of several processes, phase by phase."""
    least: dict[str, float] = {}
    given = ["--one", kind, "--query", query, "--path", str(path)]
    command = [sys.executable, "-m", "bench.startup", *given]
    for _ in range(runs):
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        taken = json.loads(done.stdout.splitlines()[-1])
        say(f"{SESSIONS[kind]}, {query}: " + words(taken))
        least = {name: min(value, least.get(name, value)) for name, value in taken.items()}
    return least


def words(taken: dict[str, float]) -> str:
    return ", ".join(f"{phase} {taken[phase]:.2f} ({taken[f'cores {phase}']:.2f})" for phase in PHASES)


IMPORTS = {
    "Python alone": "",
    "pyspark's worker": "import pyspark.worker",
    "and pyarrow, NumPy": "import pyspark.worker, pyarrow, numpy",
    "and llvmlite": "import pyspark.worker, pyarrow, numpy, llvmlite.binding",
    "and row patterns": "import pyspark.worker, episode.spark.batch.runtime, episode.matchers.rows.spec",
    "and all languages": "import pyspark.worker, episode.spark.batch.runtime, episode.matchers.engines",
    "and the compiler (the daemon)": "from episode.spark import daemon; daemon.load()",
}


def with_bytecode(directory: str) -> dict[str, str]:
    """The environment of processes that keep bytecode, in this directory."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": directory}


def loaded(runs: int, environment: dict[str, str]) -> dict[str, float]:
    """Seconds that a Python process takes to load what a worker needs, step by step."""
    least: dict[str, float] = {}
    for _ in range(runs):
        for name, code in IMPORTS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            taken = time.perf_counter() - begin
            least[name] = min(taken, least.get(name, taken))
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--name", default="startup", help="of the report")
    parser.add_argument("--one", choices=list(SESSIONS), help=argparse.SUPPRESS)
    parser.add_argument("--query", choices=list(QUERIES), default="row pattern", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one_process(given.one, QUERIES[given.query], given.path)))
        return
    page = Report(given.name, "The seconds before the first row")
    load = os.getloadavg()[0]
    page.text(
        f"The least of {given.runs} runs, each in a process of its own; the load of the machine was {load:.1f} at the "
        f"beginning. Queries over a Parquet file of {ROWS:,} rows; Python with bytecode, code of queries kept."
    )
    with tempfile.TemporaryDirectory(prefix="episode-startup-") as directory:
        path = Path(directory) / "events.parquet"
        events(path)
        environment = with_bytecode(f"{directory}/bytecode")
        for kind in SESSIONS:  # which writes bytecode, and is not counted
            measured(kind, "event pattern", path, 1, environment)
        found = {
            (kind, query): measured(kind, query, path, given.runs, environment)
            for kind in SESSIONS
            for query in QUERIES
        }
        loading = loaded(given.runs, environment)
    heads = [f"{query}, {SESSIONS[kind]}" for kind, query in found]
    page.heading("The first queries of a process")
    page.table(["seconds", *heads], [[p, *(f"{one[p]:.2f}" for one in found.values())] for p in PHASES])
    page.text("Seconds of all cores together, in all processes, which depend less on what else the machine does:")
    page.table(["cores", *heads], [[p, *(f"{one[f'cores {p}']:.2f}" for one in found.values())] for p in PHASES])
    counts = [f"{what} {number}" for number in (1, 2) for what in ("jobs", "stages", "tasks")]
    page.table(["number of", *heads], [[c, *(f"{one[c]:.0f}" for one in found.values())] for c in counts])
    page.heading("What a worker loads")
    page.table(["", "seconds"], [[name, f"{taken:.2f}"] for name, taken in loading.items()])
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
