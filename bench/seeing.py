"""Looking at matches: how long one waits for a picture of a key with a million rows, and for an answer about it.

Parts by name: `python -m bench.seeing plot`. Each has the target of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import episode
from bench.harness import Report, local_session, say, verdict
from episode.queries.origins import origin_of
from episode.see.inspecting import patterns_at
from episode.see.studio import tables as gallery
from episode.see.studio.studio import open_studio
from episode.see.studio.views import check

PACKAGES = ("pyspark", "numpy", "pyarrow", "altair", "vl-convert-python")
TARGET = 3.0
"""Seconds for a picture."""
ANSWER_TARGET = 2.0
"""Seconds for an answer to `why_not`."""
CHECK_TARGET, CHECKS = 150, 21
"""Milliseconds for a check of the studio, and how often each example is checked."""

V_SHAPE = """
    SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts MEASURES STRT.ts AS began, LAST(UP.ts) AS ended
        PATTERN (STRT DOWN{3,} UP{3,})
        DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price))
"""
FALLS = """
    SELECT * FROM ticks MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts MEASURES A.ts AS began AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
        PATTERN (A B+) DEFINE B AS B.price < PREV(B.price))
"""
SEQUENCE = "PATTERN buy b; !cancel; sell+ s; buy e WHERE s.price > b.price WITHIN 30 seconds RETURN b.price"
SITUATIONS = """
    DEFINE high AS price > 101.5 AT LEAST 2 seconds, busy AS volume > 700
    PATTERN high overlaps busy; high contains busy WITHIN 1 minute RETURN max(high.price) AS highest
"""


def ticks(rows: int) -> pa.Table:
    """One symbol with most of the rows, a second apart, and a few of another."""
    draw = np.random.default_rng(7)
    price = 100 + np.cumsum(draw.choice([-0.02, -0.01, 0.0, 0.01, 0.02], rows)) * 0.2
    price = 100 + np.abs((price - 100) % 4 - 2)
    kinds = np.array(["buy", "sell", "cancel", "quote"])[draw.choice(4, rows, p=[0.02, 0.02, 0.02, 0.94])]
    many = pa.array(np.where(np.arange(rows) % 1_000 == 0, "BOLT", "ACME"))
    times = np.datetime64("2026-03-02T00:00:00", "us") + np.arange(rows) * np.timedelta64(1, "s")
    return pa.table(
        {
            "symbol": many,
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            "price": price.round(2),
            "volume": draw.integers(1, 1_000, rows),
            "type": pa.array(kinds),
        }
    )


def results(path: Path, spark: object) -> dict[str, object]:
    """A result of each language, over one file."""
    of = {"time": "ts", "key": "symbol", "spark": spark}
    return {
        "row pattern": episode.sql(V_SHAPE, spark=spark, ticks=str(path)),
        "row pattern, a match for every row of a fall": episode.sql(FALLS, spark=spark, ticks=str(path)),
        "event pattern": episode.match(str(path), SEQUENCE, type_column="type", **of),
        "situation pattern": episode.match(str(path), SITUATIONS, **of),
    }


def plot(page: Report, spark: object, rows: int, runs: int, folder: Path) -> None:
    """Pictures of one key, chosen by the caller; and of one that is chosen among all."""
    path = folder / "ticks.parquet"
    pq.write_table(ticks(rows), path)
    table, met = [], True
    for name, result in results(path, spark).items():
        count = result.count()
        for how, wish in (("key given", {"key": "ACME"}), ("key chosen", {})):
            waited, drawn = [], []
            for _ in range(runs + 1):
                begin = time.perf_counter()
                chart = episode.plot(result, **wish)
                chart.to_dict(validate=False)
                waited.append(time.perf_counter() - begin)
                chart.to_svg()
                drawn.append(time.perf_counter() - begin - waited[-1])
            first, (least, *_, most) = waited[0], sorted(waited[1:])
            say(f"{name}, {how}: {first:.2f} s, then {least:.2f} – {most:.2f} s; SVG {min(drawn):.2f} s")
            later = f"{sorted(waited[1:])[runs // 2]:.2f} s ({least:.2f} – {most:.2f})"
            table.append([name, f"{count:,}", how, f"{first:.2f} s", later, f"{min(drawn):.2f} s"])
            met = met and (how != "key given" or first < TARGET)
    page.heading("Pictures")
    page.text(
        f"A key with nearly {rows:,} rows in a Parquet file; its query has run before. `episode.plot` to the whole "
        f"specification: the first picture of a result, then {runs} more (median, least and greatest); then its "
        "drawing as SVG.",
        f"Target: under {TARGET:.0f} s for a picture of a key, the first one too: {verdict(met)}.",
    )
    page.table(["pattern", "matches", "", "first picture", "further ones", "as SVG"], table)


def why_not(page: Report, spark: object, rows: int, runs: int, folder: Path) -> None:
    """Why there is no match at one time, and in ten minutes, in the middle of a key."""
    path = folder / "ticks.parquet"
    pq.write_table(ticks(rows), path)
    middle = datetime(2026, 3, 2, tzinfo=timezone.utc) + timedelta(seconds=rows // 2 + 1)
    places = {"a row": {"at": middle}, "ten minutes": {"between": (middle, middle + timedelta(minutes=10))}}
    table, met = [], True
    for name, result in results(path, spark).items():
        for how, place in places.items():
            waited = []
            for _ in range(runs + 1):
                begin = time.perf_counter()
                answer = episode.why_not(result, of="ACME", **place)
                waited.append(time.perf_counter() - begin)
            read = _reading(result)
            first, (least, *_, most) = waited[0], sorted(waited[1:])
            say(f"{name}, {how}: {first:.2f} s, then {least:.2f} – {most:.2f} s; Spark's reading {read:.2f} s")
            later = f"{sorted(waited[1:])[runs // 2]:.2f} s ({least:.2f} – {most:.2f})"
            kinds = ", ".join(dict.fromkeys(finding.kind for finding in answer.findings))
            table.append([name, how, f"{first:.2f} s", later, f"{read:.2f} s", kinds])
            met = met and sorted(waited[1:])[runs // 2] < ANSWER_TARGET
    page.heading("Why is there no match?")
    page.text(
        f"A key with nearly {rows:,} rows in a Parquet file. `episode.why_not` to the answer, with the reading of the "
        f"rows by Spark: the first of a session, then {runs} more (median, least and greatest). For comparison, how "
        "long Spark takes to bring all rows of the key to the driver.",
        f"Target: under {ANSWER_TARGET:.0f} s for an answer, once Spark is warm: {verdict(met)}.",
    )
    page.table(["pattern", "asked for", "first answer", "further ones", "all rows of the key", "findings"], table)


def _reading(result: object) -> float:
    """Seconds for all rows of the key."""
    (pattern,) = patterns_at(origin_of(result).pattern())
    begin = time.perf_counter()
    pattern.rows(pattern.key_of("ACME"))
    return time.perf_counter() - begin


def checks(page: Report, spark: object, rows: int, runs: int, folder: Path) -> None:
    """What the studio does at every pause of somebody who types: an example with a word more in it each time."""
    studio = open_studio(spark, {}, folder)
    begin = time.perf_counter()
    studio.warm()
    warmed = time.perf_counter() - begin
    table, met = [], True
    for example in gallery.EXAMPLES:
        waited = []
        for number in range(CHECKS):
            found = check(studio.tables, f"{example.text} -- {number}")
            assert found["problem"] is None, found["problem"]["text"]
            waited.append(found["milliseconds"])
        least, median, most = (sorted(waited)[at] for at in (0, CHECKS // 2, -1))
        say(f"{example.name}: {median} ms ({least} – {most})")
        table.append([example.title, example.language, f"{median} ms", f"{least} – {most} ms"])
        met = met and median < CHECK_TARGET
    studio.close()
    page.heading("Checks while one types")
    page.text(
        f"Every example of the studio, parsed and planned over the sample tables, {CHECKS} times. Before that, as the "
        f"studio does when it starts, each was checked a few times, which took {warmed:.1f} s.",
        f"Target: under {CHECK_TARGET} ms, the median of each: {verdict(met)}.",
    )
    page.table(["example", "language", "median", "least and greatest"], table)


PARTS: dict[str, Callable[[Report, object, int, int, Path], None]] = {
    "plot": plot,
    "why_not": why_not,
    "checks": checks,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, if none is named")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--name", default="seeing", help="of the report")
    arguments = parser.parse_args()
    chosen = arguments.parts or list(PARTS)
    page = Report(arguments.name, "Looking at matches")
    with TemporaryDirectory() as folder:
        spark = local_session()
        for part in chosen:
            PARTS[part](page, spark, arguments.rows, arguments.runs, Path(folder))
        spark.stop()
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
