"""The oracle for recency correlation: the paper's worked example, the borders of the definitions, the generator."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings

from episode.errors import EpisodeDataError
from episode.lang.rows.parser import parse_clause
from tests.reference.correlation import Found, Pair, correlated, happened_before, in_order, row_matches
from tests.reference.generate_correlation import ROWS, Case, cases
from tests.reference.row_patterns import Exploded

FALL = """
    PARTITION BY symbol ORDER BY ts
    MEASURES A.price AS init, LAST(B.price) AS least
    AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B+) DEFINE B AS B.price < PREV(B.price)
"""
TICK = """
    PARTITION BY symbol ORDER BY ts
    MEASURES A.price AS init, LAST(D.price) AS most
    AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A B+ C* D+)
    DEFINE B AS B.price < PREV(B.price),
           C AS C.price >= PREV(C.price) AND C.price <= A.price,
           D AS D.price > PREV(D.price) AND D.price > A.price
"""
PRICES = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
TABLE_1 = [(2, 5, 7, 6, 6, 7), (2, 7, 11, 8, 6, 7), (2, 9, 8, 3, 6, 7), (4, 7, 11, 8, 7, 11), (4, 9, 8, 3, 7, 11)]


def test_table_1_of_the_paper() -> None:
    """Live and archive matches, and the five rows of the result: start, end, prices of the fall and of the tick."""
    rows = [{"symbol": "X", "ts": ts, "price": price} for ts, price in enumerate(PRICES)]
    columns = ["symbol", "ts", "price"]
    live = row_matches(parse_clause(FALL), rows, columns=columns, time="ts")
    archive = row_matches(parse_clause(TICK), rows, columns=columns, time="ts")
    assert [(one.start, one.end) for one in live] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert [(one.start, one.end) for one in archive] == [(2, 4), (4, 6)]
    result = in_order(correlated(live, archive, 7, ["symbol"]))
    assert [(pair.start, pair.end, *prices(pair.live), *prices(pair.archive)) for pair in result] == TABLE_1


def prices(found: Found) -> list[int]:
    return [value for name, value in found.values if name != "symbol"]


def at(start: int | None, end: int | None, **key: object) -> Found:
    return Found(start, end, key, ())


def times(pairs: list[Pair]) -> list[tuple[int, int]]:
    return [(pair.start, pair.end) for pair in pairs]


def test_happened_before_is_strict_at_both_ends() -> None:
    assert happened_before(at(1, 4), at(2, 5))
    assert not happened_before(at(2, 4), at(2, 5))
    assert not happened_before(at(1, 5), at(2, 5))
    assert not happened_before(at(1, 6), at(2, 5))


def test_an_empty_match_happened_at_no_time() -> None:
    assert correlated([at(2, 5), at(None, None)], [at(None, None)], 100) == []


def test_the_distance_is_from_the_start_of_one_to_the_end_of_the_other() -> None:
    assert times(correlated([at(6, 9)], [at(1, 3), at(2, 3), at(2, 8), at(3, 9), at(6, 7)], 7)) == [(2, 9), (2, 9)]


def test_null_keys_are_equal_as_in_partitions() -> None:
    live, archive = [at(6, 9, k=None), at(6, 9, k=1)], [at(1, 3, k=None), at(2, 3, k=2)]
    assert times(correlated(live, archive, 9, ["k"])) == [(1, 9)]
    assert len(correlated(live, archive, 9)) == 4


def test_random_cases_have_pairs() -> None:
    """In one table and in two, on a key and not, of row patterns and of others."""
    counts: Counter[tuple[str, bool]] = Counter()

    @settings(deadline=None, max_examples=400, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(cases())
    def count(case: Case) -> None:
        try:
            found = bool(case.pairs())
        except (EpisodeDataError, Exploded, NotImplementedError, ArithmeticError):
            found = False
        only_rows = {case.live.language, case.archive.language} == {ROWS}
        for name, holds in [("apart", case.apart), ("on a key", bool(case.on)), ("row patterns", only_rows)]:
            counts[name, holds] += found

    count()
    assert len(counts) == 6
    assert min(counts.values()) > 2
