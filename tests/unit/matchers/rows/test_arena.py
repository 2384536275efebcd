"""Blocks of an arena, slots of keys and the log of rows, against lists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.matchers.rows.arena import BASE, HI, KEY, LO, NEXT_START, NO_KEY, ROOM, Arena, KeyTable, RowLayout, RowLog
from episode.matchers.rows.code.array_code import RunningValues
from episode.matchers.rows.program import lower_program
from episode.matchers.rows.waiting_attempts import WaitingAttempts
from episode.matchers.state import ranges
from tests.support.rows import spec_of

LAYOUT = RowLayout(ints=1, floats=1, valids=1)
PROGRAM = lower_program(
    spec_of("ORDER BY ts MEASURES A.v AS a PATTERN (A B)").plan.program, ("A", "B"), timed_out=False
)


@pytest.mark.parametrize("by_way", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_key_stay_together_wherever_its_block_is(seed: int, by_way: bool) -> None:
    draw = np.random.default_rng(seed)
    keys, arena = KeyTable(), Arena(LAYOUT, WaitingAttempts(PROGRAM, by_way, RunningValues()))
    known: dict[int, list[int]] = {}
    number = 0
    for _ in range(300):
        some = draw.choice(40, draw.integers(1, 12), replace=False) * 7 - 50
        counts = draw.integers(0, 1 + 3 ** draw.integers(0, 5), len(some))
        slots = keys.slots_of(some)
        arena.make_room(keys, slots, counts)
        table = keys.table
        to = ranges(table[HI, slots], counts)
        values = np.arange(number, number + len(to))
        arena.time[to] = arena.ints[0, to] = arena.floats[0, to] = values
        arena.key[to] = np.repeat(some, counts)
        table[HI, slots] += counts
        for key, count in zip(some.tolist(), counts.tolist(), strict=True):
            known.setdefault(key, []).extend(range(number, number + count))
            number += count
        for key, slot in zip(some.tolist(), slots.tolist(), strict=True):
            held = int(table[HI, slot] - table[LO, slot])
            gone = int(draw.integers(0, held + 1))
            arena.key[table[LO, slot] : table[LO, slot] + gone] = NO_KEY
            table[LO, slot] += gone
            table[NEXT_START, slot] = table[LO, slot]
            del known[key][:gone]
        if draw.random() < 0.1:
            arena.lay_out(keys, slots[:0], slots[:0])
        if draw.random() < 0.1:
            alive = np.flatnonzero(keys.table[HI] > keys.table[LO])
            keys.keep(alive)
            known = {key: rows for key, rows in known.items() if rows}
        table = keys.table
        order = np.argsort(table[BASE], kind="stable")
        begin, room = table[BASE, order], table[ROOM, order]
        used = room > 0
        assert (begin[used][:-1] + room[used][:-1] <= begin[used][1:]).all(), "blocks overlap"
        for key, slot in zip(table[KEY].tolist(), range(keys.count), strict=True):
            rows = slice(table[LO, slot], table[HI, slot])
            assert arena.time[rows].tolist() == known[key]
            assert arena.ints[0, rows].tolist() == arena.floats[0, rows].tolist() == known[key]
            assert (arena.key[rows] == key).all()
            assert table[NEXT_START, slot] == table[LO, slot] or key not in some
        assert (arena.key != NO_KEY).sum() == sum(map(len, known.values()))
        assert keys.table[KEY, keys.in_order].tolist() == sorted(known)


def test_a_log_gives_its_rows_in_any_order_however_its_tables_were_joined() -> None:
    draw = np.random.default_rng(3)
    log, expected = RowLog(["s", "n"]), []
    for number in range(600):
        count = int(draw.integers(0, 6)) if number % 100 else 500
        rows = [{"s": f"{number}/{i}", "n": None if i == 1 else i, "x": 0} for i in range(count)]
        schema = pa.schema({"s": pa.string(), "n": pa.int64(), "x": pa.int8()})
        assert log.append(pa.Table.from_pylist(rows, schema), count) == len(expected)
        expected += [(row["s"], row["n"]) for row in rows]
        if number % 50 == 0:
            some = draw.integers(0, len(expected), int(draw.integers(0, 30)))
            taken = log.take(some)
            assert list(zip(*taken.to_pydict().values(), strict=True)) == [expected[i] for i in some]
        if number % 170 == 169:
            some = np.sort(draw.choice(len(expected), len(expected) // 3, replace=False))
            log.keep(some)
            expected = [expected[i] for i in some]
    assert len(log) == len(expected)
    assert log.take(np.arange(0)).num_rows == 0
