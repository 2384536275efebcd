"""Pull, push and adaptive input: scripted, the thread's work done by hand; then with the thread, and no sleeping."""

from __future__ import annotations

import threading

import pytest

from episode.live.input_source import HANDLINGS, InputSource, Sizes, open_source
from episode.live.protocol import Handling, InputBatch, Position, TaskOptions
from episode.matchers.stream_shard import ShardSettings, StreamShard
from tests.support.rows import spec_of
from tests.unit.live.scripted import ScriptedInput, numbers

SIZES = Sizes(step=8, batch=2, most=12, small=0)


def drained(source: InputSource, count: int) -> list[int]:
    """The first so many events, in order."""
    found: list[int] = []
    while len(found) < count:
        batch = source.next(30.0)
        assert batch is not None
        found += numbers([batch])
    return found


# ---- pull ----------------------------------------------------------------------------------------------------


def test_pull_reads_when_it_is_asked() -> None:
    input = ScriptedInput([2] * 9)
    source = InputSource(input, {}, "pull", SIZES).start()
    assert not input.reads
    found = [source.next(0) for _ in range(3)]
    assert [batch.rows for batch in found if batch is not None] == [8, 8, 2]
    assert source.unprocessed == 2
    assert source.next(0) is None
    assert (source.unprocessed, source.held.most, source.mode, source.switches) == (0, 8, "pull", 0)


def test_pull_waits_once() -> None:
    input = ScriptedInput([2], there=0)
    source = InputSource(input, {}, "pull", SIZES)
    assert source.next(0) is None
    assert input.waits == 0
    assert source.next(1.0) is None
    assert input.waits == 1


def test_it_goes_on_from_a_position() -> None:
    source = InputSource(ScriptedInput([3, 4, 5]), {"events": 2}, "pull", SIZES)
    found = source.next(0)
    assert found is not None
    assert numbers([found]) == [7, 8, 9, 10, 11]


# ---- push, by hand ---------------------------------------------------------------------------------------------


def test_push_reads_until_it_is_full() -> None:
    """
    read    8      4 (there is room for no more)     stands still   … 8 taken …   goes on
    """
    input = ScriptedInput([1] * 100)
    source = InputSource(input, {}, "push", SIZES)
    assert source.push()
    assert not source._is_paused()
    assert source.push()
    assert source._is_paused()
    assert (source.unprocessed, source.stalls, input.reads) == (12, 1, [8, 4])
    found = source.next(0)
    assert found is not None
    assert found.rows == 8
    assert not source._is_paused()
    assert (source.mode, source.switches) == ("push", 0)


def test_a_commit_is_the_least_that_is_read() -> None:
    source = InputSource(ScriptedInput([50, 1]), {}, "push", SIZES)
    assert source.push()
    assert source._is_paused()
    assert source.held.most == 50


# ---- adaptive, by hand: the bounds are scripted, so suspends and resumes are known -------------------------------


def test_adaptive_is_suspended_above_the_bound_and_resumed_at_one_slice() -> None:
    """R in batches of 2 events; the bound is 3, and each step takes 8 events at most.

    push  R = 1  2  3  4: suspended | taken 4: R = 0: resumed | push  R = 1 | taken | …
    """
    source = InputSource(ScriptedInput([1] * 100), {}, "adaptive", SIZES, bound=lambda: 3)
    assert source.next(0) is None  # the bound is known now
    states = []
    for _ in range(4):
        assert source.push()
        states.append((source._waiting_batches, source.mode))
    assert states == [(1, "push"), (2, "push"), (3, "push"), (4, "pull")]
    assert (source.suspends, source.resumes) == (1, 0)
    found = source.next(0)
    assert found is not None
    assert found.rows == 8
    assert (source._waiting_batches, source.mode, source.suspends, source.resumes) == (0, "push", 1, 1)


def test_adaptive_stays_suspended_while_more_than_one_slice_waits() -> None:
    """Steps of 2 events: R = 4 3 2 1, and only then it is resumed."""
    source = InputSource(ScriptedInput([2] * 100), {}, "adaptive", Sizes(step=2, batch=2, most=100), bound=lambda: 3)
    source.next(0)
    while source.mode == "push":
        assert source.push()
    modes = []
    for _ in range(4):
        assert source.next(0) is not None
        modes.append((source._waiting_batches, source.mode))
    assert modes == [(3, "pull"), (2, "pull"), (1, "push"), (0, "push")]


def test_bounds_that_change_give_switches_as_predicted() -> None:
    """Each step takes everything; before it, the thread reads until it stands still or has read four batches."""
    bounds = iter([1, 1, 2, 5, 3, 1])
    source = InputSource(ScriptedInput([2] * 100), {}, "adaptive", Sizes(100, 2, 1000), bound=lambda: next(bounds))
    taken, switches = [], []
    for _ in range(6):
        found = source.next(0)
        taken.append(0 if found is None else found.rows // 2)
        for _ in range(4):
            if not source._is_paused():
                source.push()
        switches.append((source.suspends, source.resumes))
    # bound + 1 batches suspend; four are no more than a bound of 5, and suspend one of 3
    assert taken == [0, 2, 2, 3, 4, 4]
    assert switches == [(1, 0), (2, 1), (3, 2), (3, 3), (4, 3), (5, 4)]


def test_a_bound_beyond_what_may_wait_is_cut() -> None:
    source = InputSource(ScriptedInput([2] * 100), {}, "adaptive", SIZES, bound=lambda: 1_000)
    source.next(0)
    while not source._is_paused():
        source.push()
    assert source.unprocessed == 12


def test_the_bound_is_asked_for_where_it_matters() -> None:
    """Once, and then where more than one batch waits."""
    asked: list[int] = []
    source = InputSource(ScriptedInput([2] * 9), {}, "adaptive", SIZES, bound=lambda: asked.append(1) or 3)  # type: ignore[func-returns-value]
    for readings in (0, 1, 1, 2, 1):
        for _ in range(readings):
            source.push()
        source.next(0)
    assert len(asked) == 1 + 1


def test_slices_that_are_not_full_count_together() -> None:
    """R is the events that wait in units of a batch: small commits do not suspend."""
    input = ScriptedInput([1] * 100, there=0)
    source = InputSource(input, {}, "adaptive", Sizes(100, 10, 1000), bound=lambda: 1)
    source.next(0)
    for input.there in range(1, 11):
        assert source.push()
        assert source.mode == "push"
    input.there = 11
    assert source.push()
    assert source.mode == "pull"


def test_the_window_of_the_matcher_counts_as_held() -> None:
    source = InputSource(ScriptedInput([2, 2]), {}, "pull", Sizes(2, 2, 100))
    source.next(0)
    source.window = 5
    source.next(0)
    assert (source.held.average, source.held.most) == ((2 + 7) / 2, 7)


# ---- barriers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handling", ["push", "adaptive"])
def test_nothing_is_read_after_a_barrier_before_the_loop_comes_back(handling: Handling) -> None:
    source = InputSource(ScriptedInput([1] * 4, barriers=[2]), {}, handling, SIZES, bound=lambda: 5)
    assert source.push()
    assert source._is_paused()
    found = source.next(0)
    assert found is not None
    assert found.barrier
    assert found.rows == 2
    assert source._is_paused()  # the loop keeps a snapshot now
    assert source.next(0) is None
    assert not source._is_paused()


# ---- with the thread -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handling", HANDLINGS)
def test_all_events_come_in_order(handling: Handling) -> None:
    commits = [1, 5, 0, 3, 30, 2, 0, 0, 7] * 50
    source = InputSource(ScriptedInput(commits), {}, handling, SIZES, bound=lambda: 2).start()
    assert drained(source, sum(commits)) == list(range(sum(commits)))
    source.close()


def test_backpressure_with_a_slow_loop() -> None:
    """The loop asks for more only when the thread stands still: held events are never above the bound, none is lost."""
    source = InputSource(ScriptedInput([1] * 5_000), {}, "push", Sizes(step=7, batch=3, most=100, small=0)).start()
    found: list[int] = []
    while len(found) < 5_000:
        with source._changed:
            if len(found) < 4_800:
                assert source._changed.wait_for(source._is_paused, 30.0)
            assert source._holder.waiting <= 100
        batch = source.next(30.0)
        assert batch is not None
        found += numbers([batch])
    source.close()
    assert found == list(range(5_000))
    assert source.held.most <= 100 + 7
    assert source.stalls > 400


def test_adaptive_holds_little_whatever_the_rate() -> None:
    sizes = Sizes(8, 2, 1_000_000, small=0)
    source = InputSource(ScriptedInput([1] * 5_000), {}, "adaptive", sizes, bound=lambda: 3).start()
    assert drained(source, 5_000) == list(range(5_000))
    source.close()
    assert source.held.most <= (3 + 1) * 2 + 8
    assert source.suspends - source.resumes in (0, 1)


def test_an_error_of_the_thread_is_raised_in_the_loop_after_what_was_read() -> None:
    class Failing(ScriptedInput):
        def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
            if after.get("events", 0) == 3:
                raise OSError("the disk has gone")
            return super().read(after, 1, until)

    source = InputSource(Failing([1] * 9), {}, "push", SIZES).start()
    assert drained(source, 3) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            source.next(30.0)
    source.close()


@pytest.mark.parametrize("handling", HANDLINGS)
def test_closing_ends_the_thread(handling: Handling) -> None:
    before = threading.active_count()
    source = InputSource(ScriptedInput([1] * 1_000), {}, handling, SIZES, bound=lambda: 1).start()
    assert source.next(30.0) is not None
    source.close()
    source.close()
    assert threading.active_count() == before


def test_time_runs_out_by_the_clock() -> None:
    now = iter([0.0, 0.5, 1.0])
    source = InputSource(ScriptedInput([]), {}, "push", SIZES, clock=lambda: next(now))
    source._changed.wait = lambda timeout=None: True  # type: ignore[method-assign]
    with source._reading:  # as the input thread holds it while it reads
        assert source.next(1.0) is None


@pytest.mark.parametrize("handling", ["push", "adaptive"])
def test_a_loop_that_has_nothing_to_do_reads_by_itself(handling: Handling) -> None:
    """The thread reads only while the loop is at work on a large step."""
    input = ScriptedInput([1] * 9, there=2)
    source = InputSource(input, {}, handling, Sizes(step=8, batch=4, most=12, small=2), bound=lambda: 3)
    first = source.next(1.0)
    assert first is not None
    assert numbers([first]) == [0, 1]
    assert input.waits == 0
    assert not source._may_push()
    input.there = 5
    second = source.next(1.0)
    assert second is not None
    assert numbers([second]) == [2, 3, 4]
    assert source._may_push()
    input.there = 6
    assert source.push()  # by the thread
    third = source.next(1.0)
    assert third is not None
    assert numbers([third]) == [5]
    assert not source._may_push()
    assert source.next(1.0) is None
    assert input.waits == 1


# ---- as the options of a task say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handling", "future", "most"),
    [("pull", 0, 90), ("push", 0, 90), ("adaptive", 0, 24), ("adaptive", 2, 72), ("adaptive", 9, 90)],
)
def test_what_may_wait_is_what_the_options_say(handling: Handling, future: int, most: int) -> None:
    """In adaptive mode 6/8 of a step, for each match that is pushed ahead."""
    shard = StreamShard(
        spec_of("ORDER BY ts MEASURES count(*) AS n PATTERN (A B C) DEFINE B AS v > 1"), ShardSettings()
    )
    options = TaskOptions(handling, batch_rows=4, step_rows=32, max_unprocessed=90, future=future)
    source = open_source(ScriptedInput([]), {}, options, shard)
    assert source.sizes == Sizes(32, 4, most)
    assert (shard.watched is None) == (handling != "adaptive")
    assert source.next(0) is None
    assert source._bound == (3 if handling == "adaptive" else None)
    source.close()


@pytest.mark.parametrize(("handling", "sizes"), [("pull", (80, 1 << 14, 80)), ("adaptive", (80, 10, 60))])
def test_steps_are_no_larger_than_what_may_wait(handling: Handling, sizes: tuple[int, int, int]) -> None:
    shard = StreamShard(spec_of("ORDER BY ts MEASURES count(*) AS n PATTERN (A B) DEFINE B AS v > 1"), ShardSettings())
    source = open_source(ScriptedInput([]), {}, TaskOptions(handling, max_unprocessed=80), shard)
    assert source.sizes == Sizes(*sizes)
    source.close()
