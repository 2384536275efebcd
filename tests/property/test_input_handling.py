"""Pull, push and adaptive input give the loop the same events in the same order, however the input is cut."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from episode.live.input_source import HANDLINGS, InputSource, Sizes
from episode.live.protocol import Handling, InputBatch
from tests.unit.live.scripted import ScriptedInput, numbers

COMMITS = st.lists(st.integers(0, 9), min_size=1, max_size=60)
SIZES = st.builds(
    Sizes, step=st.integers(1, 30), batch=st.integers(1, 10), most=st.integers(1, 50), small=st.integers(0, 9)
)


@settings(deadline=None)
@given(COMMITS, SIZES, st.sampled_from(HANDLINGS), st.data())
def test_the_same_events_by_hand(commits: list[int], sizes: Sizes, handling: Handling, data: st.DataObject) -> None:
    """Appending, the thread's readings and the loop's steps in any order: nothing is lost, and what waits stays below
    the bound (but for one commit, which is the least that can be read)."""
    barriers = data.draw(st.sets(st.integers(1, len(commits))))
    input = ScriptedInput(commits, there=0, barriers=sorted(barriers))
    bounds = st.integers(1, 8)
    source = InputSource(input, {}, handling, sizes, bound=lambda: data.draw(bounds))
    found: list[InputBatch] = []

    def step() -> None:
        slice = source.next(0)
        if slice is not None:
            found.append(slice)
            assert slice.rows <= max(sizes.step, sizes.batch, *commits)

    for move in data.draw(st.lists(st.sampled_from(["append", "read", "step"]), max_size=100)):
        if move == "append":
            input.there = min(len(commits), input.there + data.draw(st.integers(1, 5)))
        elif move == "read" and handling != "pull" and not source._is_paused():
            source.push()
        elif move == "step":
            step()
        assert source._holder.waiting <= max(sizes.most, sizes.batch * 2) + max(commits)
        assert abs(source.suspends - source.resumes) <= 1
    input.there = len(commits)
    while not found or found[-1].after != {"events": len(commits)}:
        if handling != "pull" and not source._is_paused():
            source.push()
        step()
    _check(found, commits, barriers)


@settings(deadline=None, max_examples=30)
@given(COMMITS, SIZES, st.sampled_from(HANDLINGS), st.integers(1, 8))
def test_the_same_events_with_the_thread(commits: list[int], sizes: Sizes, handling: Handling, bound: int) -> None:
    source = InputSource(ScriptedInput(commits), {}, handling, sizes, bound=lambda: bound).start()
    found: list[InputBatch] = []
    while not found or found[-1].after != {"events": len(commits)}:
        slice = source.next(30.0)
        assert slice is not None
        found.append(slice)
    source.close()
    _check(found, commits, set())


def _check(found: list[InputBatch], commits: list[int], barriers: set[int]) -> None:
    assert numbers(found) == list(range(sum(commits)))
    whole = ScriptedInput(commits).read({}, sum(commits) + 1)
    assert whole is not None
    assert whole.reached is not None
    assert [int(one) for slice in found for one in slice.reached] == whole.reached.tolist()  # type: ignore[union-attr]
    ends = [slice.after["events"] for slice in found]
    assert ends == sorted(ends)
    assert barriers <= set(ends)
