"""Errors in the data of a row pattern, which name the row and the remedy."""

from __future__ import annotations

from episode.errors import EpisodeDataError
from episode.matchers.protocol import EventBatch, StateLimit
from episode.matchers.rows import arrays as codes
from episode.plan.rows.plan import RowPatternPlan


def is_bounded(plan: RowPatternPlan) -> bool:
    """Does a window or the pattern itself bound how far a start row may look?"""
    return plan.within is not None or plan.length[1] is not None


def too_many_held(plan: RowPatternPlan, events: EventBatch, count: int, limit: StateLimit) -> EpisodeDataError:
    """A key holds `count` rows from the first of these events on, more than the limit."""
    holder = events.values_at(0, plan.keys) or "The stream"
    return plan.source.error(
        EpisodeDataError,
        f"{holder} holds {count:,} rows for a match that is still open; max_state_rows is {limit.rows:,}.",
        plan.source.pattern,
        "Add WITHIN, bound the pattern, raise max_state_rows, or give such matches up: when_full='drop'.",
    )


def matching_failed(plan: RowPatternPlan, events: EventBatch, row: int, status: int, budget: int) -> EpisodeDataError:
    """The search stopped at a start row, the first of these events."""
    source, skip = plan.source, plan.settings.skip_label
    names = dict.fromkeys([*plan.keys, *(column.column for column in plan.order)])
    place = events.values_at(0, names) or f"row {row}"
    span = source.pattern
    if status == codes.BUDGET_SPENT:
        message = f"Matching from one start row ({place}) took more than {budget:,} steps."
        hint = "Narrow the conditions, add WITHIN, or raise Tuning(step_budget=…)."
    elif status == codes.ALL_BUDGETS_SPENT and not is_bounded(plan):
        message = (
            f"Matching took more than {codes.BUDGETS * budget:,} steps in all and {codes.STEPS_PER_ROW_READ:,} for "
            f"each row, from start rows up to {place}: nothing limits how far a start row may look, and each looks far."
        )
        hint = "Add WITHIN, bound the repetitions (B{0,100} for B*), let their conditions end them sooner, or raise "
        hint += "Tuning(step_budget=…)."
    elif status == codes.ALL_BUDGETS_SPENT:
        message = (
            f"Matching took more than {codes.BUDGETS * budget:,} steps in all, from start rows up to {place}: rows "
            "may have labels in many ways, and each of them is tried."
        )
        hint = "Make the conditions of labels at one place exclude each other, add WITHIN, or raise "
        hint += "Tuning(step_budget=…)."
    else:
        reason = f"{skip} is the first row of the match, so matching would never advance"
        if status == codes.SKIP_NOT_FOUND:
            reason = f"the match has no row labelled {skip}"
        span = plan.settings.skip_span
        message = f"AFTER MATCH {source.text_at(span)} is not possible for the match that starts at {place}: {reason}."
        hint = "Skip to a label that every match has after its first row, or SKIP PAST LAST ROW."
    return source.error(EpisodeDataError, message, span, hint)
