"""Views of a text and of a run on the page: errors with their place, matches, the plan, reasons, files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.lang.statement import Statement, parse_statement
from episode.queries.checking import check_plan, check_text, confine, plan_over_columns
from episode.queries.origins import QueryOrigin
from episode.see.inspecting import patterns_at
from episode.see.studio.tables import Tables, cell, spark_columns
from episode.terminal.errors import explain_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.see.studio.runs import Run, Runs


def problem_of(error: Exception) -> dict[str, Any]:
    """Return an error as JSON. position and length: of the offending part of the text, in characters, or null.
    text: all of it, with the line and its caret."""
    if not isinstance(error, EpisodeError):
        message = explain_error(error)[0]
        return {**_NOWHERE, "kind": "error", "message": message, "text": message}
    line, column = error.line_and_column or (None, None)
    return {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "position": error.position,
        "length": error.length if error.position is not None else None,
        "line": line,
        "column": column,
        "text": str(error),
    }


_NOWHERE: dict[str, Any] = {"hint": None, "position": None, "length": None, "line": None, "column": None}


_METADATA = "_metadata"
"""A column that only files have: for a query that names it, the tables are taken as they are."""


def check(tables: Tables, text: str) -> dict[str, Any]:
    """Return the error of a query, or the columns of its result, without running it."""
    began = perf_counter()
    found: dict[str, Any] = {"problem": None, "columns": [], "empty": not text.strip()}
    if not found["empty"]:
        try:
            found["columns"] = spark_columns(_plan(tables, text))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong with the text
            found["problem"] = problem_of(error)
    return {**found, "milliseconds": round(1000 * (perf_counter() - began))}


def _plan(tables: Tables, text: str) -> DataFrame:
    statement = read(text)
    as_they_are = _METADATA in text
    frames: Mapping[str, DataFrame] = tables.frames if as_they_are else tables.empty
    with confine(tables.spark):
        result = plan_over_columns(statement, tables.spark, frames, {})
    check_plan(result, list(frames.values()))
    return result


def read(text: str) -> Statement:
    """A statement that may be run here."""
    statement = parse_statement(text)
    check_text(statement)
    return statement


MOST_KEYS = 200
"""Keys that are offered for a choice: those with the most rows."""


def keys(runs: Runs, run: Run, pattern: int | None) -> dict[str, Any]:
    """The keys of a pattern's events with the number of their rows, the greatest first."""
    first = patterns_at(_origin(run).pattern(pattern))[0]
    if not first.keys:
        return {"columns": [], "keys": [], "more": False}
    with runs.jobs(run):
        found = first.keys_by_rows(MOST_KEYS + 1).to_pylist()
    offered = [{"key": {name: cell(row[name]) for name in first.keys}, "rows": row["rows"]} for row in found]
    return {"columns": list(first.keys), "keys": offered[:MOST_KEYS], "more": len(offered) > MOST_KEYS}


def why_not(runs: Runs, run: Run, pattern: int | None, of: Any, at: Any, between: Any) -> dict[str, Any]:
    """Explain why nothing matches at a place, as data and as text. The place is a pattern of the query by its number,
    the value of a key by column, and a time or two."""
    from episode.api import why_not as asked

    frame = _frame(run)
    with runs.jobs(run):
        found = asked(frame, of=of, at=at, between=between, pattern=_number(run, pattern))
    return {**found.to_dict(), "text": str(found)}


def plot(runs: Runs, run: Run, wish: Mapping[str, Any], width: int) -> dict[str, Any]:
    """A chart of matches for Vega-Lite, and of which key it is. wish: as of `episode.plot`. asks: what kind of values
    the horizontal axis has, where a place on it can be asked about."""
    from episode.see.pictures.axis import PLACE
    from episode.see.pictures.plotting import look, spec_of

    frame = _frame(run)
    with runs.jobs(run):
        shown = look(frame, **{**wish, "pattern": _number(run, wish.get("pattern"))}, width=width)
    return {
        "spec": spec_of(shown, width),
        "key": {name: cell(value) for name, value in shown.key.items()},
        "description": shown.description,
        "asks": None if shown.axis.kind == PLACE else shown.axis.kind,
    }


def plan(runs: Runs, run: Run, analyze: bool) -> str:
    """The plans of all patterns as HTML: pictures, tables, words. analyze: they are run and measured."""
    from episode.queries.explaining import explain_pattern, text_of_all
    from episode.see.pictures.plans.formats import fragment

    patterns = _origin(run).patterns
    with runs.jobs(run):
        explained = [explain_pattern(placed, analyze) for placed in patterns]
        return fragment([one.section for one in explained], text_of_all(explained))


def report(runs: Runs, run: Run, directory: Path) -> bytes:
    """A report of the run, as the bytes of its file."""
    from episode.api import report as written

    frame = _frame(run)
    path = directory / f"{run.id}.html"
    with runs.jobs(run):
        written(frame, path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def _number(run: Run, pattern: int | None) -> int | None:
    return pattern if pattern is not None or len(_origin(run).patterns) == 1 else 1


def _frame(run: Run) -> DataFrame:
    if run.frame is None:
        raise EpisodeAnalysisError("The query is not planned yet.", hint="Wait until the run has begun.")
    return run.frame


def _origin(run: Run) -> QueryOrigin:
    _frame(run)
    origin = run.origin
    if origin is None:
        raise EpisodeAnalysisError("There is no pattern in this query: Spark evaluates all of it.")
    return origin


def notebook(text: str, tables: Mapping[str, str | None]) -> str:
    """Return a notebook that runs the query. tables: those that it names, with their paths; None: unknown."""
    opened = [f"{name} = {place!r}" if place else f"{name} = …  # where is it?" for name, place in tables.items()]
    given = "".join(f", {name}={name}" for name in tables)
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": "# A query of episode studio"},
        _code("import episode\n" + ("\n" + "\n".join(opened) if opened else "")),
        _code(f"query = {_literal(text)}\n\nmatches = episode.sql(query{given})\nmatches.limit(1000).toPandas()"),
        {"cell_type": "markdown", "metadata": {}, "source": "How it is evaluated:"},
        _code(f"print(episode.explain(query{given}))"),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, made in enumerate(cells):
        made["id"] = f"cell-{number}"
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _literal(text: str) -> str:
    """The text as a literal of Python over several lines, where that can be; else in one."""
    plain = text.strip("\n")
    readable = "\\" not in plain and '"""' not in plain and not plain.endswith('"')
    return f'"""\n{plain}\n"""' if readable else repr(text)


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
