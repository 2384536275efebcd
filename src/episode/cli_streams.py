"""What the command line does with declared streams: push, tail, archive, streams."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from episode import cli_inputs, streams
from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError

PRINTED = 1_000
"""Rows that are made into lines at once."""


def kind_of(path: str, wanted: str | None) -> str:
    """How a file is read: as asked for, or by its suffix; a pipe has JSON lines."""
    if wanted is not None:
        return wanted
    if path == "-":
        return "json"
    if not Path(path).exists():
        raise typer.BadParameter(f"There is nothing at {path}.", param_hint="--from")
    return cli_inputs.kind_of(path)


def push(
    name: str, path: str, kind: str, rows: int, producer: str | None, catalog: Path | None, notes: Console
) -> None:
    """Append the events of a file, batch by batch."""
    store = streams.store_of(name, catalog)
    before = store.head()
    done, batches, position = 0, 0, before
    with _progress(path, notes) as bar:
        task = bar.add_task(f"pushing to {store.declaration.name}", total=_size(path), rows="")
        read = streams.events_of(
            path,
            kind,
            store.declaration,
            rows,
            patient=producer is not None,
            seen=lambda size: bar.update(task, completed=size),
        )
        try:
            for batch, table in enumerate(read):
                origin = None if producer is None else streams.Origin(producer, batch)
                position = store.append(table, origin, first_row=done + 1)
                done, batches = done + table.num_rows, batches + 1
                bar.update(task, rows=f"{done:,} events")
        except EpisodeDataError as error:
            if done:
                stored = f"Before this batch, {_events(done)} {'is' if done == 1 else 'are'} stored."
                error.hint = f"{error.hint} {stored}" if error.hint else stored
            raise
    repeated = f" Of these, what {producer} had pushed before was not stored again." if producer is not None else ""
    notes.print(
        Text(
            f"{_events(done)} in {batches:,} {'batch' if batches == 1 else 'batches'} pushed to "
            f"{store.declaration.name}, which is at position {position:,}.{repeated}"
        ),
        soft_wrap=True,
    )


@contextmanager
def _progress(path: str, notes: Console) -> Iterator[Progress]:
    size = [BarColumn(), DownloadColumn()] if path != "-" else []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *size,
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=notes, transient=True, disable=not notes.is_terminal) as bar:
        yield bar


def _size(path: str) -> int | None:
    if path == "-":
        return None
    place = Path(path)
    return place.stat().st_size if place.is_file() else sum(file.stat().st_size for file in place.rglob("*.parquet"))


def tail(
    name: str,
    lines: int,
    after: int | None,
    follow: bool,
    as_csv: bool,
    skip_corrupt: bool,
    catalog: Path | None,
) -> None:
    """Print the last events, and go on with those that come."""
    store = streams.store_of(name, catalog)
    head = store.head()
    begin = store.back(lines) if after is None else after
    if as_csv:
        typer.echo(",".join(store.schema.names))
    left = lines if after is None else None
    if left is not None:
        table, head = streams.read(name, begin, skip_corrupt=skip_corrupt, catalog=catalog)
        _print(table.slice(max(0, table.num_rows - lines)), as_csv)
        begin = head
    if follow or after is not None:
        for table, _ in streams.tail(name, begin, follow=follow, skip_corrupt=skip_corrupt, catalog=catalog):
            _print(table, as_csv)


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
    names: Sequence[str], every: float | None, compact: bool, skip_corrupt: bool, catalog: Path | None, notes: Console
) -> None:
    """Move events into archives: once, or again and again."""
    chosen = list(names) or [
        name for name in streams.names(catalog=catalog) if streams.describe(name, catalog=catalog).archive is not None
    ]
    if not chosen:
        raise EpisodeAnalysisError("No stream has an archive.", hint="CREATE STREAM … ARCHIVE AS name declares one.")
    while True:
        for name in chosen:
            _archive_one(name, compact, skip_corrupt, catalog, notes, quiet=every is not None)
        if every is None:
            return
        time.sleep(every)


def _archive_one(
    name: str, compact: bool, skip_corrupt: bool, catalog: Path | None, notes: Console, quiet: bool
) -> None:
    with notes.status(f"Archiving {name}"):
        moved = streams.archive(name, skip_corrupt=skip_corrupt, catalog=catalog)
        joined = streams.compact(name, catalog=catalog) if compact else 0
    if quiet and not moved:
        return
    store = streams.store_of(name, catalog)
    manifest = store.archived.manifest()
    files = f"{len(manifest.files):,} {'file' if len(manifest.files) == 1 else 'files'}"
    replaced = f", {joined:,} small files were joined" if joined else ""
    notes.print(
        Text(
            f"{_events(moved)} moved into {store.declaration.archive}, which now has {_events(manifest.rows)} in "
            f"{files}{replaced}."
        ),
        soft_wrap=True,
    )


def show(catalog: Path | None, screen: Console) -> None:
    """A table of the declared streams."""
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
    screen.print(table)


def describe(name: str, catalog: Path | None, screen: Console) -> None:
    """One stream in detail."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for what, value in details(name, catalog):
        table.add_row(Text(what, style="bold"), Text(value, overflow="fold"))
    screen.print(table)


def details(name: str, catalog: Path | None) -> list[tuple[str, str]]:
    """What there is to say of a stream."""
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
    for name, size in (("days", 86_400_000_000), ("hours", 3_600_000_000), ("minutes", 60_000_000)):
        if units and units % size == 0:
            return f"{units // size:,} {name}"
    return f"{units / 1e6:,.10g} seconds"


def _events(count: int) -> str:
    return "1 event" if count == 1 else f"{count:,} events"


def read_every(text: str | None) -> float | None:
    """Seconds between two runs."""
    if text is None:
        return None
    try:
        return streams.seconds(text)
    except EpisodeError as error:
        raise typer.BadParameter(error.message, param_hint="--every") from None


def use_catalog(path: Path | None) -> Path | None:
    """The catalog that was asked for, if it is there."""
    if path is not None and not os.path.isdir(path):
        raise typer.BadParameter(f"There is no catalog at {path}.", param_hint="--catalog")
    return path
