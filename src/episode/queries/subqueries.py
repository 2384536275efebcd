"""Subqueries in MEASURES and DEFINE of row patterns, evaluated by Spark as a part of the statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.lang.rows.scalar import EXISTS, LIST, VALUE, Subquery, subqueries_of
from episode.lang.syntax import Source
from episode.plan.parameters import SubqueryRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READ_AS = {VALUE: "(SELECT * FROM {rows})", LIST: "SELECT * FROM {rows}", EXISTS: "EXISTS (SELECT * FROM {rows})"}
UNCORRELATED = "A subquery of a row pattern cannot use columns or labels of the pattern: it is evaluated once."


def subquery_rows(query: object, source: Source, run: Callable[[Subquery], DataFrame]) -> dict[str, SubqueryRows]:
    """The values of the parameters in place of a pattern's subqueries. run: makes a DataFrame of a subquery."""
    return {one.name: _rows(one, source, run) for one in subqueries_of(query)}


def _rows(subquery: Subquery, source: Source, run: Callable[[Subquery], DataFrame]) -> SubqueryRows:
    span = subquery.span
    try:
        frame = run(subquery)
    except EpisodeAnalysisError as error:
        error.hint = error.hint or UNCORRELATED
        raise
    if frame.isStreaming:
        raise source.error(
            EpisodeAnalysisError,
            "A subquery of a row pattern is over tables, not over a stream.",
            span,
            "Write what it computes to a table.",
        )
    if subquery.form == VALUE and len(frame.columns) != 1:
        message = f"A subquery has one column here, not {len(frame.columns)}."
        raise source.error(EpisodeAnalysisError, message, span, "Select one value.")
    return SubqueryRows(source.text[span.start : span.end], READ_AS[subquery.form], subquery.form == LIST, frame)
