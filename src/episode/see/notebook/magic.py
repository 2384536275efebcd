"""`%%episode`: a cell that is a query, over the tables of the notebook; results that show themselves; progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from html import escape
from io import StringIO
from itertools import pairwise
from os import PathLike
from threading import Event
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, needs_local_scope
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from episode.errors import EpisodeError
from episode.lang.lexer import Kind, Token, tokenize
from episode.queries.origins import origin_of
from episode.see.reports.data import ResultPart
from episode.see.reports.tables import result_table
from episode.terminal.progress import PATIENCE, PERIOD, run_alongside, running_tasks
from episode.terminal.quiet import quiet_spark
from episode.words import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 10
_RESULT_STYLE = """<style>
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
        return f'{_RESULT_STYLE}<div class="episode-result">{"".join(parts)}{drawn}</div>'

    def __repr__(self) -> str:
        from rich.console import Console

        from episode.terminal.table import result_table

        screen = Console(file=StringIO(), width=120, record=True, force_jupyter=False)
        screen.print(result_table(list(self.result.columns), self.result.first))
        return f"{self.words}\n{screen.export_text()}" if self.result.first else self.words


def html_of(frame: Any) -> str | None:
    """A DataFrame at the end of a cell: the result of a pattern, or one that Spark shows in its own way."""
    try:
        origin_of(frame)
    except EpisodeError:
        return frame._repr_html_()
    if frame.isStreaming:
        return None
    with notebook_progress(frame.sparkSession):
        return Shown.of(frame, plot=SETTINGS.plots)._repr_html_()


def _plot(frame: DataFrame) -> str:
    from episode import api

    count = len(origin_of(frame).patterns)
    return api.plot(frame, pattern=1 if count > 1 else None).to_svg()


_STYLE = "font:13px system-ui,sans-serif;color:#5b6675"
_TRACK = "display:inline-block;width:240px;height:9px;background:#dfe5ee;border-radius:4px;vertical-align:middle"
_BAR = "display:block;height:9px;background:#2f5fb3;border-radius:4px"


@contextmanager
def notebook_progress(spark: Any, patience: float = PATIENCE) -> Iterator[None]:
    """Show how many tasks are done while the body runs Spark actions. patience: seconds of work before a bar appears:
    faster work shows nothing. A session without a status tracker (Spark Connect) shows no bar."""
    context = getattr(spark, "sparkContext", None)
    publish = _publisher()
    if context is None or publish is None:
        yield
        return
    # The thread writes to the output of this cell: it needs the cell's context.
    with run_alongside(copy_context().run, _watch, context.statusTracker(), publish, patience):
        yield


def _publisher() -> Callable[[], Any] | None:
    """Return a function that makes a place in the output of a cell; None if nobody sees it."""
    from IPython.core.getipython import get_ipython
    from IPython.display import DisplayHandle

    shell = get_ipython()
    return None if shell is None or not hasattr(shell, "kernel") else DisplayHandle


def _watch(tracker: Any, publish: Callable[[], Any], patience: float, done: Event) -> None:
    if done.wait(patience):
        return
    place = publish()
    place.display(_html("planning", 0, 0), raw=True)
    while not done.wait(PERIOD):
        stages, finished, total = running_tasks(tracker)
        if total:
            place.update(_html("stage " + ", ".join(map(str, stages)), finished, total), raw=True)
    place.update({"text/html": "", "text/plain": ""}, raw=True)


def _html(what: str, finished: int, total: int) -> dict[str, str]:
    """The bar, for both kinds of screens."""
    words = f"{what}: {finished} of {total} tasks" if total else what
    width = 100 * finished / total if total else 0
    bar = f'<span style="{_TRACK}"><span style="{_BAR};width:{width:.0f}%"></span></span>'
    return {"text/html": f'<div style="{_STYLE}" role="status">{bar} {escape(words)}</div>', "text/plain": words}


_VALUES = (bool, int, float, str, Decimal, datetime, date, timedelta)
_FRAMES = {"pandas": "DataFrame", "pyarrow": "Table", "polars": "DataFrame"}
"""Classes of tables, which are there only if their module has been loaded."""


@magics_class
class EpisodeMagics(Magics):
    """The magics of episode."""

    @magic_arguments()
    @argument("name", nargs="?", help="The variable that the result is assigned to.")
    @argument("--limit", "-n", type=int, default=10, help="The number of rows to show (default: 10).")
    @argument("--plot", "-p", action="store_true", help="Draw the longest match, and the rows around it.")
    @argument("--explain", "-e", action="store_true", help="Show the plan, and run nothing.")
    @argument("--table", "-t", action="append", default=[], metavar="NAME=PATH", help="A table of files.")
    @needs_local_scope
    @cell_magic
    def episode(self, line: str, cell: str, local_ns: Mapping[str, Any] | None = None) -> None:
        """Run the cell as a query and show its result. Tables and :parameters are the variables of these names."""
        from episode import api

        given = parse_argstring(self.episode, line)
        if given.name is not None and not given.name.isidentifier():
            raise UsageError(f"%%episode: {given.name} cannot be the name of a variable.")
        if given.limit < 0:
            raise UsageError("%%episode: --limit is a number from 0 on.")
        names: dict[str, Any] = {**self.shell.user_ns, **(local_ns or {})}
        tokens = tokenize(cell)
        tables = {**tables_of(tokens, names), **_paths(given.table)}
        arguments = parameters_of(tokens, names)
        if given.explain:
            with quiet_spark():
                plan = api.explain(cell, arguments, tables=tables)
            display(plan)
            return
        with quiet_spark():
            result = api.sql(cell, arguments, tables=tables)
        if given.name is not None:
            self.shell.user_ns[given.name] = result
        with notebook_progress(result.sparkSession):
            shown = Shown.of(result, given.limit, plot=given.plot)
        display(shown)

    @magic_arguments()
    @argument("--plots", choices=("on", "off"), help="Whether DataFrames of matches show themselves with a plot.")
    @line_magic("episode")
    def settings(self, line: str) -> None:
        given = parse_argstring(self.settings, line)
        if given.plots is not None:
            SETTINGS.plots = given.plots == "on"


def tables_of(tokens: list[Token], names: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that are tables and that the query names."""
    mentioned = {token.identifier for token in tokens if token.is_name}
    return {name: names[name] for name in sorted(mentioned) if name in names and is_table(names[name])}


def parameters_of(tokens: list[Token], names: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that stand for :parameters of the query."""
    asked = [
        name.text
        for colon, name in pairwise(tokens)
        if colon.is_symbol(":") and name.kind is Kind.NAME and colon.end == name.start
    ]
    return {name: names[name] for name in asked if name in names and isinstance(names[name], _VALUES)}


def is_table(value: object) -> bool:
    """Is a variable something that `sql` takes as a table? Texts are not: too many are something else."""
    if isinstance(value, type):
        return False
    if isinstance(value, PathLike) or (hasattr(value, "sparkSession") and hasattr(value, "isStreaming")):
        return True
    for module, name in _FRAMES.items():
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(value, getattr(loaded, name, ())):
            return True
    return False


def _paths(given: list[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, separator, path = one.partition("=")
        if not separator or not name or not path:
            raise UsageError(f"%%episode: --table {one}: write --table NAME=PATH.")
        found[name] = path
    return found


_DATAFRAMES = (("pyspark.sql.classic.dataframe", "DataFrame"), ("pyspark.sql.connect.dataframe", "DataFrame"))


def load(shell: Any) -> None:
    """Into a shell of IPython."""
    shell.register_magics(EpisodeMagics)
    formatter = shell.display_formatter.formatters["text/html"]
    for module, name in _DATAFRAMES:
        formatter.for_type_by_name(module, name, html_of)


def unload(shell: Any) -> None:
    """Out of it again: DataFrames show themselves as Spark's do."""
    formatter = shell.display_formatter.formatters["text/html"]
    for module, name in _DATAFRAMES:
        for found in [key for key in formatter.type_printers if (key.__module__, key.__name__) == (module, name)]:
            formatter.pop(found)
        formatter.deferred_printers.pop((module, name), None)
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("episode", None)
