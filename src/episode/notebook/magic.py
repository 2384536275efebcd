"""`%%episode`: a cell that is a query, over the tables of the notebook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from os import PathLike
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, needs_local_scope
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from episode.lang.lexer import Kind, Token, tokenize
from episode.notebook import showing
from episode.notebook.progress import notebook_progress
from episode.notebook.showing import Shown
from episode.terminal.quiet import quiet_spark

_VALUES = (bool, int, float, str, Decimal, datetime, date, timedelta)
_FRAMES = {"pandas": "DataFrame", "pyarrow": "Table", "polars": "DataFrame"}
"""Classes of tables, which are there only if their module has been loaded."""


@magics_class
class EpisodeMagics(Magics):
    """The magics of episode."""

    @magic_arguments()
    @argument("name", nargs="?", help="The variable that the result is assigned to.")
    @argument("--limit", "-n", type=int, default=10, help="So many rows are shown (default: 10).")
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
        """How results are shown."""
        given = parse_argstring(self.settings, line)
        if given.plots is not None:
            showing.SETTINGS.plots = given.plots == "on"


def tables_of(tokens: list[Token], names: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that are tables and that the query names."""
    mentioned = {token.identifier for token in tokens if token.kind in (Kind.NAME, Kind.QUOTED)}
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
