"""Whether the matches of a row pattern can be found in slices of time, and which rows around a slice they need.

What is found from a start row depends on the rows that a match can have from there on, on the rows that PREV and NEXT
reach beyond them, and on nothing else. So a slice owns the matches that start in it, and is fed the rows after it that
these can reach. Two kinds of results depend on earlier start rows, too, as far back as a match can reach: INCREMENTAL
MATCH reports the longest match for each end (there, a slice owns the matches that end in it), and WITH UNMATCHED ROWS
asks whether an earlier match has a row. With AFTER MATCH SKIP PAST LAST ROW or TO a label, earlier matches say which
rows are start rows at all: there slices are matched in two passes, see `passes`; MATCH_NUMBER() is given by the second.

`^` and `$` need one row more: the first row of a slice is that of the partition if no row comes before it.
"""

from __future__ import annotations

import pyarrow as pa

from episode.matchers.ordering import has_lasting_image
from episode.matchers.slicing import Overlap, Slicing, Unsliced
from episode.plan.output import NumberOfMatch, RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo, condition_with_match_number
from episode.plan.rows.program import END, START

FEW_ROWS = 256
"""Up to so many rows of a match, its slice is fed that many rows more; beyond, those of its window."""
MOST_ROWS = 1 << 16
"""Without a window, matches of at most so many rows are found in slices."""


def slicing_of(plan: RowPatternPlan, schema: pa.Schema) -> Slicing | Unsliced:
    """Of the matches of a plan, over rows of a schema."""
    reason = _hindrance(plan, schema)
    if reason is not None:
        return Unsliced(reason)
    operations = {instruction.operation for instruction in plan.program.instructions}
    before, after = max(plan.lookback, int(START in operations)), max(plan.lookahead, int(END in operations))
    time, rows = reach_of(plan)
    if owned_by_end(plan):
        overlap = Overlap(before_time=time, before_rows=rows + before, after_rows=after)
    elif plan.rules.skip_to is SkipTo.NEXT_ROW and plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
        overlap = Overlap(time, rows + before, time, rows + after)
    else:
        overlap = Overlap(before_rows=before, after_time=time, after_rows=rows + after)
    return Slicing(overlap, chained=is_chain(plan) or is_numbered(plan))


def reach_of(plan: RowPatternPlan) -> tuple[int, int]:
    """How long after its start row a match may end, or how many rows after it: one of the two, the other is zero."""
    longest = plan.length[1]
    if plan.within is None or (longest is not None and longest <= FEW_ROWS):
        assert longest is not None
        return 0, max(0, longest - 1)
    return plan.within, 0


def owned_by_end(plan: RowPatternPlan) -> bool:
    """Does the slice own a match in which it ends? Otherwise, the one in which it starts."""
    return plan.rules.mode is MatchMode.INCREMENTAL and plan.rules.skip_to is SkipTo.NEXT_ROW


def is_chain(plan: RowPatternPlan) -> bool:
    """Do matches say which start rows are tried? Otherwise, they are numbered at most."""
    return plan.rules.skip_to is not SkipTo.NEXT_ROW


def is_numbered(plan: RowPatternPlan) -> bool:
    """Is MATCH_NUMBER() a part of the output?"""
    return NumberOfMatch() in plan.measures.atoms


def _hindrance(plan: RowPatternPlan, schema: pa.Schema) -> str | None:
    """Why one task must match all rows of a key."""
    if not plan.order:
        return "without ORDER BY there is no time by which rows could be cut"
    time = plan.order[0].column
    kind = schema.field(time).type
    if not has_lasting_image(kind):
        return f"the first ORDER BY column, {time}, is of type {kind}, which has no times by which rows could be cut"
    label = condition_with_match_number(plan)
    if label is not None:
        return f"the condition of {label} uses MATCH_NUMBER(), so that a match depends on all matches before it"
    longest = plan.length[1]
    if plan.within is None and longest is None:
        return "nothing bounds a match: there is no WITHIN, and the pattern may take any number of rows"
    if plan.within is None and longest is not None and longest > MOST_ROWS:
        return f"a match may have up to {longest:,} rows, and no WITHIN says how soon it ends"
    to_label = plan.rules.skip_to in (SkipTo.FIRST_LABEL, SkipTo.LAST_LABEL)
    if to_label and plan.rules.mode is MatchMode.INCREMENTAL:
        return "INCREMENTAL MATCH with AFTER MATCH SKIP TO a label leaves out ends that any earlier match may have"
    return None
