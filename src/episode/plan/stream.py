"""What a row pattern needs to run over a stream, checked at plan time."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError, EpisodeWarning
from episode.lang.cursor import Cursor
from episode.lang.duration import parse_duration
from episode.lang.lexer import tokenize
from episode.lang.rows.parser import parse_clause
from episode.lang.syntax import MatchRecognize, RowsPerMatch
from episode.plan.events.returns import MATCH_END, MATCH_START
from episode.plan.rows.explain import state_bound
from episode.plan.rows.inputs import analysis_error
from episode.plan.rows.plan import RowPatternPlan, rows_of_match
from episode.plan.schema import quote
from episode.plan.types import is_event_time, is_integer

ORDER_RULE = "In a stream, ORDER BY begins with the event time, ascending."


@dataclass(frozen=True)
class EventTime:
    """The column by which a stream's events come about in order.

    units_per_millisecond: event times are microseconds, or plain numbers (then one of them counts as a millisecond of
        Spark's clock).
    """

    column: str
    type: str

    @property
    def units_per_millisecond(self) -> int:
        return 1 if is_integer(self.type) else 1000


def event_time_of(plan: RowPatternPlan, types: dict[str, str]) -> EventTime:
    """The event time of a stream; a clear error where the query has none."""
    clause = plan.clause
    if not plan.order:
        raise EpisodeAnalysisError(
            "MATCH_RECOGNIZE over a stream needs an ORDER BY.",
            source=clause.source,
            position=clause.span.start,
            hint=ORDER_RULE,
        )
    first, item = plan.order[0], clause.order_by[0]
    if not first.ascending:
        message = f"The events of a stream do not come ordered by {first.column} DESC."
        raise analysis_error(clause, message, item.column.span, ORDER_RULE)
    type_ = types[first.column]
    if not is_event_time(type_):
        message = f"{first.column} is of type {type_} and cannot be the event time of a stream."
        raise analysis_error(clause, message, item.column.span, "Order by a timestamp, a date or an integer first.")
    return EventTime(first.column, type_)


def warn_if_unbounded(plan: RowPatternPlan, limited: bool) -> None:
    """Say so where nothing bounds what a partition holds."""
    if limited or plan.within is not None or rows_of_match(plan)[1] is not None:
        return
    warnings.warn(
        f"The state of this stream is {state_bound(plan)}. "
        "Add WITHIN, bound the pattern, or set Options(max_state_rows=…).",
        EpisodeWarning,
        stacklevel=2,
    )


def with_match_times(clause: MatchRecognize, columns: Iterable[str]) -> MatchRecognize:
    """The clause with the least and the greatest event time of each match as measures, so that queries can be chained.

    columns: those of the input. Rows are in order of time, or against it: so the times are those of the first and the
    last row.
    """
    if not clause.order_by:
        raise EpisodeAnalysisError(
            "Options(match_times=True) needs an ORDER BY: its first column is the event time.",
            source=clause.source,
            position=clause.span.start,
        )
    _check_match_times(clause, columns)
    first = clause.order_by[0]
    time = quote(first.column.path[-1])
    earliest, latest = f"FIRST({time})", f"FINAL LAST({time})"
    if not first.ascending:
        earliest, latest = latest, earliest
    text = f"MEASURES {earliest} AS {MATCH_START}, {latest} AS {MATCH_END} PATTERN (A)"
    return replace(clause, measures=(*clause.measures, *parse_clause(text).measures))


def _check_match_times(clause: MatchRecognize, columns: Iterable[str]) -> None:
    """The columns that are added may not hide others."""
    for measure in clause.measures:
        if measure.name.lower() in (MATCH_START, MATCH_END):
            message = f"A measure cannot be called {measure.name} where Options(match_times=True) adds such a column."
            raise analysis_error(clause, message, measure.span, "Give the measure another name, or leave the option.")
    whole = clause.rows_per_match is not RowsPerMatch.ONE_ROW
    for name in columns if whole else [reference.path[-1] for reference in clause.partition_by]:
        if name.lower() in (MATCH_START, MATCH_END):
            message = f"The output has a column {name} already, and Options(match_times=True) adds another one."
            hint = "Rename the column in a subquery, or leave the option."
            raise analysis_error(clause, message, clause.span, hint)


def watermark_delay(option: str | int, time: EventTime) -> str:
    """The delay in the words of Spark: `Options(watermark=…)` is a duration, or a number where time is one."""
    if isinstance(option, bool) or not isinstance(option, (str, int)):
        raise EpisodeAnalysisError(f"Options(watermark={option!r}): a duration is needed.", hint=_examples(time))
    text = str(option)
    cursor = Cursor(text, tokenize(text))
    duration = parse_duration(cursor)
    if not cursor.at_end or (duration.unit is None) != is_integer(time.type):
        raise EpisodeAnalysisError(
            f"Options(watermark={option!r}) does not fit the event time {time.column} of type {time.type}.",
            hint=_examples(time),
        )
    milliseconds = -(-duration.amount // time.units_per_millisecond)
    return f"{milliseconds} milliseconds"


def _examples(time: EventTime) -> str:
    return "Write for example 200." if is_integer(time.type) else "Write for example '10 seconds'."
