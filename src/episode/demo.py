"""`episode demo`: seven queries over the sample data, each with its first results and what they mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from episode import samples
from episode.terminal.quiet import quiet_spark
from episode.terminal.table import result_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FIRST_ROWS = 5
REPORTED = "v_shape"


@dataclass(frozen=True)
class Scene:
    """One query of the demo, and its result in plain words.

    `meaning` is filled with the number of matches `found`, the rows of `ticks` and `clicks`, and how many episodes of
    each shape were planted.
    """

    name: str
    title: str
    table: str
    meaning: str

    @property
    def query(self) -> str:
        return (files("episode") / "demo_queries" / f"{self.name}.sql").read_text(encoding="utf-8")


SCENES = (
    Scene(
        "price_fall",
        "Price falls, as they happen (INCREMENTAL MATCH)",
        "ticks",
        "{found:,} of the {ticks:,} ticks are lower than the one before. INCREMENTAL gives one match for each of them, "
        "at once, without waiting for the end of the fall: the longest fall that ends there. The longest come first; "
        "{fall} long falls were planted in the data.",
    ),
    Scene(
        "tick_shape",
        "Tick shapes: a fall, then a rise above where it began (MAXIMAL MATCH)",
        "ticks",
        "{found:,} ticks were followed by a fall and a recovery above their own price. MAXIMAL gives the longest match "
        "for each starting tick. Most are noise of a few cents; the {tick} planted ones rise well above their start "
        "and come first.",
    ),
    Scene(
        "recency",
        "Long falls, and the tick shapes of the half hour before them (RECENCY)",
        "ticks",
        "{found:,} times, a stock fell for twenty ticks on end that had fallen and risen to more than 1 % above where "
        "it began, within half an hour. Two patterns are joined by time here, in one pass over the ticks; over a "
        "stream and its archive, the second is looked for only where the first was found (docs/live-and-archive.md).",
    ),
    Scene(
        "v_shape",
        "V-shapes: at least eight falls, then at least eight rises",
        "ticks",
        "{found:,} V-shapes. Planted were {v} single ones and {w} W-shapes, each of which holds two.",
    ),
    Scene("w_shape", "W-shapes: two V-shapes in a row", "ticks", "{found:,} W-shapes; {w} were planted."),
    Scene(
        "sessions",
        "Sessions: clicks with no pause of more than half an hour",
        "clicks",
        "{clicks:,} clicks make {found:,} sessions; {session:,} were planted. The busiest come first.",
    ),
    Scene(
        "funnel",
        "Funnel: view, cart, checkout, purchase within half an hour (WITHIN)",
        "clicks",
        "{found:,} purchases were made within half an hour of the first look; {purchase:,} were planted. {slow:,} more "
        "took longer and {abandoned:,} stopped before paying: WITHIN leaves out the former, the pattern the latter. "
        "The fastest come first.",
    ),
)


def run(console: Console, directory: Path | None = None, report: Path | None = None) -> None:
    """Write the sample data, run every scene, and show its matches. report: path for the report of one scene."""
    if directory is None:
        with TemporaryDirectory(prefix="episode-demo-") as temporary:
            _run(console, samples.write(temporary), report)
    else:
        _run(console, samples.write(directory), report)
        console.print(Text(f"The data is in {directory}: try your own query with"))
        console.print(Text(f"  episode run QUERY.sql --table ticks={directory / 'ticks.parquet'}"), soft_wrap=True)


def _run(console: Console, data: samples.SampleFiles, report: Path | None) -> None:
    numbers = {"ticks": data.ticks.table.num_rows, "clicks": data.clicks.table.num_rows, **planted_counts(data)}
    summary = "Sample data: {ticks:,} stock ticks of one trading day, and one day of {clicks:,} clicks on a web shop."
    console.print(Text(summary.format(**numbers)))
    began = perf_counter()
    for number, scene in enumerate(SCENES, start=1):
        console.print()
        console.rule(Text(f"{number}. {scene.title}"), align="left")
        console.print(Padding(Syntax(scene.query.rstrip(), "sql", background_color="default"), (1, 0)))
        started = perf_counter()
        with console.status("Starting Spark" if number == 1 else "Running"):
            result = matches(scene, data)
        seconds = perf_counter() - started
        head = [column.to_pylist() for column in result.slice(0, FIRST_ROWS).columns]
        shown = [[f"{one:%H:%M:%S}" if isinstance(one, datetime) else one for one in row] for row in zip(*head)]
        console.print(result_table(result.column_names, shown))
        if result.num_rows > FIRST_ROWS:
            console.print(Text(f"… and {result.num_rows - FIRST_ROWS:,} rows more\n", style="dim"))
        console.print(Text(scene.meaning.format(found=result.num_rows, **numbers)))
        note = ", starting Spark included" if number == 1 else ""
        console.print(Text(f"{seconds:.1f} seconds{note}", style="dim"))
    console.print()
    console.rule()
    console.print(Text(f"Seven queries in {perf_counter() - began:.0f} seconds. Next: docs/tutorial.md"))
    if report is not None:
        with console.status("Writing a report"):
            written = write_report(data, report)
        words = f"A report on the V-shapes, one file for a browser and for colleagues: {written}"
        console.print(Text(words), soft_wrap=True)


def planted_counts(data: samples.SampleFiles) -> Counter[str]:
    """Number of episodes of each shape in the data."""
    return Counter(data.ticks.planted["shape"].to_pylist() + data.clicks.planted["shape"].to_pylist())


def matches(scene: Scene, data: samples.SampleFiles) -> pa.Table:
    """Run one scene's query."""
    return _result(scene, data).toArrow()


def write_report(data: samples.SampleFiles, path: Path) -> Path:
    """Write the report of one scene."""
    import episode

    scene = next(one for one in SCENES if one.name == REPORTED)
    path.parent.mkdir(parents=True, exist_ok=True)
    return episode.report(_result(scene, data), path, title="V-shapes in a day of stock prices", plots=4).resolve()


def _result(scene: Scene, data: samples.SampleFiles) -> DataFrame:
    import episode

    tables: dict[str, Any] = {scene.table: data.ticks_path if scene.table == "ticks" else data.clicks_path}
    with quiet_spark():
        return episode.sql(scene.query, **tables)
