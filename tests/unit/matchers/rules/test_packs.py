"""Packs of chunks: the state is what was put and not removed, whatever the packs are, and it is never much larger."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from episode.matchers.protocol import Snapshot, StateChunk
from episode.matchers.rules.packs import Packs

NAMES = st.sampled_from([f"chunk {number}" for number in range(6)])
STEPS = st.lists(st.tuples(st.dictionaries(NAMES, st.binary(max_size=40), max_size=4), st.sets(NAMES, max_size=3)))


@given(STEPS, st.data())
def test_a_state_is_read_as_it_was_written(steps: list[tuple[dict[str, bytes], set[str]]], data: st.DataObject) -> None:
    packs, written, expected = Packs(), dict[str, StateChunk](), dict[str, StateChunk]()
    for number, (put, removed) in enumerate(steps):
        changes = Snapshot(tuple(StateChunk(name, number, value) for name, value in put.items()), tuple(removed))
        changes.apply(expected)
        packs.update(changes.put, changes.removed).apply(written)
        if data.draw(st.booleans()):
            packs = Packs()
            packs.restore(list(written.values()))
        assert packs.chunks == expected
    again = Packs()
    again.restore(list(written.values()))
    assert again.chunks == expected


def test_few_packs_hold_many_steps() -> None:
    packs, written, puts = Packs(), dict[str, StateChunk](), 0
    for number in range(500):
        changes = packs.update([StateChunk(f"log {number}", 1, b"x" * 100), StateChunk("head", 1, b"y" * 50)], [])
        puts += len(changes.put)
        changes.apply(written)
    assert len(written) < 16
    assert puts < 500 * 3
    live = sum(len(chunk.data) for chunk in packs.chunks.values())
    assert sum(len(chunk.data) for chunk in written.values()) < 4 * live
    for number in range(500):
        packs.update([], [f"log {number}"]).apply(written)
    assert sum(len(chunk.data) for chunk in written.values()) < 4_000


def test_what_has_not_changed_is_not_written() -> None:
    packs = Packs()
    packs.update([StateChunk("a", 1, b"a")], [])
    assert packs.update([], []) == Snapshot()
    assert packs.update([], ["unknown"]) == Snapshot()
