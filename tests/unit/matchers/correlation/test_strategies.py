"""Strategies are chosen by cost, where they can be used, and many rows give the same pairs in all of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.matchers.correlation import join as output_module
from episode.matchers.correlation import side as rounds_module
from episode.matchers.correlation.strategies import RecencyAdaptation, RecencyRound, unavailable
from episode.matchers.running import LocalRun, run
from episode.plan.correlation.plan import CorrelationPlan
from episode.plan.correlation.plan import CorrelationStrategy as Strategy
from tests.support.correlation import FALL, RISE, TICK, correlation, pairs_of

ALL = list(Strategy)


def eager_round(live_regions: tuple[int, int], archive_regions: tuple[int, int]) -> RecencyRound:
    """10,000 rows: the live pattern took 1 ms, the archive pattern 3 ms."""
    regions = {Strategy.LIVE_FIRST: live_regions, Strategy.ARCHIVE_FIRST: archive_regions}
    return RecencyRound(10_000, 0.001, 0.003, live_matches=100, archive_matches=100, regions=regions)


def test_rare_live_matches_make_live_first_cheap() -> None:
    adaptation = RecencyAdaptation(CorrelationPlan(), ALL)
    for _ in range(2):
        assert adaptation.strategy is Strategy.EAGER
        adaptation.note(eager_round((2_000, 1_000), (20_000, 9_000)), adaptation.strategy)
    assert adaptation.strategy is Strategy.LIVE_FIRST
    assert [(one.round, one.old, one.new) for one in adaptation.changes] == [(2, Strategy.EAGER, Strategy.LIVE_FIRST)]


def test_regions_that_are_everywhere_make_eager_cheap() -> None:
    adaptation = RecencyAdaptation(CorrelationPlan(), ALL)
    for _ in range(4):
        adaptation.note(eager_round((90_000, 10_000), (90_000, 10_000)), Strategy.EAGER)
    assert adaptation.strategy is Strategy.EAGER


def test_a_strategy_that_turns_out_dear_is_left() -> None:
    adaptation = RecencyAdaptation(CorrelationPlan(), ALL)
    for _ in range(2):
        adaptation.note(eager_round((2_000, 1_000), (90_000, 10_000)), Strategy.EAGER)
    assert adaptation.strategy is Strategy.LIVE_FIRST
    for _ in range(2):
        adaptation.note(
            RecencyRound(10_000, 0.001, asked=0.009, asked_rows=9_000, live_matches=900), Strategy.LIVE_FIRST
        )
    assert adaptation.strategy is Strategy.EAGER


def test_only_what_is_possible_is_chosen() -> None:
    adaptation = RecencyAdaptation(CorrelationPlan(), [Strategy.EAGER])
    assert not adaptation.chooses
    forced = RecencyAdaptation(CorrelationPlan(Strategy.ARCHIVE_FIRST), ALL)
    forced.note(eager_round((0, 0), (0, 0)), Strategy.ARCHIVE_FIRST)
    assert forced.strategy is Strategy.ARCHIVE_FIRST


@pytest.mark.parametrize(
    ("live", "archive", "barred"),
    [
        (FALL, TICK, {}),
        (FALL, TICK.replace("TO NEXT ROW", "PAST LAST ROW"), {Strategy.LIVE_FIRST: "AFTER MATCH SKIP"}),
        (FALL, TICK.replace("(A B+", "(^ A B+"), {Strategy.LIVE_FIRST: "bounds of the whole partition"}),
        (FALL.replace("(A B+)", "(A B+ C)"), TICK, {Strategy.ARCHIVE_FIRST: "nothing limits how far before a row"}),
        (FALL.replace("(A B+)", "(A B+ C) WITHIN 9"), TICK, {}),
        (FALL.replace("(A B+)", "(A B{1,3} C)"), TICK, {}),
        (FALL.replace("B.price <", "B.price < NEXT(B.price) AND B.price <"), TICK,
         {Strategy.LIVE_FIRST: "reported after others", Strategy.ARCHIVE_FIRST: "as soon as that row is there"}),
    ],
)  # fmt: skip
def test_which_strategies_there_are(live: str, archive: str, barred: dict[Strategy, str]) -> None:
    found = unavailable(correlation(live, archive))
    assert set(found) == set(barred)
    for strategy, words in barred.items():
        assert words in found[strategy]


def test_a_strategy_that_cannot_be_used_is_an_error() -> None:
    with pytest.raises(EpisodeUnsupportedError, match="cannot be evaluated live first: the archive pattern must be"):
        correlation(FALL, TICK.replace("TO NEXT ROW", "PAST LAST ROW"), plan=CorrelationPlan(Strategy.LIVE_FIRST))
    with pytest.raises(EpisodeAnalysisError, match="A recent buffer of 10 rows needs the archive"):
        correlation(FALL, TICK, plan=CorrelationPlan(recent_buffer=10))
    with pytest.raises(EpisodeAnalysisError, match="Pairs in order need the result cache"):
        CorrelationPlan(ordered=True, result_cache=False)


@pytest.mark.parametrize("ordered", [False, True])
def test_many_rows_give_the_same_pairs(ordered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "MOST_PAIRS", 1000)
    monkeypatch.setattr(rounds_module, "ROUND_ROWS", 3000)
    monkeypatch.setattr(rounds_module, "SAMPLE_ROWS", 700)
    draw = np.random.default_rng(5)
    rows = 20_000
    keys = draw.choice([0, 0, 0, 0, 1, 2, 3, 4], rows)
    price = np.round(draw.normal(0, 1, rows).cumsum(), 1)
    time = np.sort(draw.integers(0, rows, rows))
    table = pa.table({"symbol": pa.array(keys.astype(str)), "ts": time, "price": price})
    cuts = [0, *(np.flatnonzero(np.diff(time))[999::1000] + 1).tolist(), rows]
    plain = correlation(FALL, RISE, 60)
    wanted = sorted(pairs_of(plain, run(plain, table)))
    assert len(wanted) > 10_000
    for strategy in (None, *Strategy):
        spec = correlation(FALL, RISE, 60, plan=CorrelationPlan(strategy, ordered=ordered))
        assert sorted(pairs_of(spec, run(spec, table))) == wanted
        running = LocalRun(spec)
        tables = []
        for low, high in pairwise(cuts):
            tables.append(running.feed(table.slice(low, high - low), int(time[high - 1])))
            running.move()
        assert sorted(pairs_of(spec, pa.concat_tables([*tables, running.finish()]))) == wanted
