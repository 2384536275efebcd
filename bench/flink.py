"""`make bench NAME=flink`: the tick query through Flink SQL's MATCH_RECOGNIZE, and through episode on the same ticks.

PyFlink lives in an environment of its own, bench/.flink-venv, made here when it is not there. What Flink does not
support was changed in the query; episode runs the changed query too, and must find what Flink finds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

import episode
from bench.data_sets import DATA
from bench.harness import ROOT, Report, Taken, local_session, say, side_by_side, verdict
from bench.queries import TICK, select
from bench.ticks import sample, ticks

ROWS, KEYS, SAMPLE_KEYS, WARM_ROWS, BATCH_KEYS = 20_000_000, 1_000, 50, 20_000, 10
RUNS = 5
AT_LEAST_TIMES = 100
MOST_DIFFERING = 10_000
VERSION = "2.3.0"
ENVIRONMENT = Path(__file__).parent / ".flink-venv"
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
COLUMNS = ["symbol", "init_price", "max_price"]

TICK_WITH_END = TICK.replace("(A B+ C* D+)", "(A B+ C* D+ E)") + ",\n    E AS E.price <= PREV(E.price)"

CHANGES = (
    "The last variable may not be greedy: `E`, the first row that no longer rises, ends the match. So a rise that "
    "lasts to the end of the data is no match.",
    "`B+` before the optional `C*` may not be greedy: it is `B+?`. As no row fits two of B, C, D and E, the matches "
    "are the same.",
    "There is no `PREV`: the price before is a column of Flink's input, computed before the clock starts.",
    "Time attributes hold milliseconds at most; the ticks' times are whole milliseconds.",
    "Input and result are CSV, as PyFlink comes without Parquet. At Flink's speed that is no cost to speak of.",
)


@dataclass(frozen=True)
class FlinkRun:
    mode: str
    rows: int
    keys: int
    seconds: float
    matches: int
    differing: int

    @property
    def rate(self) -> float:
        return self.rows / self.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--sample-keys", type=int, default=SAMPLE_KEYS)
    parser.add_argument("--batch-keys", type=int, default=BATCH_KEYS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="flink", help="of the report")
    arguments = parser.parse_args()
    prepare()
    path = ticks(arguments.rows, KEYS)
    sample_path, small_path = sample(path, arguments.sample_keys), sample(path, arguments.batch_keys)
    spark = local_session()
    flink = [
        _flink(spark, "streaming", small_path, arguments.batch_keys),
        _flink(spark, "batch", small_path, arguments.batch_keys),
        _flink(spark, "streaming", sample_path, arguments.sample_keys),
    ]
    changed, out = select(TICK_WITH_END), str(DATA / "out-flink")

    def write(query: str, source: Path) -> None:
        episode.sql(query, ticks=str(source), spark=spark).write.mode("overwrite").parquet(out)

    taken = side_by_side(
        {
            "sample": lambda: write(changed, sample_path),
            "whole, changed": lambda: write(changed, path),
            "whole": lambda: write(select(TICK), path),
        },
        arguments.runs,
    )
    shutil.rmtree(out)
    spark.stop()
    _report(arguments, flink, taken)


# ---- Flink -----------------------------------------------------------------------------------------


def prepare() -> None:
    """PyFlink, installed when it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if (
        python.exists()
        and subprocess.run([python, "-c", "import pyflink.table"], check=False, capture_output=True).returncode == 0
    ):
        return
    say(f"installing PyFlink {VERSION} into {ENVIRONMENT.relative_to(ROOT)} (once, a minute or two)")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"apache-flink=={VERSION}"],
        check=True,
    )


def _flink(spark: Any, mode: str, path: Path, keys: int) -> FlinkRun:
    """One run after a short one that warms up; fails where episode finds other matches."""
    source, warm, output = (DATA / f"flink-{name}" for name in ("in.csv", "warm.csv", "out"))
    frame = _with_prices_before(path)
    frame.to_csv(source, header=False, index=False)
    frame.head(WARM_ROWS).to_csv(warm, header=False, index=False)
    wanted = {"mode": mode, "input": str(source), "warm": str(warm), "output": str(output)}
    command = [str(ENVIRONMENT / "bin" / "python"), str(Path(__file__).with_name("flink_job.py")), json.dumps(wanted)]
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=outside)
    seconds = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    found = _matches_in(output)
    differing = _differing(found, episode.sql(select(TICK_WITH_END), ticks=str(path), spark=spark).toPandas())
    for place in (source, warm):
        place.unlink()
    shutil.rmtree(output)
    say(f"Flink, {mode}: {len(frame):,} rows in {seconds:.1f} s, {len(found):,} matches, {differing} differ")
    return FlinkRun(mode, len(frame), keys, seconds, len(found), differing)


def _with_prices_before(path: Path) -> pandas.DataFrame:
    frame = pandas.read_parquet(path)
    frame["prev_price"] = frame.groupby("key")["price"].shift()
    frame["ts"] = frame["ts"].dt.tz_localize(None).dt.strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
    return frame


def _matches_in(output: Path) -> pandas.DataFrame:
    files = [file for file in output.rglob("*") if file.is_file() and file.stat().st_size]
    return pandas.concat([pandas.read_csv(file, header=None, names=COLUMNS) for file in files])


def _differing(flink: pandas.DataFrame, ours: pandas.DataFrame) -> int:
    """How many matches one has and the other has not. More than one in ten thousand are not the same query."""
    counted = []
    for frame in (flink, ours):
        frame = frame.astype({"symbol": "int64"})
        counted.append(frame.assign(repeat=frame.groupby(COLUMNS).cumcount()))
    both = counted[0].merge(counted[1], how="outer", on=[*COLUMNS, "repeat"], indicator=True)
    differing = int((both["_merge"] != "both").sum())
    if differing > len(ours) / MOST_DIFFERING:
        raise SystemExit(f"Flink finds {len(flink):,} matches, episode {len(ours):,}; {differing:,} of them differ.")
    return differing


# ---- the report ------------------------------------------------------------------------------------


def _report(arguments: argparse.Namespace, flink: list[FlinkRun], taken: dict[str, Taken]) -> None:
    rival = flink[-1]
    page = Report(arguments.name, "The tick query through PyFlink")
    page.text(
        f"`A B+ C* D+`, SKIP TO NEXT ROW, on the same ticks: {rival.rows:,} rows of {rival.keys} keys. Flink SQL from "
        f"PyFlink {VERSION}, parallelism 2, result written as CSV; one run after a short one in the same process that "
        f"warms up. episode on local[2], from Parquet to written Parquet, {arguments.runs} runs after a discarded "
        "one; median (least – greatest).",
        "The matches of both are compared one by one; the table says how many one has and the other has not. A "
        "difference of one is Flink's streaming mode missing a match, on rows in order and with distinct times per "
        "key; why is not known.",
    )
    page.table(
        ["Flink's mode", "rows", "keys", "matches", "differing", "time", "rows/s"],
        [
            [
                run.mode,
                f"{run.rows:,}",
                run.keys,
                f"{run.matches:,}",
                run.differing,
                f"{run.seconds:.1f} s",
                f"{run.rate:,.0f}",
            ]
            for run in flink
        ],
    )
    best = max(run.rate for run in flink)
    lines = []
    for title, name, rows in (
        ("the same sample, the changed query", "sample", rival.rows),
        ("all ticks, the changed query", "whole, changed", arguments.rows),
        ("all ticks, the query of the paper", "whole", arguments.rows),
    ):
        rate = rows / taken[name].median
        lines.append(
            [
                title,
                f"{rows:,}",
                taken[name],
                f"{rate:,.0f}",
                f"{rate / best:,.0f}×",
                f"≥ {AT_LEAST_TIMES}×",
                verdict(rate / best >= AT_LEAST_TIMES),
            ]
        )
    page.table(["episode on", "rows", "time", "rows/s", "of Flink's best rate", "target", ""], lines)
    page.text("A small sample bears the whole fixed cost of Spark's jobs.")
    page.heading("What had to change for Flink")
    page.text("\n".join(f"* {change}" for change in CHANGES))
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
