"""Arguments of the command line: where the query is, which tables it has, where its result may go."""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

NAME = re.compile(r"[^\W\d]\w*")
RESERVED = frozenset({"text", "spark", "options"})
"""Names of episode.sql's own parameters."""
KINDS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
COMPRESSIONS = {".gz", ".bz2", ".lz4", ".snappy", ".zst", ".zstd"}


def read_query(argument: str) -> str:
    """The text of the query: from standard input, from a file, or the argument itself."""
    if argument == "-":
        return sys.stdin.read()
    if "\n" not in argument:
        path = Path(argument)
        if is_file(path):
            try:
                return path.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                raise typer.BadParameter(f"The file {argument} cannot be read: {error}.", param_hint="QUERY") from None
        if path.suffix.lower() == ".sql" or not re.search(r"\s", argument.strip()):
            raise typer.BadParameter(
                f"There is no file {argument!r}. Give a file with the query, - for standard input, or the text.",
                param_hint="QUERY",
            )
    return argument


def is_file(path: Path) -> bool:
    """Whether there is such a file; a whole query is too long for a path, which is a plain no."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_tables(arguments: Sequence[str]) -> dict[str, str]:
    """NAME=PATH arguments as a dictionary; every local path must be there."""
    tables: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or not path:
            raise _wrong_table(f"{argument!r} is not of the form NAME=PATH, as in --table trades=data/trades.parquet.")
        if not NAME.fullmatch(name):
            raise _wrong_table(f"{name!r} is not a name for a table: use letters, digits and underscores.")
        if name in RESERVED:
            raise _wrong_table(f"A table cannot be called {name!r} here: choose another name.")
        if name in tables:
            raise _wrong_table(f"The table {name!r} is given twice.")
        if is_local(path) and not glob.glob(local(path)) and not Path(local(path)).exists():
            raise _wrong_table(f"The table {name!r} should be at {path}, but there is nothing.")
        tables[name] = path
    return tables


def _wrong_table(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--table")


def kind_of(path: str) -> str:
    """How a path is read or written, by its suffix: csv, json, or else parquet."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return KINDS.get(suffixes[-1], "parquet") if suffixes else "parquet"


def check_output(output: str, tables: Iterable[str], overwrite: bool) -> None:
    """Refuse an output that would destroy something: what is there already, or an input of the query."""
    if not is_local(output):
        return
    target = Path(local(output)).resolve()
    for table in filter(is_local, tables):
        source = Path(local(table)).resolve()
        if target == source or target in source.parents or source in target.parents:
            raise typer.BadParameter(
                f"{output} overlaps the input {table}: write somewhere else.", param_hint="--output"
            )
    if target.exists() and not overwrite:
        raise typer.BadParameter(f"{output} exists: give --overwrite to replace it.", param_hint="--output")


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    return path.removeprefix("file://")
