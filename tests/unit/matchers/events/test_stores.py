"""Stores of records: stretches that grow and move, against plain lists."""

from __future__ import annotations

import numpy as np
import pytest

from episode.matchers.events.code.conditions import NO_COLUMNS, RecordTests
from episode.matchers.events.code.joins import JoinShape
from episode.matchers.events.records import NO_LIMIT, Buffer, TooManyRecords
from episode.matchers.events.stores import KeptRecords, RecordStore, Slots

JOIN = JoinShape("hash", RecordTests(NO_COLUMNS, (), ("a",), ("b",)))


def buffer_of(records: list[list[int]]) -> Buffer:
    """Records of partitions, of which the number is start, end and row."""
    every = np.array([one for group in records for one in group], np.int64)
    from_ = np.cumsum([0, *map(len, records)])
    return Buffer(("a",), from_, every, every, every.astype(np.int32).reshape(-1, 1))


def test_slots_are_numbered_as_keys_come() -> None:
    slots = Slots()
    assert slots.of(np.array([7, 3])).tolist() == [1, 0]
    assert slots.of(np.array([5, 3, 9])).tolist() == [2, 0, 3]
    assert slots.of(np.array([7])).tolist() == [1]
    assert slots.keys.tolist() == [3, 5, 7, 9]


@pytest.mark.parametrize("seed", range(5))
def test_a_store_has_what_was_added(seed: int) -> None:
    random = np.random.default_rng(seed)
    kept, expected, number = KeptRecords(NO_LIMIT), dict[int, list[int]](), 0
    for _ in range(40):
        keys = random.choice(9, size=int(random.integers(0, 5)), replace=False)
        new: list[list[int]] = []
        for _key in keys:
            count = int(random.choice([0, 0, 1, 2, 7, 30]))
            new.append(list(range(number, number + count)))
            number += count
        before = [len(expected.get(key, [])) for key in keys]
        for key, records in zip(keys, new, strict=True):
            expected.setdefault(key, []).extend(records)
        kept.begin(keys)
        stored = kept.extend("a", buffer_of(new))
        assert kept.extend("a", buffer_of(new)) is stored  # added once in a round
        assert (stored.new - stored.lo).tolist() == before
        together = stored.together()
        found = [together.end[low:high].tolist() for low, high in zip(together.lo, together.hi, strict=True)]
        assert found == [expected[key] for key in keys]
        assert together.rows[:, 0].tolist() == together.start.tolist() == together.end.tolist()


def test_a_stretch_that_moves_is_entered_anew() -> None:
    kept = KeptRecords(NO_LIMIT)
    kept.begin(np.array([1]))
    index = kept.extend("a", buffer_of([[1, 2]])).index_for(JOIN, "l")
    assert index.arrays["l_entered"].tolist() == [0]
    index.arrays["l_entered"][:] = 2
    index.arrays["l_heads"][:] = 0
    index.keep()
    kept.begin(np.array([1]))
    index = kept.extend("a", buffer_of([[3]])).index_for(JOIN, "l")  # there was room
    assert index.arrays["l_entered"].tolist() == [2]
    kept.begin(np.array([1]))
    stored = kept.extend("a", buffer_of([list(range(4, 20))]))
    index = stored.index_for(JOIN, "l")
    base, mask = int(stored.lo[0]), int(index.arrays["l_mask"][0])
    assert base > 0
    assert index.arrays["l_entered"].tolist() == index.arrays["l_buckets"].tolist() == [base]
    assert (index.arrays["l_heads"][base : base + mask + 1] == -1).all()


def test_a_partition_without_records_has_none() -> None:
    kept = KeptRecords(NO_LIMIT)
    kept.begin(np.array([1, 2]))
    stored = kept.extend("a", buffer_of([[], [5]]))
    assert (stored.hi - stored.lo).tolist() == [0, 1]
    assert stored.lo.min() >= 0


def test_a_store_has_a_limit() -> None:
    store = RecordStore(("a",))
    store.append(np.array([0]), buffer_of([[1, 2, 3]]), 8)
    with pytest.raises(TooManyRecords):
        store.append(np.array([0]), buffer_of([list(range(9))]), 8)
