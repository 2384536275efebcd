"""What is known of all matches of a row pattern, whatever the rows are."""

from __future__ import annotations

from episode.matchers.protocol import Traits
from episode.matchers.rows.program import LARGE_PROGRAM, later_labels
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo, uses_match_number
from episode.plan.rows.program import END, START


def traits_of(plan: RowPatternPlan) -> Traits:
    """Of the matches of a plan."""
    by_end = plan.rules.mode is MatchMode.INCREMENTAL
    ends_open = plan.lookahead > 0 or any(one.operation == END for one in plan.program.instructions)
    conditions = plan.conditions
    walls = len(plan.program.instructions) <= LARGE_PROGRAM and all(
        label in conditions and bool(conditions[label].row_local) for label in later_labels(plan.program)
    )
    return Traits(
        prompt=by_end and plan.rules.skip_to is SkipTo.NEXT_ROW and not ends_open,
        dependent=_dependence(plan),
        lookback=plan.lookback,
        by_end=by_end,
        longest=plan.length[1],
        within=plan.within,
        walls=walls,
        by_start=not by_end,
    )


def _dependence(plan: RowPatternPlan) -> str | None:
    """Why a match may depend on more than its own rows."""
    if plan.rules.skip_to is not SkipTo.NEXT_ROW:
        return f"AFTER MATCH SKIP {plan.rules.skip_to.value} makes a match depend on the matches before it"
    if uses_match_number(plan):
        return "MATCH_NUMBER() counts all matches of a partition"
    if any(one.operation in (START, END) for one in plan.program.instructions):
        return "^ and $ are bounds of the whole partition"
    if plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
        return "WITH UNMATCHED ROWS depends on all matches around a row"
    if plan.output.timed_out:
        return "EMIT TIMED OUT MATCHES gives rows that are no match"
    return None
