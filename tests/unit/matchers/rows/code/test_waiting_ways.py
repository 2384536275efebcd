"""Ways that wait, against a list of them for each partition."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from episode.matchers.rows.arrays import AT_LIMIT, ATTEMPT_FIELDS, CURSOR, OPEN, STACK_END, TURNS_END
from episode.matchers.rows.code.arrays import AGGREGATE_ROWS, SETTINGS
from episode.matchers.rows.code.paths import NO_TURN
from episode.matchers.rows.code.waiting_ways import (
    ARRIVAL,
    DONE,
    GIVEN_UP,
    KEEPS,
    KEPT,
    KEPT_HERE,
    KNOWN_FROM,
    LAST_TURN,
    MINE,
    NEW,
    NO_ROOM_FOR_TURNS,
    NO_ROOM_FOR_WAYS,
    RARE,
    RESUMED,
    TURNED_TO,
    WAYS,
    WayShape,
    begin_attempt,
    begin_partition,
    has_more,
    keep_way,
    settle_ways,
    stay,
    take_way_up,
    write_path,
)
from episode.native.builder import Scope
from episode.native.ir import Value
from tests.unit.matchers.rows.code.leaves import Leaf

SHAPE, PLAIN = WayShape(labels=3, loops=2, aggregates=2), WayShape(labels=1, loops=0, aggregates=0)
PARTITIONS, ROWS = 3, 60
COLUMNS = ROWS + 1


def resume_way(s: Scope, shape: WayShape, start: Value, origin: Value, walks: bool) -> tuple[Value, Value]:
    """The row and the instruction of the next way, which is resumed."""
    return take_way_up(s, start, origin, shape=shape, needs_path=walks), s.rare[ARRIVAL]


class Functions:
    """The functions of one shape."""

    def __init__(self, shape: WayShape) -> None:
        self.begin_partition = Leaf(begin_partition, 1)
        self.begin_attempt = Leaf(begin_attempt, 2)
        self.keep = {
            arrival: Leaf(lambda s, *given, loops=loops: keep_way(s, *given, shape=shape, loops=loops), 5)
            for arrival, loops in ((False, "loop_rows"), (True, "arrival_loops"))
        }
        self.take_up = {
            walks: Leaf(lambda s, *given, walks=walks: resume_way(s, shape, *given, walks), 2)
            for walks in (False, True)
        }
        self.write_path = Leaf(write_path, 2)
        self.has_more = Leaf(lambda s, start: has_more(s, start, width=shape.width), 1)
        self.stay = Leaf(lambda s: stay(s, shape=shape))
        self.settle = Leaf(lambda s, k: settle_ways(s, k, shape=shape), 1)


FUNCTIONS = {shape: Functions(shape) for shape in (SHAPE, PLAIN)}


@dataclass
class Way:
    start: int
    pc: int
    row: int
    path: list[int]
    marks: list[int]
    numbers: list[float]


def arrays_of(shape: WayShape, ways: int = 400, turns: int = 3000) -> dict[str, np.ndarray]:
    aggregates = shape.aggregates * COLUMNS
    arrays = {
        "key_lo": np.zeros(PARTITIONS, np.int64),
        "settings": np.zeros(SETTINGS, np.int64),
        "opened": np.zeros(ATTEMPT_FIELDS * PARTITIONS, np.int64),
        "cursor": np.zeros(CURSOR, np.int64),
        "rare": np.zeros(RARE, np.int64),
        "ways": np.zeros(ways * shape.width, np.int64),
        "way_values": np.zeros(ways * 2 * shape.aggregates, np.float64),
        "turns": np.zeros(3 * turns, np.int64),
        "path": np.zeros(ROWS, np.int32),
        "last_row": np.zeros(shape.labels, np.int64),
        "first_row": np.zeros(shape.labels, np.int64),
        "loop_rows": np.zeros(shape.loops, np.int64),
        "arrival_loops": np.zeros(shape.loops, np.int64),
        "agg_i": np.zeros(aggregates, np.int64),
        "agg_n": np.zeros(aggregates, np.int64),
        "agg_f": np.zeros(aggregates, np.float64),
        "agg_m": np.zeros(aggregates, np.float64),
    }
    arrays["settings"][AGGREGATE_ROWS] = COLUMNS
    return arrays


class Simulation:
    """A search that lets random ways wait, beside a list of what each of them knows."""

    def __init__(self, shape: WayShape, seed: int, ways: int = 400, turns: int = 3000) -> None:
        self.shape, self.draw = shape, np.random.default_rng(seed)
        self.arrays, self.do = arrays_of(shape, ways, turns), FUNCTIONS[shape]
        self.waiting: list[list[Way]] = [[] for _ in range(PARTITIONS)]

    def run_partition(self, k: int) -> None:
        """Resume all ways of a partition; each is kept again, further along, as none, one or several ways."""
        arrays, do = self.arrays, self.do
        do.begin_partition(arrays, k)
        old, new, done = self.waiting[k], [], 0
        assert arrays["rare"][WAYS] == len(old)
        stays = False
        for start in sorted({way.start for way in old} | {int(self.draw.integers(0, 30)) for _ in range(2)}):
            mine = [way for way in old if way.start == start]
            do.begin_attempt(arrays, start, 99)
            assert arrays["rare"][MINE] == 99
            assert do.has_more(arrays, start) == [bool(mine)]
            if mine and self.draw.random() < 0.1:
                assert do.stay(arrays) == [KEPT]
                new += old[done:]
                stays = True
                break
            if not mine:
                new += self.keep_some(Way(start, 0, start, [], [], []))
            for way in mine:
                assert do.has_more(arrays, start) == [True]
                new += self.keep_some(self.resume(way))
                done += 1
        assert stays or arrays["rare"][DONE] == len(old)
        do.settle(arrays, k)
        self.waiting[k] = new

    def resume(self, way: Way) -> Way:
        """Take the next way up; what it knows must be what was kept."""
        arrays, shape, origin = self.arrays, self.shape, way.start
        walks = bool(self.draw.random() < 0.5)
        for name in ("last_row", "first_row", "loop_rows", "arrival_loops", "path"):
            arrays[name][:] = -7
        assert self.do.take_up[walks](arrays, way.start, origin) == [way.row, way.pc]
        assert arrays["rare"][[RESUMED, KEPT_HERE, TURNED_TO]].tolist() == [1, 0, way.row]
        if not walks:
            assert arrays["rare"][KNOWN_FROM] == way.row
            self.do.write_path(arrays, way.start, origin)
        assert arrays["rare"][KNOWN_FROM] == way.start
        assert arrays["path"][: len(way.path)].tolist() == way.path
        marks = [*arrays["last_row"], *arrays["first_row"], *arrays["loop_rows"]]
        assert marks == way.marks
        assert arrays["arrival_loops"].tolist() == arrays["loop_rows"].tolist()
        cells = np.arange(shape.aggregates) * COLUMNS + way.row - origin
        numbers = [float(number) for name in ("agg_i", "agg_n", "agg_f", "agg_m") for number in arrays[name][cells]]
        assert numbers == way.numbers
        return way

    def keep_some(self, way: Way) -> list[Way]:
        return [self.keep(way) for _ in range(self.draw.choice([0, 1, 1, 1, 2]))]

    def keep(self, way: Way) -> Way:
        """Let a way wait some rows further along."""
        arrays, shape, draw = self.arrays, self.shape, self.draw
        arrival = bool(draw.random() < 0.5)
        row = min(way.row + int(draw.integers(0, 4)), way.start + ROWS)
        path = [*way.path, *draw.integers(0, 2, row - way.row).tolist()]
        arrays["path"][: len(path)] = path
        for name in ("last_row", "first_row", "loop_rows", "arrival_loops"):
            arrays[name][:] = draw.integers(-1, 50, len(arrays[name]))
        for name in ("agg_i", "agg_n", "agg_f", "agg_m"):
            arrays[name][:] = draw.integers(-9, 9, len(arrays[name]))
        cells = np.arange(shape.aggregates) * COLUMNS + row - way.start
        pc, steps = int(draw.integers(0, 9)), int(draw.integers(0, 99))
        self.kept_as = self.do.keep[arrival](arrays, way.start, pc, row, steps, way.start)
        loops = arrays["arrival_loops" if arrival else "loop_rows"]
        return replace(
            way, pc=pc, row=row, path=path,
            marks=[*arrays["last_row"].tolist(), *arrays["first_row"].tolist(), *loops.tolist()],
            numbers=[float(n) for name in ("agg_i", "agg_n", "agg_f", "agg_m") for n in arrays[name][cells]],
        )  # fmt: skip


@pytest.mark.parametrize("shape", [SHAPE, PLAIN], ids=["full", "plain"])
@pytest.mark.parametrize("seed", range(4))
def test_ways_resume_as_they_were_kept(shape: WayShape, seed: int) -> None:
    simulation = Simulation(shape, seed)
    for turn in range(12):
        simulation.run_partition(turn % PARTITIONS)
        opened = simulation.arrays["opened"].reshape(-1, PARTITIONS)[OPEN]
        assert opened.tolist() == [int(bool(ways)) for ways in simulation.waiting]
    assert any(simulation.waiting)


@pytest.mark.parametrize(("ways", "turns", "why"), [(1, 50, NO_ROOM_FOR_WAYS), (9, 0, NO_ROOM_FOR_TURNS)])
@pytest.mark.parametrize("cramped", [False, True])
def test_no_room(ways: int, turns: int, why: int, cramped: bool) -> None:
    """The search stops so that there can be more; if there cannot, the ways of the partition start over."""
    simulation = Simulation(SHAPE, 1, ways, turns)
    arrays = simulation.arrays
    arrays["cursor"][AT_LIMIT] = cramped
    simulation.do.begin_partition(arrays, 1)
    assert arrays["rare"][KEEPS] == 1
    simulation.do.begin_attempt(arrays, 3, 1)
    assert arrays["rare"][LAST_TURN] == NO_TURN
    simulation.kept_as = [KEPT]
    while simulation.kept_as == [KEPT]:
        simulation.keep(Way(3, 0, 3, [], [], []))
    assert simulation.kept_as == [GIVEN_UP if cramped else why]
    assert arrays["rare"][KEEPS] == 0
    simulation.do.settle(arrays, 1)
    assert arrays["opened"].sum() == 0
    assert arrays["cursor"][[STACK_END, TURNS_END]].tolist() == [0, 0]


def test_ways_that_stay_need_room_after_new_ones() -> None:
    simulation = Simulation(PLAIN, 3, ways=8)
    arrays, do = simulation.arrays, simulation.do
    do.begin_partition(arrays, 0)
    for start in range(3):
        do.begin_attempt(arrays, start, 1)
        simulation.waiting[0].append(simulation.keep(Way(start, 0, start, [], [], [])))
    do.settle(arrays, 0)
    do.begin_partition(arrays, 0)
    simulation.resume(simulation.waiting[0][0])
    for _ in range(2):
        simulation.keep(simulation.waiting[0][0])
    assert arrays["rare"][NEW] == 2
    assert do.stay(arrays) == [NO_ROOM_FOR_WAYS]
    assert arrays["rare"][[KEEPS, DONE]].tolist() == [0, 3]
