"""The laws for situation patterns: oracle equality, chunk and shard invariance, bounded state."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.columns import to_bytes
from episode.matchers.protocol import StateChunk, StateLimit
from episode.matchers.running import LocalRun
from episode.matchers.situations import adapt as situation_adapt
from episode.matchers.situations.matcher import SituationPatternMatcher
from episode.matchers.situations.spec import SituationPatternSpec
from episode.matchers.stream_shard import ShardSettings, StreamShard
from tests.reference.generate_situations import Case, cases
from tests.reference.situations import Event
from tests.support.draws import assert_enough
from tests.support.situations import SCHEMA, Row, expected, rows_of, run_in_pieces, run_whole, spec_of, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
END = 1_000_000


def planned(case: Case, **options: Any) -> SituationPatternSpec:
    return spec_of(case.text, case.pattern.detect, **options)


def comparable(rows: list[Row]) -> list[Row]:
    """In one order, and floats without their last digits: a deviation may be added up in another order."""
    return sorted((tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows), key=repr)


@pytest.mark.parametrize("detect", ["earliest", "complete"])
def test_equals_the_oracle(detect: str) -> None:
    """The matches, the moments of their detection, and the values as of then."""

    @SETTINGS
    @given(cases(detect=detect))
    def check(case: Case) -> None:
        assert comparable(run_whole(planned(case), case.events)) == comparable(expected(case))

    check()


@SETTINGS
@given(cases(), st.data())
def test_chunks_do_not_matter(case: Case, data: st.DataObject) -> None:
    """Pieces may end inside an instant; the state is written and read between them, or not."""
    events = sorted(case.events, key=lambda event: event.time)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(events) - 1)))))
    pieces = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
    spec = planned(case)
    restore = data.draw(st.booleans())
    assert comparable(run_in_pieces(spec, pieces, restore)) == comparable(run_whole(spec, events))


@SETTINGS
@given(cases(), st.data())
def test_shards_do_not_matter(case: Case, data: st.DataObject) -> None:
    assume(case.keyed)
    spec = planned(case)
    shards: dict[int, list[Event]] = {}
    where: dict[Any, int] = {}
    for event in case.events:
        if event.key not in where:
            where[event.key] = data.draw(st.integers(0, 2))
        shards.setdefault(where[event.key], []).append(event)
    apart = [row for events in shards.values() for row in run_whole(spec, events)]
    assert comparable(apart) == comparable(run_whole(spec, case.events))


@SETTINGS
@given(cases(), st.data())
def test_orders_do_not_matter(case: Case, data: st.DataObject) -> None:
    """Whatever the order in which buffers are searched."""
    spec = planned(case)
    symbols = range(len(spec.plan.symbols))
    forced = tuple(tuple(data.draw(st.permutations([o for o in symbols if o != s]))) for s in symbols)
    other = planned(case, forced=forced)
    assert comparable(run_whole(other, case.events)) == comparable(run_whole(spec, case.events))


class RandomOrders:
    """In place of the search for the best order: any one, and a look at the plan at every instant."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random()
        self.changes = 0
        constants = {"THRESHOLD": 1e-12, "PAUSE": 1, "LONGEST_PAUSE": 1, "GAIN": -math.inf}
        for name, value in constants.items():
            patch.setattr(situation_adapt, name, value)
        patch.setattr(situation_adapt, "best_order", self.any_order)
        make_anew = situation_adapt.Orders.make_anew

        def counted(orders: situation_adapt.Orders) -> None:
            before = orders.plans
            make_anew(orders)
            self.changes += orders.plans - before

        patch.setattr(situation_adapt.Orders, "make_anew", counted)

    def any_order(self, masks: tuple[tuple[int, ...], ...], _: Any, first: int) -> tuple[int, ...]:
        others = [symbol for symbol in range(len(masks)) if symbol != first]
        return tuple(self.random.sample(others, len(others)))


def test_changes_of_the_order_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders that change between two instants lose no match and give none twice; also with restarts between."""
    orders = RandomOrders(monkeypatch)
    changed = 0

    @SETTINGS
    @given(cases(), st.integers(0, 2**32), st.data())
    def check(case: Case, seed: int, data: st.DataObject) -> None:
        nonlocal changed
        assume(len(case.pattern.definitions) > 2)
        orders.random.seed(seed)
        events = sorted(case.events, key=lambda event: event.time)
        cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(events) - 1)), max_size=4)))
        pieces = [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
        oracle, before = comparable(expected(case)), orders.changes
        assert comparable(run_whole(planned(case), events)) == oracle
        changed += bool(oracle) and orders.changes > before
        assert comparable(run_in_pieces(planned(case), pieces, data.draw(st.booleans()))) == oracle

    check()
    assert_enough(changed, 10)


@SETTINGS
@given(cases(), st.data())
def test_a_stream_equals_a_table(case: Case, data: st.DataObject) -> None:
    """Through the reorder buffer of streams, in micro-batches, with restarts: as over the whole."""
    spec = planned(case)
    events = sorted(case.events, key=lambda event: event.time)
    shard = StreamShard(spec, ShardSettings(end=END))
    state: dict[str, StateChunk] = {}
    cuts = sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=4)))
    found: list[Row] = []
    watermark = -1
    for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        table = table_of(events[begin:end])
        found += rows_of(spec, shard.step([(to_bytes(table), table)] if table.num_rows else [], watermark).matches)
        watermark = max([watermark, *(int(event.time) - 1 for event in events[:end])])
        if data.draw(st.booleans()):
            shard.snapshot().apply(state)
            last = shard.watermark
            shard = StreamShard(spec, ShardSettings(end=END))
            shard.restore(list(state.values()), last, False)
    found += rows_of(spec, shard.step([], END).matches)
    assert comparable(found) == comparable(run_whole(spec, events))


# ---- state -------------------------------------------------------------------------------------------------


def steady(spec: SituationPatternSpec, chunks: int, per_chunk: int) -> Iterator[tuple[SituationPatternMatcher, int]]:
    """(the matcher, matches) after each chunk of a steady stream: a every 10 units for 4, b for 5 from the third on."""
    running = LocalRun(spec)
    for chunk in range(chunks):
        times = range(chunk * per_chunk, (chunk + 1) * per_chunk)
        rows = [
            {"k": "x", "t": t, "a": t % 10 < 4, "b": 2 <= t % 10 < 7, "c": False, "d": True, "x": 1.0, "n": t, "s": "s"}
            for t in times
        ]
        yield running.matcher, running.feed(pa.Table.from_pylist(rows, schema=SCHEMA), times[-1]).num_rows


def test_state_holds_the_situations_of_one_window() -> None:
    """However long the stream; and no events, however many there are in a situation that lasts."""
    spec = spec_of("DEFINE A AS a, B AS b, D AS d PATTERN A overlaps B AND D contains A WITHIN 50 RETURN sum(D.x) AS s")
    held = [matcher.state_rows for matcher, _ in steady(spec, 50, 40)]
    assert max(held[5:]) <= 2 * 6 + 3
    assert min(held[5:]) > 0


def test_keys_that_fall_silent_are_forgotten() -> None:
    """Finished situations leave with the window, whether events of their key come or not."""
    spec = spec_of("FROM t PARTITION BY k DEFINE A AS a, B AS b PATTERN A before B WITHIN 50")
    running = LocalRun(spec)
    held = []
    for chunk in range(20):
        rows = [
            {"k": f"key {chunk}", "t": t, "a": t % 10 < 4, "b": 5 <= t % 10 < 7, "x": 1.0}
            for t in range(chunk * 40, chunk * 40 + 40)
        ]
        running.feed(pa.Table.from_pylist(rows, schema=SCHEMA), chunk * 40 + 39)
        held.append((running.matcher.state_rows, len(running.matcher.live_keys)))
    assert max(held) <= (2 * 10, 3)


def test_a_written_state_is_bounded_too() -> None:
    """Chunks of situations that have left the window are removed."""
    state: dict[str, StateChunk] = {}
    sizes = []
    for matcher, _ in steady(spec_of("DEFINE A AS a, B AS b PATTERN A overlaps B WITHIN 50"), 60, 40):
        matcher.snapshot().apply(state)
        sizes.append(sum(len(chunk.data) for chunk in state.values()))
    assert max(sizes[30:]) <= max(sizes[10:30])


def test_a_limit_to_the_state() -> None:
    text = "DEFINE A AS a, B AS b PATTERN A before B RETURN A.start AS s"
    with pytest.raises(EpisodeDataError, match=r"max_state_rows is 20"):
        list(steady(spec_of(text, limit=StateLimit(20, False)), 10, 40))
    matcher, _ = list(steady(spec_of(text, limit=StateLimit(20, True)), 10, 40))[-1]
    assert matcher.given_up > 0
    assert matcher.state_rows <= 22


def test_rounds_give_all_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a feed has more matches than should be in memory at once, they come in parts."""
    spec = spec_of("DEFINE A AS a, B AS b PATTERN A before B RETURN A.start AS s, count(B.x) AS n")
    ((_, whole),) = steady(spec, 1, 400)
    monkeypatch.setattr("episode.matchers.situations.matcher.SOFT_LIMIT", 7)
    ((_, parts),) = steady(spec, 1, 400)
    assert parts == whole > 500


def test_too_many_matches_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.matchers.situations.matcher.MOST_AT_ONCE", 5)
    spec = spec_of("DEFINE A AS a, B AS b PATTERN A before B")
    with pytest.raises(EpisodeDataError, match="completes more than 5 matches at once"):
        list(steady(spec, 1, 400))
