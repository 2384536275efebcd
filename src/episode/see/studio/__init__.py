"""`episode studio`: a page on this machine for writing patterns, running them, and looking at what they find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeError, install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episode.see.studio.server import Serving


def serve(
    tables: Mapping[str, Any] | None = None,
    *,
    spark: SparkSession | None = None,
    port: int | None = None,
    checkpoints: Sequence[str] = (),
    samples: bool = True,
) -> Serving:
    """Serve the studio from this process, in the background; the page also shows the streams of the process.

    Returns a handle: `.address` is where the page is, with the token; `.stop()` ends the runs and the server.
    tables: names with DataFrames, Arrow tables, pandas or Polars frames, or paths; queries read these and nothing else.
    spark: the session to use; else that of a DataFrame, the active one, or a new local one.
    port: of 127.0.0.1; None: 8350, or another one that is free. checkpoints: of live queries that run elsewhere.
    samples: whether there are sample tables, and examples over them.
    """
    try:
        from episode.see.studio.server import start
        from episode.see.studio.studio import open_studio
    except ModuleNotFoundError as error:
        raise EpisodeError(
            f"The studio needs {error.name}, which is not installed.", hint=f"{install('studio')}."
        ) from None
    from episode.queries.tables import session_of

    given = dict(tables or {})
    directory = TemporaryDirectory(prefix="episode-studio-", ignore_cleanup_errors=True)
    try:
        studio = open_studio(session_of(spark, given), given, Path(directory.name), checkpoints, samples)
        return start(studio, port, directory.cleanup)
    except BaseException:
        directory.cleanup()
        raise
