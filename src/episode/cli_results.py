"""Results on the command line: to the screen, to standard output as lines, or to files and tables."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from episode import cli_inputs
from episode.errors import EpisodeError

SCREEN_ROWS = 50
DELTA = "delta:"
"""Before the path of an output that is a Delta table."""
NO_LIMIT = 1_000_000
"""Columns of a screen that is none: a file or a pipe takes lines of any length."""


class Format(str, Enum):
    """Where a result goes: the screen, or files."""

    table = "table"
    parquet = "parquet"
    csv = "csv"
    json = "json"
    delta = "delta"


def chosen_output(wanted: Format | None, output: str | None) -> tuple[Format, str | None]:
    """The format asked for, or the one that the output suggests; and its path."""
    if output is None:
        if wanted in (Format.parquet, Format.delta):
            raise typer.BadParameter(
                f"{wanted.value.capitalize()} cannot be shown on the screen: give --output PATH.",
                param_hint="--format",
            )
        return wanted or Format.table, None
    if wanted is Format.table:
        raise typer.BadParameter(
            "A table goes to the screen: choose parquet, csv, json or delta for --output.", param_hint="--format"
        )
    if not output.startswith(DELTA):
        return wanted or Format(cli_inputs.kind_of(output)), output
    path = output.removeprefix(DELTA)
    if wanted not in (None, Format.delta) or not path:
        raise typer.BadParameter(f"{output} is a Delta table: write delta:PATH alone.", param_hint="--output")
    return Format.delta, path


@dataclass(frozen=True)
class Target:
    """Where a result goes. output: a path; None: the screen, or standard output. limit: at most so many rows."""

    output: str | None
    format: Format
    limit: int | None = None
    overwrite: bool = False

    def take(self, result: Any, notes: Console) -> None:
        if self.output is None and self.format is Format.table:
            show(result, SCREEN_ROWS if self.limit is None else self.limit, notes)
            return
        limited = result if self.limit is None else result.limit(self.limit)
        if self.output is None:
            print_lines(limited, self.format)
        else:
            write(limited, self.output, self.format, self.overwrite)


def write(result: Any, path: str, chosen: Format, overwrite: bool) -> None:
    """Store a result, in parallel: the output is a directory, which Spark and others read as one table."""
    writer = result.write.mode("overwrite" if overwrite else "error")
    if chosen is Format.csv:
        writer = writer.option("header", True)
    try:
        writer.format(chosen.value).save(path)
    except Exception as error:
        if chosen is Format.delta and "DATA_SOURCE_NOT_FOUND" in str(error):
            raise without_delta() from None
        raise


def without_delta() -> EpisodeError:
    """Delta is a package of its own."""
    return EpisodeError(
        "Delta Lake is not on Spark's class path.",
        hint="Add it: --package io.delta:delta-spark_2.13:VERSION, with the version that is made for this Spark.",
    )


def screen_of_results() -> Console:
    """The terminal; or where there is none, a screen as wide as its tables, so that no cell is folded."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=NO_LIMIT)


def show(result: Any, rows: int, notes: Console) -> None:
    """The first rows on the screen, and a note when there are more."""
    from episode.terminal.table import result_table

    found = result.limit(rows + 1).collect()
    screen_of_results().print(result_table(result.columns, found[:rows]))
    if len(found) > rows:
        notes.print(Text(f"The first {rows:,} rows. --limit N shows more, --output PATH stores all."))
    else:
        notes.print(Text("1 row" if len(found) == 1 else f"{len(found):,} rows"))


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
        typer.echo(",".join(map(_quoted, columns)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '\\"') + '"' if any(sign in name for sign in ',"\n\\') else name
