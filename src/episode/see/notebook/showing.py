"""Results in a notebook: the number of rows, the first of them, and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeError
from episode.queries.origins import origin_of
from episode.see.reports.data import ResultPart
from episode.see.reports.tables import result_table
from episode.words import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 10
_STYLE = """<style>
.episode-result th, .episode-result td { text-align: left !important }
.episode-result th.n, .episode-result td.n { text-align: right !important }
</style>"""


@dataclass
class Settings:
    """plots: whether DataFrames of matches that a cell ends with show themselves with one."""

    plots: bool = True


SETTINGS = Settings()


@dataclass(frozen=True)
class Shown:
    """A result, computed once. plot: as SVG, or None; note: why a plot that was asked for is missing."""

    result: ResultPart
    plot: str | None
    note: str = ""

    @staticmethod
    def of(frame: DataFrame, rows: int = ROWS, plot: bool = False) -> Shown:
        """Run a query for its first rows, and for a picture of its longest match."""
        from episode.spark.inspection import cache_frame, first_rows

        if frame.isStreaming:
            raise EpisodeError(
                "The result is a stream, which does not end.", hint="Start it: frame.writeStream … .start()."
            )
        with cache_frame(frame):
            count, first = first_rows(frame, rows)
            part = ResultPart(count, tuple(frame.columns), tuple(map(tuple, first)))
            if not plot:
                return Shown(part, None)
            try:
                return Shown(part, _plot(frame))
            except EpisodeError as error:
                return Shown(part, None, f"No plot: {error.message}")

    @property
    def words(self) -> str:
        shown = len(self.result.first)
        count = count_of(self.result.rows, "row")
        return f"{count}, the first {shown:,}:" if 0 < shown < self.result.rows else count

    def _repr_html_(self) -> str:
        parts = [f"<p>{self.words}</p>"]
        if self.result.first:
            parts.append(result_table(self.result))
        if self.note:
            parts.append(f"<p>{escape(self.note)}</p>")
        drawn = "" if self.plot is None else f"<div>{self.plot}</div>"
        return f'{_STYLE}<div class="episode-result">{"".join(parts)}{drawn}</div>'

    def __repr__(self) -> str:
        """For a terminal."""
        from rich.console import Console

        from episode.terminal.table import result_table

        screen = Console(file=StringIO(), width=120, record=True, force_jupyter=False)
        screen.print(result_table(list(self.result.columns), self.result.first))
        return f"{self.words}\n{screen.export_text()}" if self.result.first else self.words


def html_of(frame: Any) -> str | None:
    """A DataFrame at the end of a cell: the result of a pattern, or one that Spark shows in its own way."""
    from episode.see.notebook.magic import notebook_progress

    try:
        origin_of(frame)
    except EpisodeError:
        return frame._repr_html_()
    if frame.isStreaming:
        return None
    with notebook_progress(frame.sparkSession):
        return Shown.of(frame, plot=SETTINGS.plots)._repr_html_()


def _plot(frame: DataFrame) -> str:
    """The first pattern's longest match."""
    from episode import api

    count = len(origin_of(frame).patterns)
    return api.plot(frame, pattern=1 if count > 1 else None).to_svg()
