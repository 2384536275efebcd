"""One studio: its tables, its runs and the streams that it watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeError
from episode.lang.statement import parse_statement
from episode.queries.checking import named_tables
from episode.see.studio import tables as gallery
from episode.see.studio.runs import Runs
from episode.see.studio.streams import Streams
from episode.see.studio.tables import Tables, open_tables
from episode.see.studio.views import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 3
"""Checks of each example when a studio begins."""


@dataclass(frozen=True)
class Studio:
    """directory: for files that are made while it runs. paths: of the tables that were given by their paths, for
    exports."""

    tables: Tables
    runs: Runs
    streams: Streams
    directory: Path
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def offers(self) -> dict[str, bool]:
        """Features of the page that the installed packages allow."""
        draws = find_spec("altair") is not None and find_spec("vl_convert") is not None
        return {"plot": draws, "report": draws}

    def warm(self) -> None:
        """Check every example a few times, in the background: the first checks of a session take seconds, later ones
        milliseconds."""
        for _ in range(ROUNDS):
            for example in gallery.EXAMPLES:
                if self.runs.closed:
                    return
                check(self.tables, example.text)

    def places(self, text: str) -> dict[str, str | None]:
        """Return the tables that a text names, with their known paths; all tables for a text that cannot be parsed."""
        try:
            named = list(named_tables(parse_statement(text), self.tables.frames))
        except EpisodeError:
            named = list(self.tables.frames)
        return {name: self.paths.get(name) for name in named}

    def close(self) -> None:
        self.runs.close()


def open_studio(
    spark: SparkSession,
    given: Mapping[str, Any],
    directory: Path,
    checkpoints: Sequence[str] = (),
    samples: bool = True,
) -> Studio:
    """A studio over tables. directory: for what is written while it runs. samples: whether there is sample data."""
    from episode.spark.jobs import check_classic

    check_classic(spark, "The studio")
    tables = open_tables(spark, given, directory if samples else None)
    paths = {name: table for name, table in given.items() if isinstance(table, str)}
    return Studio(tables, Runs(tables), Streams(spark, tuple(checkpoints)), directory, paths)
