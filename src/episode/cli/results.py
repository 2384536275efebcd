"""Results, plans and reports on the command line: to the screen, as lines to standard output, to files and tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from episode.errors import EpisodeError
from episode.paths import kind_of
from episode.words import count_of

SCREEN_ROWS = 50
DELTA = "delta:"
"""Before the path of an output that is a Delta table."""
OVERWRITE = "give --overwrite to replace it"
NO_LIMIT = 1_000_000
"""Width of a file or a pipe, which take lines of any length."""


class Format(str, Enum):
    """Destinations of a result: the screen, or kinds of files."""

    table = "table"
    parquet = "parquet"
    csv = "csv"
    json = "json"
    delta = "delta"


def choose_output(wanted: Format | None, output: str | None) -> tuple[str | None, Format]:
    """Return the path of the output, and the format asked for or the one that the output suggests."""
    if output is None:
        if wanted in (Format.parquet, Format.delta):
            raise typer.BadParameter(
                f"{wanted.value.capitalize()} cannot be shown on the screen: give --output PATH.", param_hint="--format"
            )
        return None, wanted or Format.table
    if wanted is Format.table:
        raise typer.BadParameter(
            "A table goes to the screen: choose parquet, csv, json or delta for --output.", param_hint="--format"
        )
    if not output.startswith(DELTA):
        return output, wanted or Format(kind_of(output))
    path = output.removeprefix(DELTA)
    if wanted not in (None, Format.delta) or not path:
        raise typer.BadParameter(f"{output} is a Delta table: write delta:PATH alone.", param_hint="--output")
    return path, Format.delta


@dataclass(frozen=True)
class Target:
    """Destination of a result. output: a path; None: the screen, or standard output. limit: the most rows."""

    output: str | None
    format: Format
    limit: int | None = None
    overwrite: bool = False

    def take(self, result: Any, notes: Console) -> None:
        """Compute a result, with a progress bar, and show or store it."""
        from episode.terminal.progress import progress

        with progress(result.sparkSession, notes):
            if self.output is None and self.format is Format.table:
                show(result, SCREEN_ROWS if self.limit is None else self.limit, notes)
                return
            limited = result if self.limit is None else result.limit(self.limit)
            if self.output is None:
                print_lines(limited, self.format)
            else:
                write(limited, self.output, self.format, self.overwrite)

    def say_where(self, notes: Console) -> None:
        """Name the files of a stored result."""
        if self.output is not None:
            notes.print(Text(f"Written to {self.output} ({self.format.value})."))


def write(result: Any, path: str, chosen: Format, overwrite: bool) -> None:
    """Store a result, in parallel: the output is a directory, which Spark and others read as one table."""
    writer = result.write.mode("overwrite" if overwrite else "error")
    if chosen is Format.csv:
        writer = writer.option("header", True)
    try:
        writer.format(chosen.value).save(path)
    except Exception as error:
        if chosen is Format.delta and "DATA_SOURCE_NOT_FOUND" in str(error):
            hint = "Add it: --package io.delta:delta-spark_2.13:VERSION, with the version that is made for this Spark."
            raise EpisodeError("Delta Lake is not on Spark's class path.", hint=hint) from None
        raise


def show(result: Any, rows: int, notes: Console) -> None:
    """The first rows on the screen, and a note when there are more."""
    from episode.terminal.table import result_table

    found = result.limit(rows + 1).collect()
    screen = Console()
    screen = screen if screen.is_terminal else Console(width=NO_LIMIT)  # as wide as the table: no cell is folded
    screen.print(result_table(result.columns, found[:rows]))
    more = f"The first {rows:,} rows. --limit N shows more, --output PATH stores all."
    notes.print(Text(more if len(found) > rows else count_of(len(found), "row")))


def print_lines(result: Any, chosen: Format) -> None:
    """The result on standard output as CSV or JSON lines, each line made by Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc

    print_header(result.columns, chosen)
    lines = result.selectExpr(f"to_{chosen.value}(struct(*)) AS line").toArrow()["line"]
    for chunk in lines.chunks:
        if len(chunk):
            whole = pa.ListArray.from_arrays(pa.array([0, len(chunk)], pa.int32()), chunk.cast(pa.string()))
            typer.echo(pc.binary_join(whole, "\n")[0].as_py())


def print_header(columns: list[str], chosen: Format) -> None:
    """The names of the columns, where lines do not have them."""
    if chosen is Format.csv:
        typer.echo(",".join(map(_quote, columns)))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '\\"') + '"' if any(sign in name for sign in ',"\n\\') else name


class PlanFormat(str, Enum):
    """Formats of a plan."""

    text = "text"
    html = "html"
    svg = "svg"
    native = "native"


def choose_format(format: PlanFormat | None, output: Path | None) -> PlanFormat:
    """Return the format asked for, or the one of the file's suffix, or text."""
    if format is not None:
        return format
    by_suffix = {".html": PlanFormat.html, ".htm": PlanFormat.html, ".svg": PlanFormat.svg}
    return PlanFormat.text if output is None else by_suffix.get(output.suffix.lower(), PlanFormat.text)


def check_plan_file(output: Path | None, overwrite: bool) -> None:
    """Refuse a file that exists, or whose directory does not, before anything is planned."""
    if output is None:
        return
    if output.exists() and not overwrite:
        raise typer.BadParameter(f"{output} exists: {OVERWRITE}.", param_hint="--output")
    if not output.parent.is_dir():
        raise typer.BadParameter(f"There is no directory {output.parent}.", param_hint="--output")


def write_plan(plan: str, output: Path) -> None:
    try:
        output.write_text(plan if plan.endswith("\n") else f"{plan}\n", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error}.", param_hint="--output") from None


def check_report(path: Path | None, follow: bool, live: bool) -> None:
    """Refuse a report of a query that does not end, and a path that cannot be written, before anything is started."""
    if path is None:
        return
    for option, given in (("--follow", follow), ("--live", live)):
        if given:
            raise typer.BadParameter(f"A query with {option} does not end: no report.", param_hint="--report")
    from episode.see.reports.page import checked_path

    try:
        checked_path(path)
    except EpisodeError as error:
        raise typer.BadParameter(str(error), param_hint="--report") from None


def take_with_report(result: Any, path: Path, target: Target, notes: Console) -> None:
    """Take the result and write its report; Spark computes it once for both."""
    from episode.queries.origins import origin_of
    from episode.see.reports.page import write_report
    from episode.spark.inspection import cache_frame

    origin_of(result)  # a query without a pattern is refused before it runs
    with cache_frame(result):
        target.take(result, notes)
        with notes.status("Writing the report") as shown:
            write_report(result, path, begins=lambda step: shown.update(f"The report: {step}"))
    notes.print(Text(f"Report: {path}"), soft_wrap=True)
