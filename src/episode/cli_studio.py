"""`episode studio`: the page on this machine, until Ctrl-C."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from episode import cli_session, cli_tables
from episode.errors import EpisodeError
from episode.terminal.compiling import status
from episode.terminal.quiet import quiet_spark

INSTALL = "Install it: pip install 'episode[studio]'."

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
    """Serve the page until an interrupt."""
    try:
        from episode.studio import server
        from episode.studio.studio import open_studio
    except ModuleNotFoundError as error:
        raise EpisodeError(f"The studio needs {error.name}, which is not installed.", hint=INSTALL) from None

    with tempfile.TemporaryDirectory(prefix="episode-studio-", ignore_cleanup_errors=True) as directory:
        with status(notes, "Starting Spark and opening the tables"), quiet_spark():
            cli_session.start(replace(session, settings={**CONFINED, **session.settings}))
            spark = _session()
            samples = Path(directory) if given.samples else None
            studio = open_studio(spark, cli_tables.opened(dict(given.tables)), samples, given.checkpoints)
        serving = server.start(studio, given.port)
        notes.print(Text("The studio is at"))
        notes.print(Text(f"  {serving.address}"), soft_wrap=True, highlight=False)
        notes.print(Text("for browsers of this machine that have the token. Ctrl-C ends it."))
        if given.opens:
            webbrowser.open(serving.address)
        server.wait_for_signal()
        with status(notes, "Stopping"):
            serving.stop()
            spark.stop()
        notes.print("stopped")


def _session():  # type: ignore[no-untyped-def]
    from episode.queries.inputs import session_of

    return session_of(None, {})
