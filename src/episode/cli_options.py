"""Arguments and options that several commands have."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from episode import cli_completing


class Handling(str, Enum):
    """How events come to the matching loop of a live task."""

    adaptive = "adaptive"
    push = "push"
    pull = "pull"


class EventFormat(str, Enum):
    """How events are written in a file."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


# ---- queries ---------------------------------------------------------------------------------------

QueryArgument = Annotated[
    str,
    typer.Argument(
        metavar="QUERY",
        help="A file with the query, - for standard input, or the query itself.",
        autocompletion=cli_completing.queries,
    ),
]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        "-t",
        metavar="NAME=PATH",
        help="A table of the query: a Parquet file or directory, or .csv or .json by the suffix; or a Kafka topic "
        "of JSON values, kafka://HOST:PORT/TOPIC?schema=NAME TYPE, … May be repeated.",
        autocompletion=cli_completing.tables,
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

# ---- Spark -----------------------------------------------------------------------------------------

SPARK = "Spark"
"""The panel of these options in the help."""

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://…, sc://HOST:PORT. Default: this machine.",
        rich_help_panel=SPARK,
        autocompletion=cli_completing.masters,
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

# ---- declared streams ------------------------------------------------------------------------------

NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A declared stream, or its archive.", autocompletion=cli_completing.streams),
]
CatalogOption = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="DIRECTORY", help="Where streams are declared, in place of EPISODE_CATALOG."),
]
SkipCorruptOption = Annotated[
    bool, typer.Option("--skip-corrupt", help="Leave out corrupt segments, with a warning for each.")
]
