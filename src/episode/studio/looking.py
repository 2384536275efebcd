"""What can be seen of a run: its matches on the series, its plan, and why there is no match at a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.queries.inspecting import inspected
from episode.queries.origins import Origin
from episode.studio.runs import Run, Runs
from episode.studio.values import cell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_KEYS = 200
"""Keys that are offered for a choice: those with the most rows."""


@dataclass(frozen=True)
class Place:
    """Where somebody looks: a pattern of the query by its number, a key by its columns, a time or two."""

    pattern: int | None = None
    key: Mapping[str, Any] | None = None
    at: Any = None
    between: tuple[Any, Any] | None = None


def keys(runs: Runs, run: Run, pattern: int | None) -> dict[str, Any]:
    """The keys of a pattern's events with the number of their rows, the greatest first."""
    first = inspected(_origin(run).pattern(pattern))[0]
    if not first.keys:
        return {"columns": [], "keys": [], "more": False}
    with runs.jobs(run):
        found = first.keys_by_rows(MOST_KEYS + 1).to_pylist()
    offered = [{"key": {name: cell(row[name]) for name in first.keys}, "rows": row["rows"]} for row in found]
    return {"columns": list(first.keys), "keys": offered[:MOST_KEYS], "more": len(offered) > MOST_KEYS}


def why_not(runs: Runs, run: Run, place: Place) -> dict[str, Any]:
    """Why there is no match at a place, as data and as text."""
    from episode.api import why_not as asked

    frame = _planned(run)
    with runs.jobs(run):
        found = asked(frame, key=place.key, at=place.at, between=place.between, pattern=_number(run, place.pattern))
    return {**found.to_dict(), "text": str(found)}


def plot(runs: Runs, run: Run, wish: Mapping[str, Any], width: int) -> dict[str, Any]:
    """A chart of matches for Vega-Lite, and of which key it is. wish: as of `episode.plot`. asks: what kind of values
    the horizontal axis has, where a place on it can be asked about."""
    from episode.pictures.axis import PLACE
    from episode.pictures.plotting import look, spec_of

    frame = _planned(run)
    with runs.jobs(run):
        shown = look(frame, **{**wish, "pattern": _number(run, wish.get("pattern"))}, width=width)
    return {
        "spec": spec_of(shown, width),
        "key": {name: cell(value) for name, value in shown.key.items()},
        "description": shown.description,
        "asks": None if shown.axis.kind == PLACE else shown.axis.kind,
    }


def plan(runs: Runs, run: Run, analyze: bool) -> str:
    """The plans of all patterns as HTML: pictures, tables, words. analyze: they are run, and say what they did."""
    from episode.pictures.plans.shown import PlanPage, shown
    from episode.queries.explaining import explained

    patterns = _origin(run).patterns
    with runs.jobs(run):
        page = shown([explained(placed, analyze) for placed in patterns], "", "html")
    assert isinstance(page, PlanPage)
    return page.fragment


def report(runs: Runs, run: Run, directory: Path) -> bytes:
    """A report of the run, as the bytes of its file."""
    from episode.api import report as written

    frame = _planned(run)
    path = directory / f"{run.id}.html"
    with runs.jobs(run):
        written(frame, path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def _number(run: Run, pattern: int | None) -> int | None:
    return pattern if pattern is not None or len(_origin(run).patterns) == 1 else 1


def _planned(run: Run) -> DataFrame:
    if run.frame is None:
        raise EpisodeAnalysisError("The query is not planned yet.", hint="Wait until the run has begun.")
    return run.frame


def _origin(run: Run) -> Origin:
    _planned(run)
    origin = run.origin
    if origin is None:
        raise EpisodeAnalysisError("There is no pattern in this query: Spark evaluates all of it.")
    return origin
