"""`episode push`, `tail`, `archive` and `streams`: declared streams on the command line."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from episode import streams
from episode.cli.options import CatalogOption, EventFormat, NameArgument, SkipCorruptOption, complete_streams
from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError
from episode.paths import kind_of
from episode.words import count_of, exact_duration

PRINTED = 1_000
"""Rows that are made into lines at once."""


def push(
    name: NameArgument,
    source: Annotated[
        str,
        typer.Option(
            "--from", "-i", metavar="PATH", help="JSON lines, CSV with a header or Parquet; - is standard input."
        ),
    ],
    format: Annotated[
        EventFormat | None, typer.Option("--format", "-f", help="Default: by the suffix, else JSON lines.")
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, metavar="N", help="The number of events stored with one commit.")
    ] = 100_000,
    producer: Annotated[
        str | None,
        typer.Option("--producer", metavar="ID", help="Under the same ID, a file that is pushed twice is stored once."),
    ] = None,
    catalog: CatalogOption = None,
) -> None:
    """Append events to a stream. A batch is stored whole or not at all."""
    kind = _kind_of(source, None if format is None else format.value)
    store = streams.store_of(name, _use_catalog(catalog))
    notes = Console(stderr=True)
    done, batches, position = 0, 0, store.head()
    with _progress(source, notes) as bar:
        task = bar.add_task(f"pushing to {store.declaration.name}", total=_size(source), rows="")

        def show(size: int) -> None:
            bar.update(task, completed=size)

        patient = producer is not None
        read = streams.events_of(source, kind, store.declaration, batch, patient=patient, seen=show)
        try:
            for number, table in enumerate(read):
                origin = None if producer is None else streams.Origin(producer, number)
                position = store.append(table, origin, first_row=done + 1)
                done, batches = done + table.num_rows, batches + 1
                bar.update(task, rows=f"{done:,} events")
        except EpisodeDataError as error:
            if done:
                stored = f"Before this batch, {count_of(done, 'event')} {'is' if done == 1 else 'are'} stored."
                error.hint = f"{error.hint} {stored}" if error.hint else stored
            raise
    repeated = f" Of these, what {producer} had pushed before was not stored again." if producer is not None else ""
    pushed = f"{count_of(done, 'event')} in {count_of(batches, 'batch')} pushed"
    where = f"{store.declaration.name}, which is at position {position:,}"
    notes.print(Text(f"{pushed} to {where}.{repeated}"), soft_wrap=True)


def _kind_of(path: str, wanted: str | None) -> str:
    """Return the format of a file: the wanted one, or that of its suffix; a pipe has JSON lines."""
    if wanted is not None:
        return wanted
    if path == "-":
        return "json"
    if not Path(path).exists():
        raise typer.BadParameter(f"There is nothing at {path}.", param_hint="--from")
    return kind_of(path)


def _progress(path: str, notes: Console) -> Progress:
    """Return a bar for a file; for a pipe, whose size is not known, a count."""
    size = [BarColumn(), DownloadColumn()] if path != "-" else []
    words, rows = TextColumn("{task.description}"), TextColumn("{task.fields[rows]}")
    columns = (SpinnerColumn(), words, *size, rows, TimeElapsedColumn())
    return Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal)


def _size(path: str) -> int | None:
    if path == "-":
        return None
    place = Path(path)
    return place.stat().st_size if place.is_file() else sum(file.stat().st_size for file in place.rglob("*.parquet"))


def tail(
    name: NameArgument,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, metavar="N", help="Begin with the last N events.")] = 10,
    after: Annotated[
        int | None,
        typer.Option("--after", min=0, metavar="POSITION", help="Begin after this position; 0: at the start."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Keep printing new events.")] = True,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of JSON lines.")] = False,
    skip_corrupt: SkipCorruptOption = False,
    catalog: CatalogOption = None,
) -> None:
    """Print the last events of a stream, and those that come, as JSON lines."""
    place = _use_catalog(catalog)
    store = streams.store_of(name, place)
    begin = store.back(lines) if after is None else after
    if csv:
        typer.echo(",".join(store.schema.names))
    if after is None:
        table, begin = streams.read(name, begin, skip_corrupt=skip_corrupt, catalog=place)
        _print(table.slice(max(0, table.num_rows - lines)), csv)
    if follow or after is not None:
        for table, _ in streams.tail(name, begin, follow=follow, skip_corrupt=skip_corrupt, catalog=place):
            _print(table, csv)


def _print(table: Any, as_csv: bool) -> None:
    """The rows as lines on standard output."""
    if as_csv:
        import pyarrow as pa
        import pyarrow.csv as csv

        sink = pa.BufferOutputStream()
        csv.write_csv(table, sink, csv.WriteOptions(include_header=False))
        typer.echo(sink.getvalue().to_pybytes().decode(), nl=False)
        return
    for start in range(0, table.num_rows, PRINTED):
        rows = table.slice(start, PRINTED).to_pylist(maps_as_pydicts="strict")
        typer.echo("\n".join(json.dumps(row, default=_text, ensure_ascii=False) for row in rows))


def _text(value: object) -> str:
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def archive(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Default: all with an archive.", autocompletion=complete_streams),
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Repeat at this interval: '10 seconds'.")
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Also join all small files.")] = False,
    skip_corrupt: SkipCorruptOption = False,
    catalog: CatalogOption = None,
) -> None:
    """Move the events of streams into their archives, and let go what RETAIN no longer keeps."""
    try:
        pause = None if every is None else streams.seconds(every)
    except EpisodeError as error:
        raise typer.BadParameter(error.message, param_hint="--every") from None
    place = _use_catalog(catalog)
    chosen = names or [
        name for name in streams.names(catalog=place) if streams.describe(name, catalog=place).archive is not None
    ]
    if not chosen:
        raise EpisodeAnalysisError("No stream has an archive.", hint="CREATE STREAM … ARCHIVE AS name declares one.")
    while True:
        for name in chosen:
            _archive_one(name, compact, skip_corrupt, place, quiet=pause is not None)
        if pause is None:
            return
        time.sleep(pause)


def _archive_one(name: str, compact: bool, skip_corrupt: bool, catalog: Path | None, quiet: bool) -> None:
    """Move the events of one stream into its archive. quiet: without a word if there are none."""
    notes = Console(stderr=True)
    with notes.status(f"Archiving {name}"):
        moved = streams.archive(name, skip_corrupt=skip_corrupt, catalog=catalog)
        joined = streams.compact(name, catalog=catalog) if compact else 0
    if quiet and not moved:
        return
    store = streams.store_of(name, catalog)
    manifest = store.archived.manifest()
    now = f"{count_of(manifest.rows, 'event')} in {count_of(len(manifest.files), 'file')}"
    replaced = f", {joined:,} small files were joined" if joined else ""
    moved_into = f"{count_of(moved, 'event')} moved into {store.declaration.archive}"
    notes.print(Text(f"{moved_into}, which now has {now}{replaced}."), soft_wrap=True)


def show_streams(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Describe this stream.", autocompletion=complete_streams)
    ] = None,
    catalog: CatalogOption = None,
) -> None:
    """List the declared streams, or describe one."""
    place = _use_catalog(catalog)
    if name is None:
        _show(place)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for what, value in _details(name, place):
        table.add_row(Text(what, style="bold"), Text(value, overflow="fold"))
    Console().print(table)


def _show(catalog: Path | None) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("stream", "time", "key", "archive", "events", "archived", "position"):
        table.add_column(column, justify="right" if column in ("events", "archived", "position") else "left")
    for name in streams.names(catalog=catalog):
        one = streams.describe(name, catalog=catalog)
        numbers = ["", "", ""]
        if one.using == "episode":
            store = streams.store_of(name, catalog)
            archived = f"{store.archived.manifest().rows:,}" if one.archive else ""
            numbers = [f"{store.count():,}", archived, f"{store.head():,}"]
        table.add_row(one.name, one.time, ", ".join(one.key), one.archive or "", *numbers)
    Console().print(table)


def _details(name: str, catalog: Path | None) -> list[tuple[str, str]]:
    """Return the properties of a stream, as names and values."""
    one = streams.describe(name, catalog=catalog)
    found = [
        ("stream", one.name),
        ("columns", ", ".join(f"{column} {one.written_type(column).upper()}" for column, _ in one.columns)),
        ("time", one.time),
        ("key", ", ".join(one.key)),
        ("delay", _length(one.delay, one)),
        ("archive", one.archive or ""),
        ("retain", _length(one.retain, one)),
        ("store", one.using),
        ("options", ", ".join(f"{option} = {value}" for option, value in one.options.items())),
        ("location", one.location),
    ]
    if one.using == "episode":
        store = streams.store_of(name, catalog)
        manifest = store.archived.manifest()
        found += [
            ("lanes", f"{one.lanes:,}"),
            ("events", f"{store.count():,}"),
            ("archived", f"{manifest.rows:,} in {len(manifest.files):,} files" if one.archive else ""),
            ("position", f"{store.head():,}"),
        ]
    return [(what, value) for what, value in found if value]


def _length(units: int | None, declaration: streams.Declaration) -> str:
    if units is None:
        return ""
    if declaration.event_time.units_per_millisecond == 1:
        return f"{units:,}"
    return exact_duration(units)


def _use_catalog(path: Path | None) -> Path | None:
    """The catalog that was asked for, if it is there."""
    if path is not None and not os.path.isdir(path):
        raise typer.BadParameter(f"There is no catalog at {path}.", param_hint="--catalog")
    return path
