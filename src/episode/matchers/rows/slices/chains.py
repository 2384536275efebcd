"""Whether a row pattern can be matched in slices of time, and the chains of matches that AFTER MATCH SKIP makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.ordering import has_lasting_image
from episode.matchers.rows.arrays import FoundPaths
from episode.matchers.rows.code.paths import place_of_label
from episode.matchers.slices.slicing import Overlap, Slicing, Unsliced
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import I32, I64, U8
from episode.native.running import compiled_for
from episode.plan.output import NumberOfMatch, RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo, condition_with_match_number
from episode.plan.rows.program import END, START

# Whether the matches of a row pattern can be found in slices of time, and the rows around a slice that they need. The
# matches from a start row depend on the rows that a match can have from there on, on the rows that PREV and NEXT reach
# beyond them, and on nothing else. So a slice owns the matches that start in it, and is fed the rows after it that
# these can reach. Two kinds of results also depend on earlier start rows, as far back as a match can reach: INCREMENTAL
# MATCH reports the longest match for each end (so a slice owns the matches that end in it), and WITH UNMATCHED ROWS
# needs to know whether an earlier match has a row. With AFTER MATCH SKIP PAST LAST ROW or TO a label, earlier matches
# decide which rows are start rows: slices are matched in two passes, see `passes`, the second of which gives
# MATCH_NUMBER(). `^` and `$` need one row more: the first row of a slice is the first of the partition if no row comes
# before it.


FEW_ROWS = 256
"""For matches of up to this many rows, a slice is fed as many rows more; for longer ones, the rows of its window."""
MOST_ROWS = 1 << 16
"""Without a window, matches of at most this number of rows are found in slices."""


def slicing_of(plan: RowPatternPlan, schema: pa.Schema) -> Slicing | Unsliced:
    """The slicing of a plan over rows of a schema."""
    reason = _hindrance(plan, schema)
    if reason is not None:
        return Unsliced(reason)
    operations = {instruction.operation for instruction in plan.program.instructions}
    before, after = max(plan.lookback, int(START in operations)), max(plan.lookahead, int(END in operations))
    time, rows = reach_of(plan)
    if owned_by_end(plan):
        overlap = Overlap(before_time=time, before_rows=rows + before, after_rows=after)
    elif plan.settings.skip_to is SkipTo.NEXT_ROW and plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
        overlap = Overlap(time, rows + before, time, rows + after)
    else:
        overlap = Overlap(before_rows=before, after_time=time, after_rows=rows + after)
    return Slicing(overlap, chained=is_chain(plan) or is_numbered(plan))


def reach_of(plan: RowPatternPlan) -> tuple[int, int]:
    """The longest time from the start row of a match to its end, or the most rows after it; the other is 0."""
    longest = plan.length[1]
    if plan.within is None or (longest is not None and longest <= FEW_ROWS):
        assert longest is not None
        return 0, max(0, longest - 1)
    return plan.within, 0


def owned_by_end(plan: RowPatternPlan) -> bool:
    """Does a slice own the matches that end in it? Otherwise, those that start in it."""
    return plan.settings.mode is MatchMode.INCREMENTAL and plan.settings.skip_to is SkipTo.NEXT_ROW


def is_chain(plan: RowPatternPlan) -> bool:
    """Do matches decide which start rows are tried? Otherwise, they are numbered at most."""
    return plan.settings.skip_to is not SkipTo.NEXT_ROW


def is_numbered(plan: RowPatternPlan) -> bool:
    """Is MATCH_NUMBER() a part of the output?"""
    return NumberOfMatch() in plan.measures.atoms


def _hindrance(plan: RowPatternPlan, schema: pa.Schema) -> str | None:
    """The reason why one task must match all rows of a key."""
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
        return f"a match may have up to {longest:,} rows, and no WITHIN limits how long it lasts"
    to_label = plan.settings.skip_to in (SkipTo.FIRST_LABEL, SkipTo.LAST_LABEL)
    if to_label and plan.settings.mode is MatchMode.INCREMENTAL:
        return "INCREMENTAL MATCH with AFTER MATCH SKIP TO a label leaves out ends that any earlier match may have"
    return None


# Chains of matches: AFTER MATCH SKIP decides at which row the search resumes, and so which start rows are tried.
#
# Places are rows counted from the first one that a slice of time owns. All arrays are by place: following int64: where
# the search resumes after a start row; counts int64: its matches; ends int64: the place after its longest match.


_LINK_TYPES: ArrayTypes = {
    **dict.fromkeys(("start", "length", "number", "path_from", "label_of"), (I64, False)),
    **dict.fromkeys(("place", "following", "counts", "ends"), (I64, True)),
    "kind": (U8, False),
    "path": (I32, False),
}
_TYPES: ArrayTypes = {
    **dict.fromkeys(("following", "counts", "ends"), (I64, False)),
    **dict.fromkeys(("all_following", "all_counts", "all_ends", "before", "joins", "matches", "cover"), (I64, True)),
    **dict.fromkeys(("tried", "is_met"), (U8, True)),
}


class Links(NamedTuple):
    """Successors of the places of a stretch in chains of matches."""

    following: np.ndarray
    counts: np.ndarray
    ends: np.ndarray

    @staticmethod
    def of(places: int) -> Links:
        """Links without any match: the search continues at the next row."""
        return Links(np.arange(1, places + 1), np.zeros(places, np.int64), np.zeros(places, np.int64))

    @property
    def places(self) -> int:
        return len(self.following)

    def select(self, which: np.ndarray | slice) -> Links:
        return Links(*(array[which] for array in self))

    def with_room(self, places: int) -> Links:
        """The same links with room for more places."""
        more = Links.of(places)
        more.put(slice(self.places), self)
        return more

    def put(self, place: np.ndarray | slice, some: Links) -> None:
        """Set the links of some places."""
        for mine, theirs in zip(self, some, strict=True):
            mine[place] = theirs


def links_of(
    found: FoundPaths, emit_timed_out: bool, first: int, places: int, label_of: np.ndarray, labels: int | None,
    to_first: bool,
) -> tuple[np.ndarray, Links]:  # fmt: skip
    """Links from matches, in the order of their start rows, and the place (int64) of each start row with a match.

    first: the row whose place is 0; places: their number. labels: a bit for each label at whose first (to_first) or
    last row the search resumes; None: past the last row. After a match without such a row after its first one, which is
    an error for any chain that visits it, the search resumes at the next row.
    """
    place, *filled = (np.empty(len(found.start), np.int64) for _ in range(4))
    links = Links(*filled)
    arrays = found._asdict() | links._asdict() | {"place": place, "label_of": label_of}
    count = compiled_for(links_program, emit_timed_out, labels, to_first).run(arrays, first, places)
    return place[:count], links.select(slice(count))


def links_program(emit_timed_out: bool, labels: int | None, to_first: bool) -> Program:
    """The program of `links_of`."""
    s = entry_scope("links", _LINK_TYPES)
    f = s.f
    first, places = f.scalar("first"), f.scalar("places")
    last, last_place = f.variable("last", -1), f.variable("last_place", -1)
    with f.loop(0, s.start.length) as i:
        at, length = s.start[i] - first, s.length[i]
        is_match = (at >= 0) & (at < places) & s.kind[i].differs(UNMATCHED)
        with f.when(is_match & s.number[i].differs(TIMED_OUT) if emit_timed_out else is_match):
            with f.when(last_place.differs(at)):
                last.set(last + 1)
                last_place.set(at)
                s.place[last], s.following[last], s.counts[last], s.ends[last] = at, at + 1, 0, 0
            s.counts[last] = s.counts[last] + 1
            with f.when((length > 0) & (at + length > s.ends[last])):
                s.ends[last] = at + length
                ahead = length
                if labels is not None:
                    place = place_of_label(s, "path", s.path_from[i], length, first=to_first, labels=labels)
                    ahead = f.greatest(place, 1)
                s.following[last] = at + ahead
    f.give(last + 1)
    return s.program


# ---- following chains ------------------------------------------------------------------------------------------------


def visit(links: Links, clean: bool) -> tuple[np.ndarray, np.ndarray]:
    """The chain from place 0 on: is_met bool: the places where another chain may join it; before int64: how many of its
    matches start before a place. clean: only where none of its earlier matches reaches beyond the place.
    """
    is_met, before = np.zeros(links.places, np.uint8), np.zeros(links.places, np.int64)
    arrays = links._asdict() | {"is_met": is_met, "before": before}
    compiled_for(chain_program, _visit).run(arrays, int(clean))
    return is_met.view(np.bool_), before


def _visit(s: Scope) -> None:
    f, places = s.f, s.following.length
    clean = f.scalar("clean").differs(0)
    at, cover, count = (f.variable(name, 0) for name in ("at", "cover", "count"))
    with f.during(lambda: at < places):
        here, to = at.value, f.least(s.following[at], places)
        s.is_met[here] = (~clean | (cover <= here)).to(U8)
        cover.set(f.greatest(cover, s.ends[here]))
        s.before[here] = count
        count.set(count + s.counts[here])
        with f.loop(here + 1, to) as passed:
            s.before[passed] = count
        at.set(to)


def join(links: Links, tried: np.ndarray, is_met: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Chains from each place of a stretch: how far they are known (joins int64, a place), how many matches they have
    until there (matches int64), and the place after all of these (cover int64).

    A chain is known up to where it joins the chain of `visit`, leaves the stretch, or comes to a place that was not
    tried (bool) as a start.
    """
    joins, matches, cover = (np.empty(links.places, np.int64) for _ in range(3))
    known = {"tried": tried.view(np.uint8), "is_met": is_met.view(np.uint8)}
    arrays = links._asdict() | known | {"joins": joins, "matches": matches, "cover": cover}
    compiled_for(chain_program, _join).run(arrays)
    return joins, matches, cover


def _join(s: Scope) -> None:
    f, places = s.f, s.following.length
    with f.loop(0, places) as back:
        at = places - 1 - back
        with f.either(s.is_met[at].differs(0) | s.tried[at].equals(0)) as otherwise:
            s.joins[at], s.matches[at], s.cover[at] = at, 0, 0
            otherwise()
            to, count, end = s.following[at], s.counts[at], s.ends[at]
            with f.either(to < places) as otherwise:
                s.joins[at], s.matches[at] = s.joins[to], count + s.matches[to]
                s.cover[at] = f.greatest(end, s.cover[to])
                otherwise()
                s.joins[at], s.matches[at], s.cover[at] = to, count, end


def adopt(links: Links, begin: int, others: Links, tried: np.ndarray) -> None:
    """Put the places that the chain from one of them comes to among those of other chains, up to one tried before."""
    arrays = links._asdict() | {f"all_{name}": array for name, array in others._asdict().items()}
    compiled_for(chain_program, _adopt).run(arrays | {"tried": tried.view(np.uint8)}, begin)


def _adopt(s: Scope) -> None:
    f = s.f
    at = f.variable("at", f.scalar("begin"))
    with f.during(lambda: at < s.following.length) as done:
        here = at.value
        f.jump_if(s.tried[here].differs(0), done)
        s.tried[here] = 1
        to = s.following[here]
        s.all_following[here], s.all_counts[here], s.all_ends[here] = to, s.counts[here], s.ends[here]
        at.set(to)


def chain_program(build: Callable[[Scope], None]) -> Program:
    """The program of one of these functions."""
    s = entry_scope("chains", _TYPES)
    build(s)
    s.f.give(0)
    return s.program
