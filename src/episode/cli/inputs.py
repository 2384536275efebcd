"""Arguments of the command line: the query, its tables, where its result may go, and the Spark that runs it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import typer

from episode.paths import first_file, is_local, is_there, kind_of_files, local

NAME = re.compile(r"[^\W\d]\w*")
KAFKA = "kafka://"
KAFKA_FORM = "kafka://HOST:PORT/TOPIC?schema=NAME TYPE, …"
PACKAGES, JARS = "spark.jars.packages", "spark.jars"
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings of Spark that Delta Lake needs in addition to its package."""


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
            message = f"There is no file {argument!r}. Give a file with the query, - for standard input, or the text."
            raise typer.BadParameter(message, param_hint="QUERY")
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
        raise _wrong_table(f"{url} does not name the host and port of a broker: write {KAFKA_FORM}.")
    if not re.fullmatch(r"[\w.-]+", name):
        raise _wrong_table(f"{name!r} is not the name of a topic: write {KAFKA_FORM}.")
    options = dict(parse_qsl(query, keep_blank_values=True))
    schema = options.pop("schema", "").strip()
    if not schema:
        raise _wrong_table(f"The topic {name} has no schema: write {KAFKA_FORM} with the fields of its JSON values.")
    return Topic(servers, name, schema, options)


def _wrong_table(message: str) -> typer.BadParameter:
    return typer.BadParameter(message, param_hint="--table")


def open_tables(paths: dict[str, str]) -> dict[str, Any]:
    """Tables as they are now: files by their paths, topics as DataFrames."""
    return {name: _topic(path, follow=False) if path.startswith(KAFKA) else path for name, path in paths.items()}


def follow_tables(paths: dict[str, str]) -> dict[str, Any]:
    """Tables as streams."""
    from episode.spark import tables as sources
    from episode.spark.startup.session import session

    spark = session(None)
    sources.fit_for_streams(spark)
    return {
        name: _topic(path, follow=True)
        if path.startswith(KAFKA)
        else sources.followed_files(spark, path, kind_of_files(path))
        for name, path in paths.items()
    }


def _topic(url: str, *, follow: bool) -> Any:
    from episode.spark import tables as sources
    from episode.spark.startup.session import session

    topic = read_topic(url)
    return sources.topic(session(None), topic.servers, topic.name, topic.schema, topic.options, follow=follow)


_ONLY = {"--follow": "This is for streams", "--live": "This is for live queries"}
_NEVER = {"--follow": "A stream has no end", "--live": "A live query reads declared streams until it is stopped"}


def check_options(mode: str, wanted: bool, only_then: Mapping[str, object], never_then: Mapping[str, object]) -> None:
    """Refuse options that make no sense with --follow or --live, or without it. An option that is not given has None or
    False."""
    for option, value in (never_then if wanted else only_then).items():
        if value is not None and value is not False:
            reason, word = (_NEVER[mode], "with") if wanted else (_ONLY[mode], "without")
            raise typer.BadParameter(f"{reason}: {option} cannot be given {word} {mode}.", param_hint=option)


def check_followed(tables: Iterable[str]) -> None:
    """Refuse to follow anything but a topic or a directory with files, which have the columns of the stream."""
    for path in tables:
        if path.startswith(KAFKA) or not is_local(path):
            continue
        if not Path(local(path)).is_dir():
            raise _wrong_table(f"{path} is not a directory: --follow takes the files that are added to one.")
        if first_file(path) is None:
            raise _wrong_table(f"There are no files in {path} yet: the columns of the stream are taken from them.")


def check_output(output: str, tables: Iterable[str], is_known: bool, advice: str) -> None:
    """Refuse an output that would overwrite data, and one that is, holds or lies in an input of the query. is_known:
    may it exist? advice: what to do if it does."""
    if not is_local(output):
        return
    target = Path(local(output)).resolve()
    for table in filter(is_local, tables):
        source = Path(local(table)).resolve()
        if target == source or target in source.parents or source in target.parents:
            message = f"{output} overlaps the input {table}: write somewhere else."
            raise typer.BadParameter(message, param_hint="--output")
    if target.exists() and not is_known:
        raise typer.BadParameter(f"{output} exists: {advice}.", param_hint="--output")


def check_followed_output(output: str, tables: Iterable[str], checkpoint: str | None) -> None:
    """Refuse to add to files of another run: with a new checkpoint, Spark would take its first matches for written."""
    begun = checkpoint is not None and (not is_local(checkpoint) or Path(local(checkpoint)).exists())
    check_output(
        output, tables, begun, "continue with the --checkpoint that it was written with, or write somewhere else"
    )


@dataclass(frozen=True)
class SessionArguments:
    """Settings of the Spark of a command; without any, episode's own are taken."""

    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.master is not None or bool(self.settings)


def read_session(
    master: str | None, conf: Sequence[str], packages: Sequence[str], jars: Sequence[str]
) -> SessionArguments:
    """Check the arguments; one may have several packages or jars, with commas."""
    settings: dict[str, str] = {}
    for argument in conf:
        name, equals, value = argument.partition("=")
        if not equals or not name.startswith("spark."):
            message = f"{argument!r} is not of the form spark.NAME=VALUE, as in --conf spark.executor.memory=4g."
            raise typer.BadParameter(message, param_hint="--conf")
        settings[name] = value
    coordinates = _parts(packages)
    for one in coordinates:
        if not re.fullmatch(r"[^:\s]+:[^:\s]+:[^:\s]+", one):
            message = f"{one!r} is not of the form GROUP:ARTIFACT:VERSION, as packages of Maven are named."
            raise typer.BadParameter(message, param_hint="--package")
    for name, values in ((PACKAGES, coordinates), (JARS, _parts(jars))):
        if values:
            settings[name] = ",".join([*_parts([settings.get(name, "")]), *values])
    if any(one.startswith("io.delta:") for one in coordinates):
        settings = {**_DELTA, **settings}
    return SessionArguments(master, settings)


def _parts(arguments: Sequence[str]) -> list[str]:
    return [part.strip() for argument in arguments for part in argument.split(",") if part.strip()]


def start_session(arguments: SessionArguments) -> None:
    """Start Spark with these settings; without any, it starts when a query needs it."""
    if arguments:
        from episode.spark.startup import session

        session.start_session(arguments.settings, arguments.master)
