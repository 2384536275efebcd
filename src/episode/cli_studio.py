"""`episode studio`: the page on this machine, until Ctrl-C."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from episode import cli_session, cli_tables
from episode.studio import serve
from episode.terminal.quiet import quiet_spark

CONFINED = {"spark.sql.runSQLOnFiles": "false"}
"""Files are no tables in the text of a query: what was given can be read, and nothing else."""


@dataclass(frozen=True)
class StudioArguments:
    """port: None: the usual one. samples: whether sample data is there. opens: whether a browser is opened."""

    tables: Mapping[str, str]
    checkpoints: Sequence[str]
    port: int | None
    samples: bool
    opens: bool


def run(given: StudioArguments, session: cli_session.SessionArguments, notes: Console) -> None:
    """Serve the page until an interrupt or SIGTERM."""
    with notes.status("Starting Spark and opening the tables"), quiet_spark():
        cli_session.start(replace(session, settings={**CONFINED, **session.settings}))
        serving = serve(
            cli_tables.opened(dict(given.tables)),
            port=given.port,
            checkpoints=given.checkpoints,
            samples=given.samples,
        )
    from episode.studio.server import wait_for_signal

    notes.print(Text("The studio is at"))
    notes.print(Text(f"  {serving.address}"), soft_wrap=True, highlight=False)
    notes.print(Text("for browsers of this machine that have the token. Ctrl-C ends it."))
    if given.opens:
        webbrowser.open(serving.address)
    wait_for_signal()
    with notes.status("Stopping"):
        serving.stop()
        serving.studio.tables.spark.stop()
    notes.print("stopped")
