"""Subqueries of row patterns: as values of parameters, which only statements on Spark have."""

from __future__ import annotations

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.subqueries import subqueries_of, with_subqueries
from episode.lang.source import Source
from episode.plan.schema import InputSchema

__all__ = ["check_subqueries", "with_subqueries"]


def check_subqueries(query: object, source: Source, schema: InputSchema) -> None:
    """Raise an error at the first subquery that has no value."""
    for subquery in subqueries_of(query):
        if subquery.name not in schema.arguments:
            raise source.error(
                EpisodeUnsupportedError,
                "A subquery is not evaluated here.",
                subquery.span,
                "episode.sql evaluates subqueries in MEASURES and DEFINE, on Spark. Elsewhere, join what it computes "
                "to the input, or give it as a parameter.",
            )
