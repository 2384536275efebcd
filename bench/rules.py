"""`make bench NAME=rules`: 1, 10, 100 and 500 rules over one table, together and as separate queries.

1. Rules together: `episode.match_all`, from Parquet to noop, with the results of all rules as VARIANT.
2. Separate queries, one after the other in the same session: some of the 100 rules, each over the whole table; the time
   of all of them is extrapolated from these, and measured whole on a smaller table.
3. On a small table every rule gives what it gives alone.
4. Rules whose sequences begin alike, in process: the events of the common prefix found once, against each rule by
   itself; where that pays, and where the cost model should leave it.
1 to 3 in one Spark session on two cores.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from time import process_time
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import episode
from bench.harness import Report, Taken, local_session, say, seconds_of, verdict
from bench.payments import GIVEN, payments, rules, rules_that_begin_alike
from episode.matchers.events.prefixes import EventPrefix

ROWS, ACCOUNTS_PER_ROW = 20_000_000, 1_000
COUNTS = (1, 10, 100, 500)
AT_MOST_TIMES_ONE = 12
RUNS = {1: 3, 10: 2, 100: 2, 500: 1}
ALONE = 10
"""Rules that are also run alone over the whole table, of every shape."""
SMALL = 20
"""The smaller table has so many times fewer rows."""
ALIKE, ALIKE_ROWS, ALIKE_RUNS = 20, 1_000_000, 3
"""Rules that begin alike, and events of whole accounts that they are run over, in process."""
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")


def main() -> None:
    arguments = _arguments()
    spark = local_session()
    path = _table(arguments.rows)
    small_rows = max(100_000, arguments.rows // SMALL)
    small = _table(small_rows)
    say(f"the same matches on {small_rows:,} rows")
    checked = _compare(spark, small)
    say(f"{arguments.rows:,} rows")
    _together(spark, path, 10)  # the first run starts workers, and reads the files
    together: dict[int, Taken] = {}
    ones: list[float] = []
    for count in COUNTS:
        together[count] = Taken()
        for _ in range(RUNS[count]):
            wall, cores = seconds_of(lambda count=count: _together(spark, path, count))
            say(f"{count} rules: {wall:.2f} s, {cores:.2f} s of cores")
            together[count].wall.append(wall)
            together[count].cores.append(cores)
    alone = _alone(spark, path, _spread(rules(100), ALONE))
    ones = sorted(alone.wall)
    say(f"100 rules over {small_rows:,} rows, together and apart")
    small_together, _ = seconds_of(lambda: _together(spark, small, 100))
    small_apart = _alone(spark, small, rules(100))
    matches = _counted(spark, path, 100)
    alike = _alike(path, arguments.rows)
    plan = episode.match_all(str(path), rules(100), spark=spark, **GIVEN).explain()
    _report(
        arguments, together, ones, (small_rows, small_together, sum(small_apart.wall)), checked, matches, alike, plan
    )  # fmt: skip
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--name", default="rules", help="of the report")
    return parser.parse_args()


def _table(rows: int) -> Path:
    return payments(rows, max(10, rows // ACCOUNTS_PER_ROW))


def _together(spark: Any, path: Path, count: int) -> None:
    chosen = rules(count)
    given = GIVEN
    matches = episode.match_all(str(path), chosen, spark=spark, **given)
    matches.frame.write.format("noop").mode("overwrite").save()


def _alone(spark: Any, path: Path, chosen: dict[str, str]) -> Taken:
    """Each rule as a query of its own."""
    taken = Taken()
    for name, text in chosen.items():
        wall, cores = seconds_of(
            lambda text=text: _one(spark, path, text).write.format("noop").mode("overwrite").save()
        )
        say(f"{name} alone: {wall:.2f} s")
        taken.wall.append(wall)
        taken.cores.append(cores)
    return taken


def _one(spark: Any, path: Path, text: str) -> Any:
    given: dict[str, str] = {}
    if text.startswith("PATTERN"):
        given = GIVEN
    elif text.startswith("DEFINE"):
        given = {name: GIVEN[name] for name in ("time", "key")}
    return episode.match(str(path), text, spark=spark, **given)


def _spread(chosen: dict[str, str], count: int) -> dict[str, str]:
    """Some of the rules, of every shape."""
    names = list(chosen)
    step = len(names) // count
    return {names[at * step + at % step]: chosen[names[at * step + at % step]] for at in range(count)}


def _compare(spark: Any, path: Path) -> int:
    """How many matches 24 rules have; fails where one of them gives something else among the others than alone."""
    chosen = rules(24)
    matches = episode.match_all(str(path), chosen, spark=spark, **GIVEN).persist()
    total = 0
    for name, text in chosen.items():
        among, alone = (sorted(map(str, one.collect())) for one in (matches.of(name), _one(spark, path, text)))
        if among != alone:
            raise SystemExit(f"{name} gives {len(among):,} matches among others, and {len(alone):,} alone.")
        total += len(alone)
    matches.unpersist()
    return total


def _counted(spark: Any, path: Path, count: int) -> int:
    return episode.match_all(str(path), rules(count), spark=spark, **GIVEN).frame.count()


def _alike(path: Path, rows: int) -> list[tuple[str, str, str, str, str]]:
    """How long rules that begin alike take: as the cost model says, always and never with a shared prefix."""
    accounts = max(1, rows // ACCOUNTS_PER_ROW * ALIKE_ROWS // rows)
    table = ds.dataset(path).to_table(filter=pc.field("account") < accounts)
    lines = []
    for words, rare in (("frequent", False), ("rare", True)):
        chosen = rules_that_begin_alike(ALIKE, rare)
        ways = {
            "as the cost model says": EventPrefix.gain,
            "found once": lambda *_: 1.0,
            "each by itself": lambda *_: -1.0,
        }
        taken, counts = {}, set()
        for way, gain in ways.items():
            with patch.object(EventPrefix, "gain", gain):
                seconds = [_in_process(table, chosen) for _ in range(ALIKE_RUNS + 1)][1:]
            taken[way] = statistics.median(one for one, _ in seconds)
            counts |= {matches for _, matches in seconds}
            say(f"{words} thirds, {way}: {taken[way]:.2f} s")
        (matches,) = counts  # the same in every way
        lines.append((words, *(f"{taken[way]:.2f} s" for way in ways), f"{matches:,}"))
    return lines


def _in_process(table: pa.Table, chosen: dict[str, str]) -> tuple[float, int]:
    begin = process_time()
    found = episode.match_all_local(table, chosen, **GIVEN)
    return process_time() - begin, sum(found.counts.values())


def _report(
    arguments: argparse.Namespace,
    together: dict[int, Taken],
    ones: list[float],
    small: tuple[int, float, float],
    checked: int,
    matches: int,
    alike: list[tuple[str, str, str, str, str]],
    plan: str,
) -> None:
    one = together[1].median
    ratio = together[100].median / one
    small_rows, small_together, small_apart = small
    page = Report(arguments.name, "Many rules over one table")
    page.text(
        f"{arguments.rows:,} events of {arguments.rows // ACCOUNTS_PER_ROW:,} accounts in Parquet, in order of time: "
        "16 kinds of events, amounts, countries. Rules of six shapes take turns (sequences of two and three kinds with "
        "thresholds, with a negation; row patterns over amounts and kinds; situations), each with kinds, thresholds "
        f"and windows of its own. 100 rules have {matches:,} matches. From Parquet to noop, Spark on local[2]; medians "
        f"of {', '.join(f'{RUNS[count]} runs of {count}' for count in COUNTS)}; planning is included.",
        f"On {small_rows:,} rows, 24 rules were compared: each gives the same among the others as alone ({checked:,} "
        "matches).",
    )
    page.heading("Together")
    page.table(
        ["rules", "time", "of all cores", "of the time of one", "for each rule"],
        [
            [
                count,
                str(taken),
                f"{taken.median_cores:.1f} s",
                f"{taken.median / one:.1f}×",
                f"{taken.median / count:.2f} s",
            ]
            for count, taken in together.items()
        ],
    )
    met = verdict(ratio <= AT_MOST_TIMES_ONE)
    page.text(f"100 rules take {ratio:.1f} times the time of one; the target is at most {AT_MOST_TIMES_ONE}: {met}.")
    page.heading("As separate queries")
    mean = sum(ones) / len(ones)
    page.text(
        f"{len(ones)} of the 100 rules, of every shape, each over the whole table: {ones[0]:.2f} – {ones[-1]:.2f} s, "
        f"{mean:.2f} s on average. **Extrapolated** to 100 of them: {100 * mean:,.0f} s, "
        f"{100 * mean / together[100].median:.1f} times the time of the 100 rules together.",
        f"Measured, on {small_rows:,} rows: 100 separate queries take {small_apart:.1f} s, together "
        f"{small_together:.1f} s ({small_apart / small_together:.1f} times).",
    )
    page.heading("Rules that begin alike")
    page.text(
        f"{ALIKE} rules `SEQ(view, search, third)` with `first.amount > 100 * second.amount`, other thirds, "
        f"thresholds and windows of 10 to 20 minutes, over the events of some accounts, about {ALIKE_ROWS:,}, in "
        f"process, seconds of one core, medians of {ALIKE_RUNS} runs. *Found once*: events of the common prefix, for "
        "all rules; *each by itself*: not shared. Frequent thirds: views, logins and card payments; rare ones: failed "
        "logins, blocked cards and the like.",
    )
    page.table(["thirds", "as the cost model says", "found once", "each by itself", "matches"], alike)
    page.heading("What is shared")
    shown = [line for line in plan.splitlines() if not line.startswith("    ") or line.startswith("      (")]
    head = plan.splitlines()[: next((at for at, line in enumerate(plan.splitlines()) if line.startswith("  rule ")), 0)]
    page.text("`explain()` of 100 rules begins with:", "\n".join(["```", *(head or shown), "```"]))
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
