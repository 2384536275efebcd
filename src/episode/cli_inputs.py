"""Arguments of the command line: where the query is, which tables it has, where its result may go."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import typer

from episode.paths import first_file, is_local, is_there, kind_of, local
from episode.paths import kind_of_files as kind_of_directory

__all__ = ["is_local", "kind_of", "kind_of_directory", "local"]

NAME = re.compile(r"[^\W\d]\w*")
KAFKA = "kafka://"
KAFKA_FORM = "kafka://HOST:PORT/TOPIC?schema=NAME TYPE, …"


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


def read_arguments(arguments: Sequence[str]) -> dict[str, object]:
    """NAME=VALUE arguments, the values of parameters: numbers, true, false and null as in SQL; all else is text."""
    values: dict[str, object] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not NAME.fullmatch(name):
            raise typer.BadParameter(
                f"{argument!r} is not of the form NAME=VALUE, as in --arg x=5.", param_hint="--arg"
            )
        if name in values:
            raise typer.BadParameter(f"The parameter {name} is given twice.", param_hint="--arg")
        values[name] = _value_of(text)
    return values


def _value_of(text: str) -> object:
    words: dict[str, object] = {"true": True, "false": False, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    if re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)", text, re.ASCII):
        return Decimal(text)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+", text, re.ASCII):
        return float(text)
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def read_tables(arguments: Sequence[str]) -> dict[str, str]:
    """NAME=PATH arguments as a dictionary; every local path must be there."""
    tables: dict[str, str] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or not path:
            raise _wrong_table(f"{argument!r} is not of the form NAME=PATH, as in --table trades=data/trades.parquet.")
        if not NAME.fullmatch(name):
            raise _wrong_table(f"{name!r} is not a name for a table: use letters, digits and underscores.")
        if name in tables:
            raise _wrong_table(f"The table {name!r} is given twice.")
        if path.startswith(KAFKA):
            read_topic(path)
        elif is_local(path) and not is_there(path):
            raise _wrong_table(f"The table {name!r} should be at {path}, but there is nothing.")
        tables[name] = path
    return tables


@dataclass(frozen=True)
class Topic:
    """A Kafka topic as a table: the schema of its JSON values as DDL, and options for Spark's Kafka source."""

    servers: str
    name: str
    schema: str
    options: dict[str, str]


def read_topic(url: str) -> Topic:
    """A table of the form kafka://host:port/topic?schema=…; further options are passed on as they are."""
    place, _, query = url.removeprefix(KAFKA).partition("?")
    servers, _, name = place.partition("/")
    servers, name = unquote(servers), unquote(name)
    if not servers or any(not re.fullmatch(r".+:\d+", server) for server in servers.split(",")):
        raise _wrong_table(f"{url} does not say host and port of a broker: write {KAFKA_FORM}.")
    if not re.fullmatch(r"[\w.-]+", name):
        raise _wrong_table(f"{name!r} is not the name of a topic: write {KAFKA_FORM}.")
    options = dict(parse_qsl(query, keep_blank_values=True))
    schema = options.pop("schema", "").strip()
    if not schema:
        raise _wrong_table(f"The topic {name} has no schema: write {KAFKA_FORM} with the fields of its JSON values.")
    return Topic(servers, name, schema, options)


def _wrong_table(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--table")


def check_follow_options(
    follow: bool, only_then: dict[str, object], never_then: dict[str, object], tables: bool = True
) -> None:
    """Refuse options that make no sense with --follow, or without it; those that are not given are None or False.

    tables: tables are followed, and not only declared streams, which say themselves how late events may come.
    """
    wrong = never_then if follow else only_then
    for option, value in wrong.items():
        if value is not None and value is not False:
            reason = "A stream has no end" if follow else "This is for streams"
            raise typer.BadParameter(
                f"{reason}: {option} cannot be given {'with' if follow else 'without'} --follow.", param_hint=option
            )
    if follow and tables and only_then["--watermark"] is None:
        raise typer.BadParameter(
            "How late may events come? Give --watermark '10 seconds', or a number where event time is one.",
            param_hint="--watermark",
        )


def check_followed(tables: Iterable[str]) -> None:
    """What is followed is a topic or a directory with files in it: their columns are those of the stream."""
    for path in tables:
        if path.startswith(KAFKA) or not is_local(path):
            continue
        if not Path(local(path)).is_dir():
            raise _wrong_table(f"{path} is not a directory: --follow takes the files that are added to one.")
        if first_file(path) is None:
            raise _wrong_table(f"There are no files in {path} yet: the columns of the stream are taken from them.")


def check_output(output: str, tables: Iterable[str], overwrite: bool) -> None:
    """Refuse an output that would destroy something: what is there already, or an input of the query."""
    if not is_local(output):
        return
    check_overlap(output, tables)
    if Path(local(output)).exists() and not overwrite:
        raise typer.BadParameter(f"{output} exists: give --overwrite to replace it.", param_hint="--output")


def check_followed_output(output: str, tables: Iterable[str], checkpoint: str | None) -> None:
    """Refuse to add to files of another run: with a new checkpoint, Spark would take its first matches for written."""
    if not is_local(output):
        return
    check_overlap(output, tables)
    begun = checkpoint is not None and (not is_local(checkpoint) or Path(local(checkpoint)).exists())
    if Path(local(output)).exists() and not begun:
        raise typer.BadParameter(
            f"{output} exists: go on with the --checkpoint that it was written with, or write somewhere else.",
            param_hint="--output",
        )


def check_overlap(output: str, tables: Iterable[str]) -> None:
    """Refuse an output that is, holds or lies in an input of the query."""
    target = Path(local(output)).resolve()
    for table in filter(is_local, tables):
        source = Path(local(table)).resolve()
        if target == source or target in source.parents or source in target.parents:
            raise typer.BadParameter(
                f"{output} overlaps the input {table}: write somewhere else.", param_hint="--output"
            )
