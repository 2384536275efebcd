"""How long after its times a match of a row pattern may be reported."""

from __future__ import annotations

from episode.lang.rows.syntax import MatchMode, SkipTo
from episode.plan.delays import UNBOUNDED, Delays, plain_values
from episode.plan.expressions import Load
from episode.plan.output import ColumnAtPlace, Extreme, RowMode
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import ACCEPT, END, MATCH


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
    if plan.rules.mode is MatchMode.INCREMENTAL:
        return plan.rules.skip_to is SkipTo.NEXT_ROW
    least, most = plan.length
    return least == most and plan.output.rows is not RowMode.ALL_WITH_UNMATCHED


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
