"""Row patterns in slices of time: what is fed, what is owned, and how a chain of matches finds its way.

Timelines show rows by their v, `|` for cuts, and matches below them.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeDataError
from episode.matchers.rows.slices.passes import FEW_TURNS, Summary
from episode.matchers.rows.slices.search import SliceSearch
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.matchers.shard import run_shard
from episode.matchers.slices.slicing import (
    FAILURES,
    HEAD,
    RESULTS,
    SUMMARY,
    Chained,
    Entry,
    Overlap,
    Sliceable,
    SliceBounds,
    SliceSpec,
    Slicing,
    Unsliced,
    bounds_between,
)
from tests.support.rows import spec_of, table_in
from tests.support.slices import fed_rows, run_sliced

NUMBERED = "MEASURES FIRST(ts) AS a, LAST(ts) AS b, MATCH_NUMBER() AS n"


def rows_of(values: str) -> list[dict[str, Any]]:
    """A row for each digit, at times 0, 1, 2, …"""
    return [{"k": 1, "ts": ts, "v": int(value), "f": 0.5, "s": "a"} for ts, value in enumerate(values)]


def clause(pattern: str, define: str, skip: str = "PAST LAST ROW", within: str = "", measures: str = NUMBERED) -> str:
    return f"ORDER BY ts {measures} AFTER MATCH SKIP {skip} PATTERN ({pattern}) {within} DEFINE {define}"


def parts_of(spec: RowPatternSpec, values: str, cuts: Sequence[int]) -> dict[int, dict[int, list[bytes]]]:
    """What the first pass makes of each slice: blobs by kind."""
    slicing = spec.slicing
    assert isinstance(slicing, Slicing)
    table = table_in(spec, rows_of(values))
    made: dict[int, dict[int, list[bytes]]] = {}
    for number, bounds in enumerate(bounds_between(cuts)):
        begin, end = fed_rows(np.arange(len(values)), bounds, slicing.overlap)
        for part in spec.first_pass([table.slice(begin, end - begin)], bounds):
            made.setdefault(number, {}).setdefault(part.kind, []).append(part.blob)
    return made


def same_matches(spec: RowPatternSpec, values: str, cuts: Sequence[int]) -> pa.Table:
    """The matches of slices, which are those of one run."""
    table = table_in(spec, rows_of(values))
    sliced, whole = run_sliced(spec, table, cuts), run(spec, table)
    names = [(name, "ascending") for name in whole.column_names]
    assert sliced.sort_by(names) == whole.sort_by(names)
    return sliced


# ---- what is sliced, and with which overlap ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "overlap", "chained"),
    [
        (clause("A B", "A AS v > 1", "TO NEXT ROW", measures="MEASURES A.v AS a"), Overlap(after_rows=1), False),
        (clause("A B+", "B AS v > 1", "TO NEXT ROW", "WITHIN 9", "MEASURES A.v AS a"), Overlap(after_time=9), False),
        (clause("A B+", "B AS v > 1", "TO NEXT ROW", "WITHIN 9"), Overlap(after_time=9), True),
        (
            clause("A B", "A AS v > PREV(v, 2), B AS NEXT(v, 3) > 1", "TO NEXT ROW", "WITHIN 9"),
            Overlap(before_rows=2, after_rows=1 + 3),
            True,
        ),
        (clause("^ A B+ $", "A AS v > 1", within="WITHIN 9"), Overlap(before_rows=1, after_time=9, after_rows=1), True),
        (
            clause("A B+", "B AS v > PREV(v)", "TO NEXT ROW INCREMENTAL MATCH", "WITHIN 9", "MEASURES A.v AS a"),
            Overlap(before_time=9, before_rows=1),
            False,
        ),
        (
            "ORDER BY ts ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+) WITHIN 9 "
            "DEFINE B AS v > PREV(v)",
            Overlap(before_time=9, before_rows=1, after_time=9),
            False,
        ),
        (clause("A{300}", "A AS v > 1", within="WITHIN 9"), Overlap(after_time=9), True),
        (clause("A{300}", "A AS v > 1"), Overlap(after_rows=299), True),
    ],
)
def test_overlaps(text: str, overlap: Overlap, chained: bool) -> None:
    spec = spec_of(text)
    assert spec.slicing == Slicing(overlap, chained)
    assert isinstance(spec, Sliceable)
    assert isinstance(spec, Chained)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("MEASURES A.v AS a PATTERN (A B) DEFINE A AS v > 1", "without ORDER BY"),
        ("ORDER BY s MEASURES A.v AS a PATTERN (A B) DEFINE A AS v > 1", "ORDER BY column, s, is of type string"),
        (clause("A B+", "B AS v > 1"), "nothing bounds a match"),
        (clause("A{70000}", "A AS v > 1"), "up to 70,000 rows"),
        (clause("A B", "B AS v > MATCH_NUMBER()"), "the condition of B uses MATCH_NUMBER()"),
        (clause("A B", "B AS v > 1", "TO LAST B INCREMENTAL MATCH"), "INCREMENTAL MATCH with AFTER MATCH SKIP TO"),
    ],
)  # fmt: skip
def test_reasons_for_one_task(text: str, reason: str) -> None:
    slicing = spec_of(text).slicing
    assert isinstance(slicing, Unsliced)
    assert reason in slicing.reason
    with pytest.raises(ValueError, match="cannot be sliced"):
        run_sliced(spec_of(text), table_in(spec_of(text), []), [])


def test_fed_rows_at_the_ends_of_time() -> None:
    time = np.array([np.iinfo(np.int64).min, 0, 0, 5, np.iinfo(np.int64).max])
    overlap = Overlap(before_time=2**63, before_rows=1, after_time=2**63, after_rows=1)
    assert fed_rows(time, SliceBounds(5, 6), overlap) == (0, 5)
    assert fed_rows(time, SliceBounds(5, 6), Overlap()) == (3, 4)
    assert fed_rows(time, SliceBounds(5, 6), Overlap(before_rows=1, after_rows=1)) == (2, 5)
    assert fed_rows(time, SliceBounds(None, 0), Overlap(after_time=0)) == (0, 3)
    assert fed_rows(time[:0], SliceBounds(1, 2), overlap) == (0, 0)


def test_a_slice_runs_like_any_spec() -> None:
    """Shipped to a worker, and fed in pieces because it does not fit the memory."""
    spec = spec_of(clause("A B+ C", "B AS v > 0, C AS v = 0", "TO NEXT ROW", "WITHIN 5", "MEASURES FIRST(ts) AS a"))
    values = "1102" * 500
    table = table_in(spec, rows_of(values))
    one = pickle.loads(pickle.dumps(SliceSpec(spec, SliceBounds(1000, 1500))))
    fed = table.slice(1000, 506)
    chunks = [fed.slice(at, 100) for at in range(0, fed.num_rows, 100)]
    starts = [start for batch in run_shard(one, chunks, 4_000) for start in batch.column(0).to_pylist()]
    whole = run(spec, table).column(0).to_pylist()
    assert sorted(starts) == sorted(start for start in whole if 1000 <= start < 1500)
    assert len(starts) > 100


# ---- chains --------------------------------------------------------------------------------------------


def test_chains_that_never_join() -> None:
    """Triples of any rows: the second slice is entered at its second place, and its own chain never comes there.

    111 111 1|11 111 111 …
    """
    spec = spec_of(clause("A{3}", "A AS v > 0"))
    for cuts in ([7], [7, 8], [7, 50, 98], list(range(0, 100, 7))):
        found = same_matches(spec, "1" * 100, cuts)
        assert found.num_rows == 33
    summary = Summary.from_bytes(parts_of(spec, "1" * 100, [7])[1][SUMMARY][0])
    assert summary.places == 93
    assert summary.joins.tolist() == [0, 93, 93]
    assert summary.matches_before.tolist() == [0, 30, 30]


def test_an_entry_beyond_the_end_of_a_slice() -> None:
    """A match of five rows covers slices of one and two rows.

    1 |1|1 1|1 0 1
    """
    spec = spec_of(clause("A{5}", "A AS v > 0"))
    for cuts in ([1, 2, 4], [1, 2, 3, 4, 5], [3], [6]):
        assert same_matches(spec, "1111101", cuts).num_rows == 1
    assert same_matches(spec, "11111" * 4, list(range(20))).num_rows == 4


def test_slices_without_rows() -> None:
    spec = spec_of(clause("A+ B", "A AS v > 0, B AS v = 0", within="WITHIN 4"))
    for cuts in ([-5, -2], [100, 200], [3, 4, 4, 5], [-1, 2, 100]):
        same_matches(spec, "1101110110", cuts)
    assert run_sliced(spec, table_in(spec, []), [3]).num_rows == 0
    assert list(spec.first_pass([], SliceBounds(1, 2))) == []


def test_no_head_where_every_entry_is_free() -> None:
    """Chains of matches of single rows, and of rows that no match has, are met at every place."""
    single = spec_of(clause("A", "A AS v > 0"))
    none = spec_of(clause("A B", "A AS v > 0, B AS v > A.v"))
    for spec in (single, none):
        parts = parts_of(spec, "11111", [2])
        assert HEAD not in parts[1]
        assert FAILURES not in parts[1]


def test_a_head_is_as_long_as_corrections_are() -> None:
    """A match over the cut leaves off within its slice, and the chains are one after the next gap."""
    spec = spec_of(clause("A{2}", "A AS v > 0"))
    values = "111101" + "1101" * 100
    parts = parts_of(spec, values, [2])
    head = pa.ipc.open_stream(parts[1][HEAD][0]).read_all()
    assert head.num_rows <= 8
    assert len(parts[0][RESULTS]) == len(parts[1][RESULTS]) == 1
    same_matches(spec, values, [2])


def test_attempts_beside_the_chain_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """From start rows alone at which a chain may be that has not joined; and if that lasts, along each chain."""
    tried: list[list[int]] = []
    followed: list[int] = []
    original, chain = SliceSearch.try_each, SliceSearch.chain

    def noted(self: SliceSearch, links: Any, places: np.ndarray) -> None:
        tried.append(places.tolist())
        original(self, links, places)

    def noted_chain(self: SliceSearch, begin: int, places: int) -> Any:
        followed.append(begin)
        return chain(self, begin, places)

    monkeypatch.setattr(SliceSearch, "try_each", noted)
    monkeypatch.setattr(SliceSearch, "chain", noted_chain)
    spec = spec_of(clause("A{4}", "A AS v > 0"))
    parts_of(spec, "1" * 10 + "0" + "1110" * 1000, [5])
    assert tried == [[1, 2, 3]]
    tried.clear()
    parts_of(spec, "1" * 500, [5])
    assert tried[:2] == [[1, 2, 3], [5, 6, 7]]
    assert len(tried) < 4 * FEW_TURNS
    assert len(followed) < 30
    tried.clear()
    ends = spec_of(clause("A B{0,8} C", "A AS v > 0, B AS v > 0, C AS v = 2"))
    parts_of(ends, "1111111211111211111", [5])
    assert tried == [[3]]


# ---- errors --------------------------------------------------------------------------------------------

TO_B = clause("A C C B | C B?", "A AS v = 1, C AS v = 3, B AS v = 2", "TO B")
"""An error where the chain comes to a 3 without a 2 after it: the match has no B to skip to."""


@pytest.mark.parametrize("cuts", [[1], [2], [3], [1, 2], [1, 2, 3, 4]])
def test_an_error_beside_the_true_chain(cuts: list[int]) -> None:
    """A match leads from 1 to 2; a slice that begins at a 3 does not know of it, and comes to an error.

    1|3 3 2 0
    """
    spec = spec_of(TO_B)
    same_matches(spec, "13320", cuts)
    parts = parts_of(spec, "13320", [1])
    assert FAILURES in parts[1]
    assert FAILURES not in parts[0]


@pytest.mark.parametrize("cuts", [[], [1], [2], [3], [1, 2, 3], [5], list(range(8))])
@pytest.mark.parametrize("values", ["0332000", "3", "1332003"])
def test_errors_that_the_true_chain_meets(values: str, cuts: list[int]) -> None:
    spec = spec_of(TO_B)
    table = table_in(spec, rows_of(values))
    with pytest.raises(EpisodeDataError) as whole:
        run(spec, table)
    with pytest.raises(EpisodeDataError) as sliced:
        run_sliced(spec, table, cuts)
    assert str(whole.value) == str(sliced.value)
    assert "ts = " in str(sliced.value)


@pytest.mark.parametrize("cuts", [[2], [4], [5], [1, 3]])
def test_any_of_several_errors_comes(cuts: list[int]) -> None:
    spec = spec_of(TO_B)
    with pytest.raises(EpisodeDataError, match=r"ts = [45]: the match has no row labelled B"):
        run_sliced(spec, table_in(spec, rows_of("1332330")), cuts)


def test_errors_that_every_chain_meets_come_at_once() -> None:
    """Chains from all entries have joined when the slice's own comes to the first error: nothing more is tried."""
    with pytest.raises(EpisodeDataError, match="has no row labelled B"):
        parts_of(spec_of(TO_B), "1332" + "0" * 10 + "30" * 1000, [1])


def test_budgets_are_those_of_start_rows() -> None:
    text = clause("(A+)+ B", "A AS sum(A.v) < 40, B AS v > 5 * A.v", within="WITHIN 30")
    spec = spec_of(text, step_budget=1000)
    table = table_in(spec, rows_of("1" * 60))
    with pytest.raises(EpisodeDataError, match="steps"):
        run(spec, table)
    with pytest.raises(EpisodeDataError, match="steps"):
        run_sliced(spec, table, [20, 40])


# ---- summaries -----------------------------------------------------------------------------------------


def test_summaries_travel() -> None:
    numbers = [np.arange(3), np.arange(3) * 2, np.arange(3) + 5, np.zeros(3, np.int64)]
    summary = Summary(10, 2, 11, 4, 12, *numbers)
    again = Summary.from_bytes(summary.to_bytes())
    assert (again.places, again.rows_before, again.leaves, again.matches, again.cover) == (10, 2, 11, 4, 12)
    assert [array.tolist() for array in (again.joins, again.matches_before, again.cover_before, again.left_out)] == [
        array.tolist() for array in numbers
    ]


def test_the_way_through_slices() -> None:
    """Joined, passed over without joining, and beyond the end of a slice."""
    none = np.zeros(1, np.int64)
    joined = Summary(10, 0, 11, 4, 12, np.array([0, 3]), np.array([0, 2]), np.array([0, 9]), np.array([0, 1]))
    assert joined.next_entry(Entry()) == Entry(1, 4, 2)
    assert joined.next_entry(Entry(1, 7, 3)) == Entry(1, 7 + 2 + 4 - 1, 2)
    apart = Summary(10, 0, 11, 4, 12, np.array([0, 13]), np.array([0, 2]), np.array([0, 14]), np.array([0, 0]))
    assert apart.next_entry(Entry(1, 7)) == Entry(3, 9, 4)
    short = Summary(2, 0, 2, 0, 0, none, none, none, none)
    assert short.next_entry(Entry(5, 7, 6)) == Entry(3, 7, 4)
    assert short.next_entry(Entry(2, 7, 1)) == Entry(0, 7, 0)
