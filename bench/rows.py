"""`make bench NAME=rows`: the tick query from Parquet to a written result, against plain Spark and plain PySpark.

1. Spark alone brings the rows together and in order: `repartition(key).sortWithinPartitions(key, ts)`, to noop.
2. Plain PySpark matches them: `groupBy(key).applyInPandas`, written as Parquet like episode's result.
All in one Spark session on two cores, in turns.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import episode
from bench import plain
from bench.data_sets import DATA
from bench.harness import Report, Taken, local_session, say, seconds_of, side_by_side, verdict
from bench.queries import TICK, TICK_MAXIMAL, select
from bench.ticks import sample, ticks

ROWS, KEYS, SAMPLE_KEYS = 20_000_000, 1_000, 100
AT_MOST_OF_SORT = 0.35
AT_LEAST_TIMES_PLAIN = 20
RUNS, PLAIN_RUNS = 5, 3
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite", "pandas")


def main() -> None:
    arguments = _arguments()
    spark = local_session()
    path = ticks(arguments.rows, arguments.keys)
    sample_path = sample(path, arguments.sample_keys)
    sample_rows = spark.read.parquet(str(sample_path)).count()
    out = str(DATA / "out-rows")

    def write(frame: Any) -> None:
        frame.write.mode("overwrite").parquet(out)

    def to_noop(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    say(f"the same matches on {sample_rows:,} rows")
    sample_matches = _compare(spark, sample_path)
    say(f"{arguments.rows:,} rows, {arguments.keys:,} keys")
    whole = side_by_side(
        {
            "sort": lambda: to_noop(spark.read.parquet(str(path)).repartition("key").sortWithinPartitions("key", "ts")),
            "episode": lambda: write(_matched(spark, path)),
            "noop": lambda: to_noop(_matched(spark, path)),
            "maximal": lambda: write(_matched(spark, path, TICK_MAXIMAL)),
        },
        arguments.runs,
    )
    one_run = _stages(spark, lambda: write(_matched(spark, path)))
    matches = spark.read.parquet(out).count()
    say(f"a sample of {arguments.sample_keys} keys, {sample_rows:,} rows")
    ticks_of_sample = spark.read.parquet(str(sample_path))
    few = side_by_side(
        {
            "conditions": lambda: write(plain.frame_by_conditions(ticks_of_sample)),
            "hand": lambda: write(plain.frame_by_hand(ticks_of_sample)),
            "episode": lambda: write(_matched(spark, sample_path)),
        },
        arguments.plain_runs,
    )
    _report(arguments, Results(whole, few, sample_rows, sample_matches, matches, one_run, _scan(spark, path)))
    spark.stop()
    shutil.rmtree(out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--sample-keys", type=int, default=SAMPLE_KEYS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--plain-runs", type=int, default=PLAIN_RUNS)
    parser.add_argument("--name", default="rows", help="of the report")
    return parser.parse_args()


def _matched(spark: Any, path: Path, clause: str = TICK) -> Any:
    return episode.sql(select(clause), ticks=str(path), spark=spark)


def _scan(spark: Any, path: Path) -> str:
    """How episode reads the ticks, in its own words."""
    text = episode.explain(select(TICK), ticks=str(path), spark=spark)
    return next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("scan:"))


def _compare(spark: Any, path: Path) -> int:
    """How many matches there are; fails where the solutions differ."""
    frames = {
        "episode": _matched(spark, path),
        "maximal": _matched(spark, path, TICK_MAXIMAL),
        "conditions": plain.frame_by_conditions(spark.read.parquet(str(path))),
        "hand": plain.frame_by_hand(spark.read.parquet(str(path))),
    }
    columns = ["symbol", "init_price", "max_price"]
    found = {name: frame.toPandas().sort_values(columns, ignore_index=True) for name, frame in frames.items()}
    for name, matches in found.items():
        if not matches.astype(found["hand"].dtypes).equals(found["hand"]):
            raise SystemExit(
                f"{name} finds {len(matches):,} matches; by hand there are {len(found['hand']):,}, or they differ."
            )
    return len(found["hand"])


@dataclass(frozen=True)
class Stage:
    """One stage of a Spark job. wall: seconds from its submission to its end."""

    wall: float
    tasks: int
    read: int
    written: int

    @property
    def part(self) -> str:
        if self.written:
            return "scan and pack (with writing the shuffle)"
        return "match (with reading the shuffle, and writing the result)" if self.read else "Spark reads the schema"


def _stages(spark: Any, work: Any) -> tuple[float, list[Stage]]:
    """Seconds of a run, and its stages from Spark's own records."""
    store = spark.sparkContext._jsc.sc().statusStore()
    before = store.jobsList(None).size()
    seconds, _ = seconds_of(work)
    jobs = store.jobsList(None)
    newest_first = [jobs.apply(index) for index in range(jobs.size() - before)]
    stages = []
    for job in reversed(newest_first):
        for number in job.stageIds().mkString(",").split(","):
            stage = store.lastStageAttempt(int(number))
            if str(stage.status()) == "COMPLETE":
                wall = (stage.completionTime().get().getTime() - stage.submissionTime().get().getTime()) / 1000
                stages.append(Stage(wall, stage.numTasks(), stage.shuffleReadBytes(), stage.shuffleWriteBytes()))
    return seconds, stages


@dataclass(frozen=True)
class Results:
    """All that was measured."""

    whole: dict[str, Taken]
    few: dict[str, Taken]
    sample_rows: int
    sample_matches: int
    matches: int
    one_run: tuple[float, list[Stage]]
    scan: str


def _report(arguments: argparse.Namespace, found: Results) -> None:
    rows = arguments.rows
    times = {name: taken.median for name, taken in found.whole.items()}
    page = Report(arguments.name, "The tick query against plain Spark")
    page.text(
        f"{rows:,} ticks of {arguments.keys:,} keys in Parquet, in order of time. `A B+ C* D+` of the PCQ paper's "
        f"Figure 2, AFTER MATCH SKIP TO NEXT ROW, ONE ROW PER MATCH with three measures: {found.matches:,} matches. "
        f"Spark on local[2]; one discarded run each, then in turns, {arguments.runs} runs (the sample: "
        f"{arguments.plain_runs}); median (least – greatest).",
        f"episode's scan: {found.scan}.",
    )
    page.heading("Against Spark's sort")
    ratio = times["episode"] / times["sort"]
    page.table(
        ["from Parquet", "time", "of all cores", "rows/s", "of the sort's time", "target", ""],
        [
            [
                "Spark: `repartition(key).sortWithinPartitions(key, ts)` to noop",
                *_time(found.whole["sort"], rows),
                "1",
                "",
                "",
            ],
            [
                "episode, to written Parquet",
                *_time(found.whole["episode"], rows),
                f"{ratio:.2f}",
                f"≤ {AT_MOST_OF_SORT}",
                verdict(ratio <= AT_MOST_OF_SORT),
            ],
            ["episode, to noop", *_time(found.whole["noop"], rows), f"{times['noop'] / times['sort']:.2f}", "", ""],
            [
                "episode, MAXIMAL MATCH as the paper prints it, to written Parquet",
                *_time(found.whole["maximal"], rows),
                f"{times['maximal'] / times['sort']:.2f}",
                "",
                "",
            ],
        ],
    )
    page.heading("Against plain PySpark")
    page.text(
        f"`groupBy(key).applyInPandas` on a sample of {arguments.sample_keys:,} keys, {found.sample_rows:,} rows, to "
        f"written Parquet. On this sample all solutions give the same {found.sample_matches:,} matches. The ratio "
        "compares times for each row: the sample's there, all ticks' here; a small sample bears the whole fixed "
        "cost of Spark's jobs.",
    )
    per_row = times["episode"] / rows
    lines = []
    for name, title in (
        ("conditions", "the conditions as functions (straightforward)"),
        ("hand", "unrolled by hand over a list of prices"),
    ):
        times_slower = found.few[name].median / found.sample_rows / per_row
        lines.append(
            [
                f"plain Python, {title}",
                *_time(found.few[name], found.sample_rows),
                f"{times_slower:.1f}×",
                f"≥ {AT_LEAST_TIMES_PLAIN}×",
                verdict(times_slower >= AT_LEAST_TIMES_PLAIN),
            ]
        )
    sample_ratio = found.few["episode"].median / found.sample_rows / per_row
    lines.append(
        ["episode on the sample", *_time(found.few["episode"], found.sample_rows), f"{sample_ratio:.1f}×", "", ""]
    )
    page.table(["solution", "time", "of all cores", "rows/s", "time for each row, of episode's", "target", ""], lines)
    page.heading("Where episode's time goes")
    seconds, stages = found.one_run
    rest = seconds - sum(stage.wall for stage in stages)
    page.table(
        ["part of one run", "seconds", "tasks", "shuffled"],
        [
            *(
                [stage.part, f"{stage.wall:.2f}", stage.tasks, f"{max(stage.read, stage.written) / 2**20:,.0f} MiB"]
                for stage in stages
            ),
            ["planning, starting and committing the jobs", f"{rest:.2f}", "", ""],
            ["all", f"{seconds:.2f}", "", ""],
        ],
    )
    write = times["episode"] - times["noop"]
    page.text(
        f"Writing the result as Parquet rather than to noop takes {write:.2f} s of it. `kernel.md` has the parts of "
        "matching itself."
    )
    page.write(packages=PACKAGES)


def _time(taken: Taken, rows: int) -> tuple[str, str, str]:
    return str(taken), f"{taken.median_cores:.1f} s", f"{rows / taken.median:,.0f}"


if __name__ == "__main__":
    main()
