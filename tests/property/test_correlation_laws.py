"""The laws for recency correlation, for every strategy: oracle equality, chunk and shard invariance,
restarts, order, bounded state."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.columns import to_bytes
from episode.matchers.correlation.spec import CorrelationSpec
from episode.matchers.protocol import StateChunk
from episode.matchers.running import LocalRun
from episode.matchers.stream_shard import ShardSettings, StreamShard
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from tests.reference.correlation import Pair
from tests.reference.generate_correlation import ARCHIVE, BOTH, LIVE, ROWS, Case, Row, RowSide, cases
from tests.reference.row_patterns import Exploded
from tests.reference.scalars import grouping
from tests.support.correlation_cases import (
    Comparable,
    TableHistory,
    certain_pairs,
    comparable,
    expected,
    run_in_pieces,
    run_whole,
    spec_of,
    table_of,
)

# Half as many examples as elsewhere: each is two patterns, their oracles and their joins.
SETTINGS = settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=max(1, settings.default.max_examples // 2)
)
END = 1_000_000

STRATEGIES = [None, *CorrelationStrategy]
PLANS = [CorrelationPlan(strategy, cache) for strategy in STRATEGIES for cache in (True, False)]
CACHED = [plan for plan in PLANS if plan.result_cache]
ORDERED = [replace(plan, ordered=True) for plan in CACHED]  # pairs in order need the cache
plans = st.sampled_from(PLANS)


def named(plan: CorrelationPlan) -> str:
    strategy = "by cost" if plan.strategy is None else plan.strategy.value
    cache = "with cache" if plan.result_cache else "without cache"
    return f"{strategy}, {'ordered' if plan.ordered else cache}"


def planned(case: Case, plan: CorrelationPlan | None = None, **further: Any) -> CorrelationSpec:
    """The spec; what is refused at plan time, and what only Spark finishes, is none of these tests'."""
    try:
        spec = spec_of(case, plan, **further)
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)
        raise
    assume(not any(getattr(one.spec.plan, "keeps", 0) for one in (spec.live, spec.archive)))
    return spec


def oracle(case: Case, live: Case | None = None) -> list[Pair]:
    """The oracle's pairs; cases that it cannot decide are given up, and so are those whose data are in error.

    live: where the live pattern sees other rows.
    """
    try:
        return case.pairs(None if live is None else live.rows_of(LIVE))
    except (EpisodeDataError, Exploded, NotImplementedError, ArithmeticError, RecursionError):
        assume(False)
        raise


def ran(spec: CorrelationSpec, case: Case) -> list[Comparable]:
    """The pairs of a run. Errors of the data, and measures that only Spark can finish, are none of these tests'."""
    try:
        return run_whole(spec, case)
    except (EpisodeDataError, NotImplementedError, ArithmeticError):
        assume(False)
        raise


def pieced(specs: list[CorrelationSpec], case: Case, pieces: list[list[Row]], restore: bool) -> list[list[Comparable]]:
    """The pairs of each piece."""
    try:
        return run_in_pieces(specs, case, pieces, restore)
    except (NotImplementedError, ArithmeticError):
        assume(False)
        raise


def in_any_order(pairs: list[Comparable]) -> list[Comparable]:
    return sorted(pairs, key=repr)


def flat(parts: list[list[Comparable]]) -> list[Comparable]:
    return [pair for part in parts for pair in part]


@st.composite
def pieces_of(draw: st.DrawFn, case: Case, most: int = 5) -> list[list[Row]]:
    """Pieces in order, which may end inside an instant."""
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(case.rows) - 1)), max_size=most)))
    return [case.rows[a:b] for a, b in itertools.pairwise([0, *cuts, len(case.rows)])]


# ---- the same rows, whatever the plan -------------------------------------------------------------


def cases_for(strategy: CorrelationStrategy | None) -> st.SearchStrategy[Case]:
    """Most of them can be evaluated so."""
    if strategy is CorrelationStrategy.LIVE_FIRST:
        return cases(archive=[ROWS], plain=True, aligned=True)
    if strategy is CorrelationStrategy.ARCHIVE_FIRST:
        return cases(live=[ROWS], archive=[ROWS], plain=True, aligned=True)
    return cases()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equals_the_oracle(strategy: CorrelationStrategy | None) -> None:
    @SETTINGS
    @given(cases_for(strategy), st.booleans())
    def check(case: Case, cache: bool) -> None:
        spec = planned(case, CorrelationPlan(strategy, cache))
        pairs = expected(oracle(case))
        assert in_any_order(ran(spec, case)) == in_any_order(pairs)

    check()


@settings(SETTINGS, max_examples=max(1, settings.default.max_examples // 5))  # each is run with every plan
@given(cases(live=[ROWS], archive=[ROWS], plain=True, aligned=True, max_rows=24))
def test_strategies_do_not_matter(case: Case) -> None:
    pairs = in_any_order(expected(oracle(case)))
    for plan in PLANS:
        try:
            spec = spec_of(case, plan)
        except EpisodeUnsupportedError as error:
            note(str(error))
            continue
        assert in_any_order(ran(spec, case)) == pairs, named(plan)


@SETTINGS
@given(cases(), st.sampled_from([*PLANS, *ORDERED]), st.data())
def test_chunks_do_not_matter(case: Case, plan: CorrelationPlan, data: st.DataObject) -> None:
    """The state is written and read between them, or not."""
    spec = planned(case, plan)
    whole = ran(spec, case)
    pieces = data.draw(pieces_of(case))
    parts = flat(pieced([spec], case, pieces, data.draw(st.booleans())))
    assert in_any_order(parts) == in_any_order(whole)


@SETTINGS
@given(cases(), plans, st.data())
def test_shards_do_not_matter(case: Case, plan: CorrelationPlan, data: st.DataObject) -> None:
    assume(case.on)
    spec = planned(case, plan)
    shards: dict[int, list[Row]] = {}
    where: dict[Any, int] = {}
    for row in case.rows:
        if row["k"] not in where:
            where[row["k"]] = data.draw(st.integers(0, 2))
        shards.setdefault(where[row["k"]], []).append(row)
    apart = [pair for rows in shards.values() for pair in ran(spec, replace(case, rows=rows))]
    assert in_any_order(apart) == in_any_order(ran(spec, case))


@SETTINGS
@given(cases(), st.lists(plans, min_size=2, max_size=4), st.data())
def test_changes_of_strategy_do_not_matter(case: Case, several: list[CorrelationPlan], data: st.DataObject) -> None:
    """Each piece of the input is matched with another plan, which goes on from the state of the one before."""
    specs = [planned(case, plan) for plan in several]
    whole = in_any_order(ran(specs[0], case))
    note([named(plan) for plan in several])
    pieces = data.draw(pieces_of(case))
    assert in_any_order(flat(pieced(specs, case, pieces, restore=True))) == whole


@SETTINGS
@given(cases(archive=[ROWS], plain=True, aligned=True), plans, st.integers(1, 4), st.data())
def test_a_small_recent_buffer_does_not_matter(
    case: Case, plan: CorrelationPlan, capacity: int, data: st.DataObject
) -> None:
    """What has left the buffer is read from the archive, which may be ahead of what is fed."""
    small = planned(case, replace(plan, recent_buffer=capacity), history=history_of(case))
    whole = in_any_order(ran(planned(case), case))
    pieces = data.draw(pieces_of(case))
    assert in_any_order(flat(pieced([small], case, pieces, data.draw(st.booleans())))) == whole


@pytest.mark.parametrize("cache", [True, False], ids=["with cache", "without cache"])
def test_rows_of_one_time_in_a_small_recent_buffer(cache: bool) -> None:
    """Pieces end inside an instant, and the buffer holds fewer rows than it has: none is lost, none comes twice."""
    rise = TICK[: TICK.index("PATTERN")] + "PATTERN (A B) DEFINE B AS B.v > A.v"
    events = [(1, 5), (2, 1), (2, 2), (2, 0), (3, 0), (4, 9)]
    rows = [{**row, "ts": ts} for (ts, _), row in zip(events, ticks([v for _, v in events], 10).rows, strict=True)]
    live = RowSide(rise.replace("MAXIMAL", "INCREMENTAL"))
    case = Case(live, RowSide(rise), 10, ("k",), rows, shared=True, apart=False)
    plan = CorrelationPlan(CorrelationStrategy.LIVE_FIRST, cache)
    for capacity, cut, restore in itertools.product((1, 2, 3), (2, 3, 4), (False, True)):
        spec = spec_of(case, replace(plan, recent_buffer=capacity), history=history_of(case))
        found = flat(run_in_pieces([spec], case, [rows[:1], rows[1:cut], rows[cut:]], restore))
        assert found == expected(case.pairs())


def history_of(case: Case) -> TableHistory:
    """All events of the archive pattern."""
    return TableHistory(table_of(case, [row for row in case.rows if row.get("side", BOTH) in (ARCHIVE, BOTH)]))


@SETTINGS
@given(cases(), st.sampled_from([*PLANS, *ORDERED]), st.data())
def test_the_archive_reaches_back_to_before_the_stream(case: Case, plan: CorrelationPlan, data: st.DataObject) -> None:
    """The stream begins somewhere; live matches are of its events, archive matches of all that were archived."""
    begin = data.draw(st.sampled_from(sorted({row["ts"] for row in case.rows})))
    fed = replace(case, rows=[row for row in case.rows if row["ts"] >= begin])
    spec = planned(case, plan, history=history_of(case))
    pairs = oracle(case, live=fed)
    parts = pieced([spec], case, data.draw(pieces_of(fed)), data.draw(st.booleans()))
    assert in_any_order(flat(parts)) == in_any_order(expected(pairs))


@SETTINGS
@given(cases(), st.sampled_from([*PLANS, *ORDERED]), st.data())
def test_a_stream_with_a_table_as_its_archive(case: Case, plan: CorrelationPlan, data: st.DataObject) -> None:
    """No event of the archive pattern is fed: they are read along with the stream."""
    assume(case.apart)
    fed = replace(case, rows=[row | {"side": LIVE} for row in case.rows if row["side"] != ARCHIVE])
    spec = planned(case, plan, history=history_of(case), closed=True)
    pairs = oracle(case)
    parts = pieced([spec], case, data.draw(pieces_of(fed)), data.draw(st.booleans()))
    assert in_any_order(flat(parts)) == in_any_order(expected(pairs))


@SETTINGS
@given(cases(), st.sampled_from([*PLANS, *ORDERED]), st.data())
def test_a_stream_equals_a_table(case: Case, plan: CorrelationPlan, data: st.DataObject) -> None:
    """Through the reorder buffer of streams, in micro-batches, with restarts: as over the whole."""
    spec = planned(case, plan)
    whole = ran(spec, case)
    shard = StreamShard(spec, ShardSettings(end=END))
    state: dict[str, StateChunk] = {}
    found: list[Comparable] = []
    watermark = -1
    for piece in data.draw(pieces_of(case)):
        table = table_of(case, piece).select(list(spec.input_columns))
        found += comparable(spec, shard.step([(to_bytes(table), table)] if table.num_rows else [], watermark).matches)
        watermark = max([watermark, *(row["ts"] - 1 for row in piece)])
        if data.draw(st.booleans()):
            shard.snapshot().apply(state)
            last = shard.watermark
            shard = StreamShard(spec, ShardSettings(end=END))
            shard.restore(list(state.values()), last, False)
    found += comparable(spec, shard.step([], END).matches)
    assert in_any_order(found) == in_any_order(whole)


# ---- when, and in which order ---------------------------------------------------------------------


@SETTINGS
@given(cases(), plans, st.data())
def test_pairs_are_reported_when_both_matches_are_certain(
    case: Case, plan: CorrelationPlan, data: st.DataObject
) -> None:
    """With the piece at which the matchers of the two patterns, each alone, have reported both."""
    spec = planned(case, plan)
    pieces = data.draw(pieces_of(case))
    try:
        certain = Counter(certain_pairs(case, pieces))
    except (EpisodeDataError, NotImplementedError, ArithmeticError):
        assume(False)
    parts = pieced([spec], case, pieces, data.draw(st.booleans()))
    assert Counter((number, pair) for number, part in enumerate(parts) for pair in part) == certain


@SETTINGS
@given(cases(), st.sampled_from(ORDERED), st.data())
def test_ordered_pairs_come_in_order(case: Case, plan: CorrelationPlan, data: st.DataObject) -> None:
    """Of each key, by start, then by end."""
    spec = planned(case, plan)
    pieces = data.draw(pieces_of(case))
    pairs = in_any_order(expected(oracle(case)))
    restore = data.draw(st.booleans())
    found = []
    for key in {tuple(grouping(row[name]) for name in case.on) for row in case.rows}:
        mine = [[row for row in piece if tuple(grouping(row[name]) for name in case.on) == key] for piece in pieces]
        of_key = flat(pieced([spec], case, [piece for piece in mine if piece], restore))
        times = [(start, end) for start, end, _, _ in of_key]
        assert times == sorted(times)
        found += of_key
    assert in_any_order(found) == pairs


# ---- state ----------------------------------------------------------------------------------------

FALL = (
    "PARTITION BY k ORDER BY ts MEASURES FIRST(v) AS first, LAST(v) AS last, count(*) AS rows "
    "AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)"
)
TICK = (
    "PARTITION BY k ORDER BY ts MEASURES FIRST(v) AS first, LAST(v) AS last, count(*) AS rows "
    "AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A B+ C* D+) DEFINE B AS B.v < PREV(B.v), "
    "C AS C.v >= PREV(C.v) AND C.v <= A.v, D AS D.v > PREV(D.v) AND D.v > A.v"
)
PRICES = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
TABLE_1 = [(2, 5, 7, 6, 6, 7), (2, 7, 11, 8, 6, 7), (2, 9, 8, 3, 6, 7), (4, 7, 11, 8, 7, 11), (4, 9, 8, 3, 7, 11)]


def ticks(prices: list[int], recency: int, *, first: int = 0, key: int = 1) -> Case:
    """The query of the paper's Figure 2 over one key, one row per unit of time."""
    rows = [
        {"k": key, "ts": ts, "pos": ts, "live_v": price, "live_f": None, "live_s": None}
        for ts, price in enumerate(prices, first)
    ]
    return Case(RowSide(FALL), RowSide(TICK), recency, ("k",), rows, shared=True, apart=False)


def prices_of(pair: Comparable) -> tuple:
    start, end, live, archive = pair
    return start, end, dict(live)["first"], dict(live)["last"], dict(archive)["first"], dict(archive)["last"]


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_table_1_of_the_paper(plan: CorrelationPlan) -> None:
    """The rows of the Result column, in batch and as a stream, at the inputs at which the paper has them."""
    case = ticks(PRICES, 7)
    assert sorted(map(prices_of, run_whole(spec_of(case, plan), case))) == TABLE_1
    if not plan.result_cache:
        return
    ordered = spec_of(case, replace(plan, ordered=True))
    assert list(map(prices_of, run_whole(ordered, case))) == TABLE_1
    one_by_one = [[row] for row in case.rows]
    for restore in (False, True):
        parts = run_in_pieces([ordered], case, one_by_one, restore)
        at = {number: list(map(prices_of, part)) for number, part in enumerate(parts) if part}
        assert at == {5: TABLE_1[:1], 7: TABLE_1[1:2], 9: TABLE_1[2:]}


def steady(spec: CorrelationSpec, case: Case, chunks: int, per_chunk: int) -> Iterator[LocalRun]:
    """After each chunk of a stream in which the paper's prices come again and again."""
    running = LocalRun(spec)
    for chunk in range(chunks):
        first = chunk * per_chunk
        prices = [PRICES[ts % len(PRICES)] for ts in range(first, first + per_chunk)]
        rows = ticks(prices, case.recency, first=first).rows
        running.feed(table_of(case, rows), first + per_chunk - 1)
        yield running


@pytest.mark.parametrize("plan", [*PLANS, *ORDERED], ids=named)
def test_state_is_bounded_by_the_recency(plan: CorrelationPlan) -> None:
    """However long the stream: rows and matches of the last P units of time, in memory and as written."""
    case = ticks([], 50)
    spec = spec_of(case, plan)
    state: dict[str, StateChunk] = {}
    held, written = [], []
    for running in steady(spec, case, 60, 20):
        held.append(running.matcher.state_rows)
        running.matcher.snapshot().apply(state)
        written.append(sum(len(chunk.data) for chunk in state.values()))
    assert max(held[10:]) <= 3 * 50 + 20
    assert max(held[30:]) <= max(held[10:30]) + 5
    assert max(written[40:]) <= max(written[10:40]) * 1.1


@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_keys_that_fall_silent_are_forgotten(plan: CorrelationPlan) -> None:
    """When windows and the recency have passed, whether events of their key come or not."""
    case = ticks([], 50)
    # Without PREV: else the last row of a key is the row before any to come.
    pattern = "PATTERN (A B+) WITHIN 10 DEFINE A AS A.v > 7, B AS B.v <= 7"
    live, archive = (RowSide(text[: text.index("PATTERN")] + pattern) for text in (FALL, TICK))
    case = replace(case, live=live, archive=archive)
    running = LocalRun(spec_of(case, plan))
    held = []
    for chunk in range(20):
        first = chunk * 40
        prices = [PRICES[ts % len(PRICES)] for ts in range(first, first + 40)]
        rows = ticks(prices, 50, first=first, key=chunk).rows
        running.feed(table_of(case, rows), first + 39)
        held.append((running.matcher.state_rows, len(running.matcher.live_keys)))
    assert max(rows for rows, _ in held[4:]) <= max(rows for rows, _ in held[:4]) + 5


# ---- at length ------------------------------------------------------------------------------------

LONG = settings(SETTINGS, max_examples=1_000)


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS, ids=named)
def test_equals_the_oracle_at_length(plan: CorrelationPlan) -> None:
    @LONG
    @given(cases(), st.data())
    def check(case: Case, data: st.DataObject) -> None:
        spec = planned(case, plan)
        pairs = in_any_order(expected(oracle(case)))
        assert in_any_order(ran(spec, case)) == pairs
        pieces = data.draw(pieces_of(case))
        assert in_any_order(flat(pieced([spec], case, pieces, data.draw(st.booleans())))) == pairs

    check()


def test_an_event_without_a_time_is_an_error() -> None:
    case = ticks(PRICES, 7)
    rows = [*case.rows[:3], {**case.rows[3], "ts": None}]
    running = LocalRun(spec_of(case))
    with pytest.raises(EpisodeDataError, match="null"):
        running.feed(table_of(case, rows))
