"""Row patterns over streams and in correlations: what they need, checked at plan time, and how long after its times a
match may be reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from episode.errors import EpisodeAnalysisError, warn
from episode.lang.keys import scalar_of
from episode.lang.rows.syntax import (
    MatchMode,
    MatchRecognize,
    Measure,
    Navigation,
    OrderItem,
    RowsPerMatch,
    SkipTo,
)
from episode.lang.syntax import ColumnRef, Mode, RowKey
from episode.plan.event_time import UNBOUNDED, Delays, EventTime, plain_values
from episode.plan.expressions import Load
from episode.plan.output import HIDDEN_END, HIDDEN_START, MATCH_END, MATCH_START, ColumnAtPlace, Extreme, RowMode
from episode.plan.rows.explain import state_bound
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import ACCEPT, END, MATCH
from episode.plan.types import NOT_EVENT_TIME, is_event_time

ORDER_RULE = "In a stream, ORDER BY begins with the event time, ascending."


def event_time_of(plan: RowPatternPlan) -> EventTime:
    """The event time of a stream; a clear error where the query has none."""
    if not plan.order:
        message = "MATCH_RECOGNIZE over a stream needs an ORDER BY."
        raise plan.source.error(EpisodeAnalysisError, message, plan.source.span.beginning, ORDER_RULE)
    first = plan.order[0]
    if not first.ascending:
        message = f"The events of a stream do not come ordered by {first.column} DESC."
        raise plan.source.error(EpisodeAnalysisError, message, first.span, ORDER_RULE)
    if any(name == first.column for _, name in plan.derived):
        message = f"{plan.source.text_at(first.span)} is an expression; the event time of a stream is a column."
        raise plan.source.error(EpisodeAnalysisError, message, first.span, ORDER_RULE)
    type_ = plan.types[first.column]
    if not is_event_time(type_):
        message = f"{first.column} is of type {type_} and cannot be the event time of a stream."
        raise plan.source.error(EpisodeAnalysisError, message, first.span, NOT_EVENT_TIME)
    return EventTime(first.column, type_)


def warn_if_unbounded(plan: RowPatternPlan, limited: bool) -> None:
    """Warn if nothing bounds the rows that a partition holds."""
    if limited or plan.within is not None or plan.length[1] is not None:
        return
    warn(
        f"The state of this stream is {state_bound(plan)}. "
        "Add WITHIN, bound the pattern, or set StreamOptions(max_state_rows=…)."
    )


def in_order_of_time(clause: MatchRecognize, time: str | None) -> MatchRecognize:
    """Return the clause ordered by the event time that its input declares, unless it has an ORDER BY."""
    if clause.order_by or time is None:
        return clause
    column = scalar_of(ColumnRef(None, (time,), clause.source.span.beginning), time)
    return replace(clause, order_by=(OrderItem(RowKey(column), ascending=True, nulls_first=True),))


def with_match_times(clause: MatchRecognize, columns: Iterable[str]) -> MatchRecognize:
    """The clause with the least and the greatest event time of each match as measures, so that queries can be chained.

    columns: those of the input. Rows are in order of time, or against it: so the times are those of the first and the
    last row.
    """
    if not clause.order_by:
        message = "Options(match_times=True) needs an ORDER BY: its first column is the event time."
        raise clause.source.error(EpisodeAnalysisError, message, clause.source.span.beginning)
    _check_match_times(clause, columns)
    return _with_times(clause, MATCH_START, MATCH_END)


def with_hidden_times(clause: MatchRecognize) -> MatchRecognize:
    """Add the same times as hidden measures, for a correlation with another pattern."""
    if not clause.order_by:
        message = "A pattern that RECENCY correlates needs an ORDER BY: its first column is the event time."
        hint = "Write for example ORDER BY ts after PARTITION BY."
        raise clause.source.error(EpisodeAnalysisError, message, clause.source.span.beginning, hint)
    first = clause.order_by[0]
    if not first.ascending:
        message = "A pattern that RECENCY correlates is ordered by event time, ascending."
        raise clause.source.error(EpisodeAnalysisError, message, first.key.span, "Leave DESC out.")
    return _with_times(clause, HIDDEN_START, HIDDEN_END)


def _with_times(clause: MatchRecognize, start: str, end: str) -> MatchRecognize:
    """Add the least and the greatest of `FIRST(time)` and `FINAL LAST(time)` as measures with these names."""
    time, times = clause.order_by[0].key, []
    for logical, mode in (("FIRST", None), ("LAST", Mode.FINAL)):
        place = Navigation(time.expression, logical, 0, 0, mode, time.span)
        times.append(scalar_of(place, f"{logical}({time.expression.original})"))
    earliest, latest = times if clause.order_by[0].ascending else reversed(times)
    return replace(clause, measures=(*clause.measures, Measure(earliest, start), Measure(latest, end)))


def _check_match_times(clause: MatchRecognize, columns: Iterable[str]) -> None:
    """The columns that are added may not hide others."""
    for measure in clause.measures:
        if measure.name.lower() in (MATCH_START, MATCH_END):
            message = f"A measure cannot be called {measure.name} where Options(match_times=True) adds such a column."
            hint = "Give the measure another name, or leave the option."
            raise clause.source.error(EpisodeAnalysisError, message, measure.span, hint)
    whole = clause.rows_per_match is not RowsPerMatch.ONE_ROW
    keys = [key.name or (key.column.path[-1] if key.column else "") for key in clause.partition_by]
    for name in [*keys, *(columns if whole else ())]:
        if name.lower() in (MATCH_START, MATCH_END):
            message = f"The output has a column {name} already, and Options(match_times=True) adds another one."
            hint = "Rename the column in a subquery, or leave the option."
            raise clause.source.error(EpisodeAnalysisError, message, clause.source.span, hint)


# ---- delays ------------------------------------------------------------------------------------------


def row_pattern_delays(plan: RowPatternPlan) -> Delays:
    """The delay of every output column that holds times of rows of the match.

    A start row is decided when its window has passed. Without WITHIN it may wait for ever; but where a match is decided
    with its last row, that row's time is later than any watermark before.
    """
    time = plan.order[0].column
    waits = plan.lookahead > 0 or any(one.operation == END for one in plan.program.instructions)
    of_any = UNBOUNDED if waits else plan.within
    of_last = 0 if not waits and _is_decided_with_its_last_row(plan) else of_any
    delays: Delays = {name: of_any for name, column in plan.output.handed.items() if column == time}
    for name, atom in plain_values(plan.measures):
        if isinstance(atom, ColumnAtPlace) and atom.column == time and atom.place.shift == 0:
            place = atom.place
            last = place.final and not place.first and place.offset == 0 and _has_last_row(plan, place.labels)
        elif isinstance(atom, Extreme) and isinstance(atom.value, Load) and atom.value.column == time:
            last = atom.final and atom.function == "max" and atom.by == atom.value and _has_last_row(plan, atom.labels)
        else:
            continue
        delays[name] = of_last if last else of_any
    return delays


def _is_decided_with_its_last_row(plan: RowPatternPlan) -> bool:
    if plan.settings.mode is MatchMode.INCREMENTAL:
        return plan.settings.skip_to is SkipTo.NEXT_ROW
    least, most = plan.length
    cut = plan.output.timed_out  # the last row of a match that timed out is not the row that decides it
    return least == most and not cut and plan.output.rows is not RowMode.ALL_WITH_UNMATCHED


def _has_last_row(plan: RowPatternPlan, labels: frozenset[str] | None) -> bool:
    """Is the last of the rows with these labels (None: of all rows) always the last of the match?"""
    if labels is None:
        return True
    instructions = plan.program.instructions
    accept = len(instructions) - 1
    if any(accept in (one.first, one.second) for one in instructions) or instructions[accept].operation != ACCEPT:
        return False
    last = instructions[accept - 1]
    return last.operation == MATCH and last.label in labels
