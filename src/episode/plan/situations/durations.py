"""Durations of a situation pattern that are parameters: their values, and whether these can be kept."""

from __future__ import annotations

from dataclasses import replace

from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError
from episode.lang.cursor import Cursor
from episode.lang.lexer import tokenize
from episode.lang.situations.define import check_limits
from episode.lang.situations.durations import check_pairs, check_window
from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import Duration
from episode.plan.parameters import Arguments, bound_duration


def with_bound_durations(query: SituationQuery, arguments: Arguments) -> SituationQuery:
    """The query with durations in place of parameters, checked as those that are written out."""
    limits = [limit for one in query.definitions for limit in (one.at_least, one.at_most)]
    if all(duration is None or duration.parameter is None for duration in (*limits, query.within)):
        return query

    def bound(duration: Duration | None, zero: str) -> Duration | None:
        if duration is None or duration.parameter is None:
            return duration
        found = replace(bound_duration(duration, arguments, query.source), parameter=None)
        if found.amount == 0:
            raise query.source.error(EpisodeAnalysisError, zero, duration.span, "Give a longer duration.")
        return found

    longer = "A duration here must be longer than zero."
    definitions = tuple(
        replace(one, at_least=bound(one.at_least, longer), at_most=bound(one.at_most, longer))
        for one in query.definitions
    )
    within = bound(query.within, "No match fits WITHIN zero.")
    cursor = Cursor(query.source.text, tokenize(query.source.text))
    try:
        for one in definitions:
            check_limits(cursor, one.symbol, one.at_least, one.at_most)
        check_pairs(cursor, definitions, query.constraints)
        check_window(cursor, definitions, within)
    except EpisodeSyntaxError as error:
        raise EpisodeAnalysisError(
            error.message, source=error.source, position=error.position, length=error.length, hint=error.hint
        ) from None
    return replace(query, definitions=definitions, within=within)
