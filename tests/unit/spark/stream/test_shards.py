"""The chunks of a shard: in one value while they are small, then in a map, and read again as they were written."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from episode.matchers.protocol import Snapshot, StateChunk
from episode.spark.stream.shards import SMALL, ShardChunks


class Entries:
    """Spark's map state, and how often it is called."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str], tuple[int, bytes]] = {}
        self.calls = 0

    def iterator(self) -> Iterator[tuple[tuple[str], tuple[int, bytes]]]:
        return iter(self.entries.items())

    def updateValue(self, key: tuple[str], value: tuple[int, bytes]) -> None:
        self.calls += 1
        self.entries[key] = value

    def removeKey(self, key: tuple[str]) -> None:
        self.calls += 1
        self.entries.pop(key, None)


NAMES = st.sampled_from("abcde")
CHUNKS = st.builds(
    lambda name, version, size: StateChunk(name, version, bytes(size)),
    NAMES, st.integers(1, 3), st.sampled_from([0, 10, SMALL // 2, SMALL]),
)  # fmt: skip
STEPS = st.lists(st.tuples(st.lists(CHUNKS, max_size=3, unique_by=lambda one: one.name), st.sets(NAMES)), max_size=8)


@given(STEPS, st.sets(st.integers(0, 7)))
def test_the_state_is_what_was_written_last(steps: list, restarts: set[int]) -> None:
    large, chunks, expected = Entries(), ShardChunks({}), {}
    for number, (put, removed) in enumerate(steps):
        put_names = {chunk.name for chunk in put}
        change = Snapshot(tuple(put), tuple(name for name in removed if name not in put_names))
        change.apply(expected)
        small = chunks.change(change, large)
        read, state = ShardChunks.read(small, large)
        assert {chunk.name: chunk for chunk in state} == expected
        if number in restarts:
            chunks = read


def test_a_small_state_never_calls_the_map() -> None:
    large, chunks = Entries(), ShardChunks({})
    for number in range(5):
        chunks.change(Snapshot((StateChunk(f"{number}", 1, b"x" * 100),), (f"{number - 1}",)), large)
    assert large.calls == 0


def test_a_large_state_writes_what_is_new() -> None:
    large, chunks = Entries(), ShardChunks({})
    chunks.change(Snapshot((StateChunk("a", 1, bytes(SMALL)), StateChunk("b", 1, b"x"))), large)
    large.calls = 0
    chunks.change(Snapshot((StateChunk("c", 1, b"y"),), ("b",)), large)
    assert large.calls == 2
    assert set(large.entries) == {("a",), ("c",)}
