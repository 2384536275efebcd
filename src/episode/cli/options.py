"""Arguments and options that several commands have, groups of them, and what a shell offers to complete them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from episode.cli.inputs import SessionArguments, read_session
from episode.cli.results import Format, Target, choose_output
from episode.terminal.errors import report_errors

_EMPTY = inspect.Parameter.empty


def spread_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for each field of those of its parameters that are groups of options, and with
    messages in place of errors."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint) and isinstance(hint, type)}
    spread: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        given, inner = {name: parameter.default}, hints
        if name in groups:
            given = {one.name: _EMPTY if one.default is MISSING else one.default for one in fields(groups[name])}
            inner = get_type_hints(groups[name], include_extras=True)
        for option, default in given.items():
            kind = inspect.Parameter.KEYWORD_ONLY
            spread.append(inspect.Parameter(option, kind, default=default, annotation=inner[option]))

    @wraps(command)
    def gather(**values: Any) -> None:
        gathered = {
            name: group(**{one.name: values.pop(one.name) for one in fields(group)}) for name, group in groups.items()
        }
        with report_errors(Console(stderr=True)):
            command(**values, **gathered)

    vars(gather).pop("__wrapped__")
    vars(gather)["__signature__"] = inspect.Signature(spread)
    gather.__annotations__ = {one.name: one.annotation for one in spread}
    return gather


# ---- completion: quick, and silent whatever happens; no Spark, no messages ---------------------------


def complete_queries(incomplete: str) -> list[str]:
    """Files with a query, and directories."""
    return [path for path in _paths(incomplete) if path.endswith(("/", ".sql"))]


def complete_tables(incomplete: str) -> list[str]:
    """NAME=PATH: the name is the user's own; the path is completed."""
    name, equals, path = incomplete.partition("=")
    return [f"{name}={found}" for found in _paths(path)] if equals else []


def complete_streams(incomplete: str) -> list[str]:
    """Declared streams."""
    try:
        from episode import streams

        return [name for name in streams.names() if name.lower().startswith(incomplete.lower())]
    except Exception:  # noqa: BLE001 - a catalog that cannot be read offers nothing
        return []


def complete_masters(incomplete: str) -> list[str]:
    """Return the beginnings of masters that complete a text."""
    return [one for one in ("local[*]", "spark://", "sc://", "yarn", "k8s://") if one.startswith(incomplete)]


def _paths(incomplete: str) -> list[str]:
    """Files and directories whose path begins so; directories end with a slash."""
    directory, _, begin = incomplete.rpartition("/")
    root = Path(f"{directory}/") if incomplete.startswith("/") or directory else Path()
    try:
        found = sorted(path for path in root.iterdir() if path.name.startswith(begin))
    except OSError:
        return []
    prefix = f"{directory}/" if "/" in incomplete else ""
    shown = [path for path in found if begin.startswith(".") or not path.name.startswith(".")]
    return [f"{prefix}{path.name}/" if path.is_dir() else f"{prefix}{path.name}" for path in shown]


class Handling(str, Enum):
    """Ways in which events reach the matching loop of a live task."""

    adaptive = "adaptive"
    push = "push"
    pull = "pull"


class EventFormat(str, Enum):
    """Formats of files with events."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


QUERY_HELP = "A file with the query, - for standard input, or the query itself."
QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help=QUERY_HELP, autocompletion=complete_queries)]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        "-t",
        metavar="NAME=PATH",
        help="A table of the query: a Parquet file or directory, or .csv or .json by the suffix; or a Kafka topic "
        "of JSON values, kafka://HOST:PORT/TOPIC?schema=NAME TYPE, … May be repeated.",
        autocompletion=complete_tables,
    ),
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        "-a",
        metavar="NAME=VALUE",
        help="The value of a parameter, which is :NAME in the query: a number, true, false, null, or text. "
        "May be repeated.",
    ),
]

SPARK = "Spark"
"""The panel of these options in the help."""

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://…, sc://HOST:PORT. Default: this machine.",
        rich_help_panel=SPARK,
        autocompletion=complete_masters,
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark. May be repeated.", rich_help_panel=SPARK),
]
PackageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--package",
        metavar="GROUP:ARTIFACT:VERSION",
        help="A package from Maven, such as Spark's Kafka connector or Delta Lake. May be repeated.",
        rich_help_panel=SPARK,
    ),
]
JarsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--jars", metavar="PATH", help="A jar for Spark's class path. May be repeated.", rich_help_panel=SPARK
    ),
]

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A declared stream, or its archive.", autocompletion=complete_streams)
]
CatalogOption = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="DIRECTORY", help="Directory of declared streams, instead of EPISODE_CATALOG."),
]
SkipCorruptOption = Annotated[
    bool, typer.Option("--skip-corrupt", help="Skip corrupt segments, with a warning for each.")
]


@dataclass(frozen=True)
class SparkOptions:
    """The Spark of a command."""

    master: MasterOption = None
    conf: ConfOption = None
    package: PackageOption = None
    jars: JarsOption = None

    def read(self) -> SessionArguments:
        return read_session(self.master, self.conf or [], self.package or [], self.jars or [])


@dataclass(frozen=True)
class LiveTaskOptions:
    """The options of --live. into: where matches go (None: to the screen)."""

    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="WHERE",
            help="With --live: the name of a stream (created if it does not exist), a path with a slash for Parquet "
            "files, or kafka://HOST:PORT/TOPIC. Default: the screen.",
            autocompletion=complete_streams,
        ),
    ] = None
    input: Annotated[
        Handling | None, typer.Option("--input", help="With --live: how tasks take their input. Default: adaptive.")
    ] = None
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, metavar="N", help="With --live: the number of tasks.")
    ] = None
    metrics: Annotated[
        int | None,
        typer.Option(
            "--metrics", min=0, metavar="PORT", help="With --live: port of 127.0.0.1 for Prometheus; 0: any free one."
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """Destination of a result, and how much of it is written."""

    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write the result here; delta:PATH writes a Delta table."),
    ] = None
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: a table on the screen; with --output, its suffix or Parquet."),
    ] = None
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="At most N rows of the result.")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at the output path.")] = False

    def read(self) -> Target:
        return Target(*choose_output(self.format, self.output), self.limit, self.overwrite)


WatermarkOption = Annotated[
    str | None,
    typer.Option("--watermark", metavar="DURATION", help="With --follow: how late events may come: '10 seconds'."),
]
