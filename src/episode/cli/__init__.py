"""The command line: one file for each subject, each command a function in it.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 the query or the
arguments are wrong, 130 interrupted. pyspark is imported only when a query is about to run, so that help is quick.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import typer

from episode.cli import queries, rules, streams, tools
from episode.cli.options import spread_groups

app = typer.Typer(
    help="Find episodes (patterns of rows over time) in your data, with MATCH_RECOGNIZE on Apache Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "run": queries.run,
    "run-rules": rules.run_rules,
    "explain": queries.explain,
    "size": tools.size,
    "studio": tools.studio,
    "demo": tools.demo,
    "samples": tools.samples,
    "jar": tools.jar,
    "push": streams.push,
    "tail": streams.tail,
    "archive": streams.archive,
    "streams": streams.show_streams,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(spread_groups(_command))


def main() -> None:
    """Entry point of the `episode` command."""
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"episode {metadata.version('episode')}")
        raise typer.Exit


@app.callback()
def read_global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Find episodes (patterns of rows over time) in your data, with MATCH_RECOGNIZE on Apache Spark."""
