"""Correlation, law 4: the state is bounded by the recency and by matches that are open, however long the stream is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.matchers.correlation.matcher import CorrelationMatcher
from episode.matchers.protocol import StateChunk
from episode.matchers.running import LocalRun
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from tests.support.correlation import correlation

KEYS, FEED, FEEDS, RECENCY = 3, 40, 120, 60
PLANS = [
    CorrelationPlan(strategy, result_cache=cache, ordered=ordered)
    for strategy in CorrelationStrategy
    for cache in (True, False)
    for ordered in (False, True)
    if cache or (strategy is not CorrelationStrategy.EAGER and not ordered)
]


def feed_of(number: int, draw: np.random.Generator) -> pa.Table:
    """One row per unit of time, keys in turn; prices go up and down, at most five rows in one direction."""
    time = np.arange(number * FEED, (number + 1) * FEED)
    price = np.abs((time // KEYS) % 10 - 5) + draw.random(FEED) / 4
    return pa.table({"symbol": pa.array([str(one) for one in time % KEYS]), "ts": time, "price": price})


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_state_is_bounded_by_recency(plan: CorrelationPlan) -> None:
    running = LocalRun(correlation(recency=RECENCY, plan=plan))
    draw = np.random.default_rng(3)
    state: dict[str, StateChunk] = {}
    held, sizes = [], []
    for number in range(FEEDS):
        running.feed(feed_of(number, draw), (number + 1) * FEED - 1)
        assert isinstance(running.matcher, CorrelationMatcher)
        held.append(running.matcher.state_rows)
        running.matcher.snapshot().apply(state)
        sizes.append(sum(len(chunk.data) for chunk in state.values()))
    # The rows and matches of the last recency; without the cache each waiting match may hold its own region.
    most = 4 * (RECENCY + FEED) if plan.result_cache else 12 * (RECENCY + FEED)
    assert max(held) <= most
    assert max(held[FEEDS // 2 :]) <= max(held[: FEEDS // 2]) * 1.2 + 10
    assert max(sizes[FEEDS // 2 :]) <= max(sizes[: FEEDS // 2]) * 1.5 + 4096


ORDERS = {"symbol": "string", "number": "bigint", "ts": "bigint", "price": "double"}
SHORT = """
    PARTITION BY {keys} ORDER BY ts MEASURES A.price AS init AFTER MATCH SKIP TO NEXT ROW {mode} MATCH
    PATTERN (A B+) WITHIN 6 DEFINE A AS A.price > 0.5, B AS B.price < 0.5
"""  # no PREV, for which the last row of a key is kept
SHORT_FALL, SHORT_RISE, FALL_OF_AN_ORDER, RISE_OF_AN_ORDER = (
    SHORT.format(keys=keys, mode=mode) for keys in ("symbol", "symbol, number") for mode in ("INCREMENTAL", "MAXIMAL")
)


@pytest.mark.parametrize(
    ("live", "archive", "plan"),
    [
        (FALL_OF_AN_ORDER, SHORT_RISE, CorrelationPlan(CorrelationStrategy.EAGER)),
        (FALL_OF_AN_ORDER, SHORT_RISE, CorrelationPlan(CorrelationStrategy.LIVE_FIRST)),
        (FALL_OF_AN_ORDER, SHORT_RISE, CorrelationPlan(CorrelationStrategy.LIVE_FIRST, result_cache=False)),
        (SHORT_FALL, RISE_OF_AN_ORDER, CorrelationPlan(CorrelationStrategy.ARCHIVE_FIRST)),
        (SHORT_FALL, RISE_OF_AN_ORDER, CorrelationPlan(CorrelationStrategy.ARCHIVE_FIRST, result_cache=False)),
    ],
)
def test_keys_of_one_side_are_forgotten(live: str, archive: str, plan: CorrelationPlan) -> None:
    """One pattern has a key more than the correlation, with values that come once and never again."""
    running = LocalRun(correlation(live, archive, recency=20, types=ORDERS, plan=plan))
    draw = np.random.default_rng(4)
    state: dict[str, StateChunk] = {}
    sizes, orders = [], 40
    for number in range(100):
        time = np.arange(number * 3 * orders, (number + 1) * 3 * orders)
        columns = {
            "symbol": [str(one % 2) for one in time // 3],
            "number": time // 3,
            "ts": time,
            "price": draw.random(len(time)),
        }
        running.feed(pa.table(columns), int(time[-1]))
        running.matcher.snapshot().apply(state)
        sizes.append(sum(len(chunk.data) for chunk in state.values()))
    assert max(sizes[50:]) <= max(sizes[:50]) * 1.1 + 4096
