"""The Spark of a command: --master, --conf, --package and --jars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import typer

PACKAGES, JARS = "spark.jars.packages", "spark.jars"
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What Delta Lake needs besides its package."""


@dataclass(frozen=True)
class SessionArguments:
    """What a command says of its Spark. Without a word, episode's own settings are taken."""

    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.master is not None or bool(self.settings)


def read_session(
    master: str | None, conf: Sequence[str], packages: Sequence[str], jars: Sequence[str]
) -> SessionArguments:
    """The arguments, checked; several packages or jars may also stand in one, with commas."""
    settings: dict[str, str] = {}
    for argument in conf:
        name, equals, value = argument.partition("=")
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter(
                f"{argument!r} is not of the form spark.NAME=VALUE, as in --conf spark.executor.memory=4g.",
                param_hint="--conf",
            )
        settings[name] = value
    coordinates = _parts(packages)
    for one in coordinates:
        if not re.fullmatch(r"[^:\s]+:[^:\s]+:[^:\s]+", one):
            raise typer.BadParameter(
                f"{one!r} is not of the form GROUP:ARTIFACT:VERSION, as packages of Maven are named.",
                param_hint="--package",
            )
    for name, values in ((PACKAGES, coordinates), (JARS, _parts(jars))):
        if values:
            settings[name] = ",".join([*_parts([settings.get(name, "")]), *values])
    if any(one.startswith("io.delta:") for one in coordinates):
        settings = {**_DELTA, **settings}
    return SessionArguments(master, settings)


def _parts(arguments: Sequence[str]) -> list[str]:
    return [part.strip() for argument in arguments for part in argument.split(",") if part.strip()]


def start(arguments: SessionArguments) -> None:
    """Start Spark as the arguments say; where they say nothing, it starts when a query needs it."""
    if arguments:
        from episode.spark.session import start_session

        start_session(arguments.settings, arguments.master)
