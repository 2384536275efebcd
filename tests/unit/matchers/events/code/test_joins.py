"""Emitted joins and searches between records, in all ways, against the plainest of loops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from episode.matchers.code.expressions import LanePlaces
from episode.matchers.code.rows import compute_lane
from episode.matchers.encoding import Lanes
from episode.matchers.events import adapt as census
from episode.matchers.events import compiled_loops as joining
from episode.matchers.events import compiled_loops as looking
from episode.matchers.events.code.conditions import (
    ConditionColumns,
    RecordTests,
    compared_values,
    comparison_of,
    hashed_values,
)
from episode.matchers.events.code.joins import JoinShape
from episode.matchers.events.records import NO_LIMIT, Buffer, FoundRecords
from episode.matchers.events.rounds import Round
from episode.matchers.events.stores import KeptRecords
from episode.matchers.running import LocalRun
from episode.matchers.times import EVER, NEVER
from episode.plan.events.cost import PhysicalPlan, left_deep
from episode.plan.expressions import Apply, Constant, Expression, Load, Navigated
from tests.reference.event_patterns import Event
from tests.support.events import spec_of, table_of
from tests.unit.matchers.events.ways import WAYS
from tests.unit.native.runs import programs_made_by

ROWS = 24
FLOATS = [-math.inf, -2.5, -0.0, 0.0, 1.0, 1.5, math.inf, math.nan]
INTS = [NEVER, NEVER + 1, -1, 0, 1, EVER - 1, EVER]
OPERATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
Row = dict[str, Any]


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Everything is run in this way."""
    with programs_made_by(WAYS[request.param]):
        yield request.param


# ---- random records -----------------------------------------------------------------------------------


def lanes_of(random: np.random.Generator) -> Lanes:
    """Columns i and j (j may be null) of whole numbers, f and g (g may be null) of floats; k is small."""
    ints, floats, valid = np.zeros((7, ROWS), np.int64), np.zeros((6, ROWS)), np.zeros((6, ROWS), np.uint8)
    ints[:2], ints[2] = random.choice(np.array(INTS, np.int64), (2, ROWS)), random.integers(0, 3, ROWS)
    floats[:2], valid[:2] = random.choice(np.array(FLOATS), (2, ROWS)), random.integers(0, 2, (2, ROWS))
    at = {"i": 0, "j": 1, "k": 2, "f": 0, "g": 1}
    nulls = {"i": -1, "j": 0, "k": -1, "f": -1, "g": 1}
    return Lanes(ints, floats, valid, at, nulls, int_rows=3, float_rows=2, valid_rows=2)


def row_of(lanes: Lanes, row: int) -> Row:
    whole, real, valid = lanes.ints[:, row].tolist(), lanes.floats[:, row].tolist(), lanes.valid[:, row].tolist()
    return {
        "i": whole[0], "j": whole[1] if valid[0] else None, "k": whole[2], "f": real[0],
        "g": real[1] if valid[1] else None,
    }  # fmt: skip


def records_of(
    random: np.random.Generator, variables: tuple[str, ...], optional: frozenset[str], lasting: bool, count: int = 14
) -> Buffer:
    """Records of two partitions, sorted by end; the first row is that of the first event."""
    cut = int(random.integers(0, count + 1))
    end = np.concatenate([np.sort(random.integers(0, 30, cut)), np.sort(random.integers(0, 30, count - cut))])
    start = end - random.integers(0, 4, count) if lasting else end.copy()
    rows = random.integers(0, ROWS, (count, len(variables))).astype(np.int32)
    for column, name in enumerate(variables):
        if name in optional:
            rows[random.random(count) < 0.4, column] = -1
    return Buffer(variables, np.array([0, cut, count]), start, end, rows)


def at(variable: str) -> Navigated:
    return Navigated(frozenset((variable,)), False, 0, 0)


TYPES = {"i": "bigint", "j": "bigint", "k": "bigint", "f": "double", "g": "double"}


def load(variable: str, column: str) -> Load:
    return Load(column, at(variable), TYPES[column])


def condition_of(random: np.random.Generator, names: tuple[str, ...]) -> tuple[Expression, frozenset[str]]:
    """A comparison of columns, or of something computed of several events."""
    one, other = random.choice(np.array(names), 2)
    columns = random.choice([["i", "j", "k"], ["f", "g"]][int(random.integers(0, 2))], 2)
    left: Expression = load(str(one), str(columns[0]))
    if random.random() < 0.25:
        left = Apply("coalesce", (left, load(str(other), str(columns[1]))), left.type)
    expression = Apply(str(random.choice(OPERATIONS)), (left, load(str(other), str(columns[1]))), "boolean")
    return expression, frozenset((str(one), str(other)))


def random_tests(
    random: np.random.Generator, lanes: Lanes, left: tuple[str, ...], right: tuple[str, ...], optional: frozenset[str]
) -> RecordTests:
    count = int(random.integers(0, 3))
    conditions = tuple(condition_of(random, (*left, *right)) for _ in range(count))
    computed: dict[Expression, tuple[bool, int, int]] = {}
    for expression, _ in conditions:
        comparison = comparison_of(expression)
        if comparison is not None and not isinstance(comparison.left.expression, Load):
            made = compute_lane(lanes, np.zeros(ROWS, np.int64), comparison.left.expression)
            computed[comparison.left.expression] = made
    return RecordTests(
        ConditionColumns(LanePlaces.of(lanes), tuple(computed.items())), conditions, left, right, optional
    )


def order(a: float, b: float) -> int:
    """Spark's: NaN equals NaN and is greater than all else."""
    if a != a or b != b:
        return int(a != a) - int(b != b)
    return int(a > b) - int(a < b)


def value_of(expression: Expression, events: dict[str, Row]) -> Any:
    if isinstance(expression, Load):
        assert isinstance(expression.at, Navigated)
        assert expression.at.labels is not None
        (name,) = expression.at.labels
        return events[name][expression.column]
    assert isinstance(expression, Apply)
    one, other = (value_of(operand, events) for operand in expression.operands)
    if expression.operation == "coalesce":
        return other if one is None else one
    if one is None or other is None:
        return None
    found = order(one, other)
    return dict(zip(OPERATIONS, (found == 0, found != 0, found < 0, found <= 0, found > 0, found >= 0)))[
        expression.operation
    ]


def hold(tests: RecordTests, lanes: Lanes, left: np.ndarray, right: np.ndarray) -> bool:
    """A condition on an event that was left out holds."""
    rows = dict(zip(tests.left, left.tolist())) | dict(zip(tests.right, right.tolist()))
    events = {name: row_of(lanes, row) for name, row in rows.items() if row >= 0}
    return all(
        any(name not in events for name in variables) or value_of(expression, events) is True
        for expression, variables in tests.conditions
    )


def start_of_window(end: int, window: int) -> int:
    return NEVER if window == EVER else end - window


# ---- joins -----------------------------------------------------------------------------------


def expected_join(
    join: JoinShape,
    lanes: Lanes,
    left: Buffer,
    right: Buffer,
    window: int,
    done: np.ndarray,
    bars: dict[str, np.ndarray],
) -> list[list[tuple[int, ...]]]:
    """By partition, the records: (start, end, rows …), sorted."""
    out = []
    for g in range(2):
        found = []
        for l in range(left.from_[g], left.from_[g + 1]):
            for r in range(right.from_[g], right.from_[g + 1]):
                start, end = min(left.start[l], right.start[r]), max(left.end[l], right.end[r])
                fits = end > done[g] and start >= start_of_window(end, window)
                if join.kind != "together":
                    fits = fits and left.end[l] < right.start[r]
                if "r_low" in bars:
                    fits = fits and bars["r_low"][r] <= left.end[l] < bars["r_high"][r]
                if "l_low" in bars:
                    fits = fits and bars["l_low"][l] < right.start[r] <= bars["l_high"][l]
                if join.distinct:
                    fits = fits and not {*left.rows[l].tolist()} & {*right.rows[r].tolist()} - {-1}
                if fits and hold(join.tests, lanes, left.rows[l], right.rows[r]):
                    found.append((int(start), int(end), *left.rows[l].tolist(), *right.rows[r].tolist()))
        out.append(sorted(found))
    return out


def records(buffer: Buffer) -> list[list[tuple[int, ...]]]:
    every = list(zip(buffer.start.tolist(), buffer.end.tolist(), *buffer.rows.T.tolist()))
    return [sorted(every[low:high]) for low, high in pairwise(buffer.from_)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["range", "hash", "together"])
def test_joins(way: str, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "LEAST_ROOM", 1)
    random = np.random.default_rng([seed, ord(kind[0])])
    for _ in range(2 if way == "interpreted" else 5):
        optional = frozenset() if kind == "hash" or random.random() < 0.5 else frozenset("b")
        lasting = bool(random.random() < 0.6)
        variables = ("a", "b") if lasting else ("a",)
        lanes = lanes_of(random)
        left, right = (records_of(random, names, optional, lasting) for names in (variables, ("c",)))
        tests = random_tests(random, lanes, variables, ("c",), optional & {*variables})
        if kind == "hash":
            columns = ("k", "j")[: random.integers(1, 3)]
            equal = [Apply("eq", (load("a", name), load("c", name)), "boolean") for name in columns]
            conditions = (*((one, frozenset("ac")) for one in equal), *tests.conditions)
            tests = RecordTests(tests.columns, conditions, variables, ("c",))
            assert hashed_values(tests)
        bars = {}
        for side, records_ in (("l", left), ("r", right)):
            if kind != "together" and random.random() < 0.5:
                bars[f"{side}_low"] = random.integers(-5, 15, len(records_))
                bars[f"{side}_high"] = random.integers(10, 35, len(records_))
        join = JoinShape(
            kind, tests, lasting, ("l_low" in bars, "r_low" in bars), kind == "together" and bool(random.random() < 0.5)
        )
        window, done = int(random.choice([0, 4, 12, EVER])), random.integers(-5, 15, 2)
        made, tried = joining.join_buffers(join, lanes, left, right, window, done, NO_LIMIT, bars)
        assert made is not None
        assert records(made) == expected_join(join, lanes, left, right, window, done, bars)
        assert all((np.diff(made.end[low:high]) >= 0).all() for low, high in pairwise(made.from_))
        assert tried >= len(made)
        if len(made):
            assert joining.join_buffers(join, lanes, left, right, window, done, len(made) - 1, bars)[0] is None


@pytest.mark.parametrize(
    "text",
    [
        "A & B WHERE A.x = B.x",
        "A; B WHERE A.x = B.x AND A.y = B.y",
        "A & B & C WHERE A.x = B.x AND A.y = C.y AND B.x = C.x",
    ],
)
def test_only_equal_records_are_tried(text: str) -> None:
    random = np.random.default_rng(1)
    events = [
        Event(n, n, n, {"type": "ABC"[n % 3], "k": 1, "x": x, "y": y, "s": ""})
        for n, (x, y) in enumerate(random.integers(0, 30, (600, 2)).tolist())
    ]
    spec = spec_of(f"PATTERN {text} WITHIN 1000")
    tree = spec.plan.tree
    assert tree is not None
    running = LocalRun(replace(spec, forced=PhysicalPlan(False, ((tree, left_deep(len(tree.parts))),), 0.0)))
    running.feed(table_of(events))
    tried, records = zip(*running.matcher.adaptation.counted.values(), strict=True)
    assert sum(records) > 0
    assert sum(tried) < 2 * sum(records) + len(events)  # some share a bucket


@pytest.mark.parametrize("kind", ["range", "hash", "together"])
def test_joins_of_kept_records(way: str, kind: str) -> None:
    """What is new of each feed is joined with everything before: together that is the join of all."""
    random = np.random.default_rng(ord(kind[0]))
    lanes = lanes_of(random)
    left, right = (records_of(random, (name,), frozenset(), False, 40) for name in "ac")
    equal = Apply("eq", (load("a", "k"), load("c", "k")), "boolean")
    conditions = ((equal, frozenset("ac")),) if kind == "hash" else ()
    tests = RecordTests(ConditionColumns(LanePlaces.of(lanes)), conditions, ("a",), ("c",))
    join, done = JoinShape(kind, tests, False), np.full(2, NEVER)
    whole, _ = joining.join_buffers(join, lanes, left, right, 9, done, NO_LIMIT, {})
    assert whole is not None
    kept, found = KeptRecords(NO_LIMIT), []
    for first in range(-1, 30, 3):
        new_left, new_right = between(left, first, first + 3), between(right, first, first + 3)
        kept.begin(np.array([7, 5]))
        lefts = kept.extend("a", new_left)
        rights = kept.extend("c", new_right) if kind == "together" else new_right
        made, _ = joining.join_buffers(join, lanes, lefts, rights, 9, done, NO_LIMIT, {})
        assert made is not None
        found.append(records(made))
    assert [sorted(one for feed in found for one in feed[group]) for group in range(2)] == records(whole)
    assert records(kept.extend("a", left).together()) == records(left)


def between(buffer: Buffer, first: int, stop: int) -> Buffer:
    """The records that end in first:stop."""
    groups = np.searchsorted(buffer.from_, np.arange(len(buffer)), side="right") - 1
    rows = np.flatnonzero((buffer.end >= first) & (buffer.end < stop))
    from_ = np.searchsorted(groups[rows], np.arange(3))
    return Buffer(buffer.variables, from_, buffer.start[rows], buffer.end[rows], buffer.rows[rows])


def test_a_join_of_some_records_of_each_side(way: str) -> None:
    """Left and right records may be any part of their arrays."""
    random = np.random.default_rng(5)
    lanes = lanes_of(random)
    left, right = (records_of(random, (name,), frozenset(), False, 30) for name in "ac")
    tests = RecordTests(ConditionColumns(LanePlaces.of(lanes)), (), ("a",), ("c",))

    def part(buffer: Buffer) -> Buffer:
        """Without the first partition."""
        return Buffer(buffer.variables, buffer.from_[1:], buffer.start, buffer.end, buffer.rows)

    for kind in ("range", "together"):
        join = JoinShape(kind, tests, False)
        whole, _ = joining.join_buffers(join, lanes, left, right, 9, np.full(2, -1), NO_LIMIT, {})
        half, _ = joining.join_buffers(join, lanes, part(left), part(right), 9, np.full(1, -1), NO_LIMIT, {})
        assert whole is not None
        assert half is not None
        assert records(half) == records(whole)[1:]


def test_which_values_are_compared_before_pairs_are_listed() -> None:
    lanes = lanes_of(np.random.default_rng(1))
    columns = ConditionColumns(LanePlaces.of(lanes))

    def tests(*conditions: Apply, optional: str = "") -> RecordTests:
        found = tuple((one, frozenset("ac")) for one in conditions)
        return RecordTests(columns, found, ("a",), ("c",), frozenset(optional))

    def compare(operation: str, column: str, other: str) -> Apply:
        return Apply(operation, (load("c", column), load("a", other)), "boolean")

    null, plain = compare("lt", "j", "i"), compare("le", "f", "f")
    found = compared_values(tests(null, plain))
    assert found is not None
    assert (found.condition, found.operation) == (plain, "ge")  # turned: the left side is a
    assert compared_values(tests(null, plain, optional="a")) is None
    equal = compare("eq", "j", "i"), compare("eq", "f", "f"), compare("eq", "k", "k")
    found_values = [(one.left, one.right) for one in hashed_values(tests(plain, *equal))]
    assert found_values == [((False, 0, 0), (False, 1, 0)), ((False, 2, 0), (False, 2, 0))]  # not those of floats
    assert hashed_values(tests(compare("eq", "i", "i"), optional="c")) == ()


# ---- between and around -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_nearest_record_before_and_after(way: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    optional = frozenset("b" if seed % 2 else "")
    lanes = lanes_of(random)
    others, mine = records_of(random, ("n",), frozenset(), True), records_of(random, ("a", "b"), optional, True)
    window, nth = int(random.choice([3, 12, EVER])), 1
    before = random_tests(random, lanes, ("n",), ("a", "b"), optional)
    after = random_tests(random, lanes, ("a", "b"), ("n",), optional)
    latest = looking.latest_before(before, lanes, others, mine, nth, window)
    earliest = looking.earliest_after(after, lanes, mine, others, nth, window)
    for g in range(2):
        for m in range(mine.from_[g], mine.from_[g + 1]):
            starts, ends = [NEVER], [EVER]
            for n in range(others.from_[g], others.from_[g + 1]):
                is_before = others.end[n] < mine.start[m] and others.start[n] >= start_of_window(mine.end[m], window)
                if is_before and hold(before, lanes, others.rows[n], mine.rows[m]):
                    starts.append(int(others.start[n]))
                in_window = window == EVER or others.end[n] <= mine.start[m] + window
                is_after = others.start[n] > mine.end[m] and in_window
                if is_after and hold(after, lanes, mine.rows[m], others.rows[n]):
                    ends.append(int(others.end[n]))
            assert latest[m] == max(starts)
            assert earliest[m] == min(ends)


def test_the_nth_event_before_and_after(way: str) -> None:
    random = np.random.default_rng(8)
    lanes = lanes_of(random)
    others, mine = (records_of(random, (name,), frozenset(), False, 20) for name in "na")
    none = RecordTests(ConditionColumns(LanePlaces.of(lanes)), (), ("n",), ("a",))
    turned = RecordTests(none.columns, (), ("a",), ("n",))
    latest = looking.latest_before(none, lanes, others, mine, 3, EVER)
    earliest = looking.earliest_after(turned, lanes, mine, others, 3, EVER)
    for g in range(2):
        times = others.end[others.from_[g] : others.from_[g + 1]]
        for m in range(mine.from_[g], mine.from_[g + 1]):
            before, after = times[times < mine.end[m]], times[times > mine.end[m]]
            assert latest[m] == (before[-3] if len(before) >= 3 else NEVER)
            assert earliest[m] == (after[2] if len(after) >= 3 else EVER)


@pytest.mark.parametrize("seed", range(6))
def test_records_between_two_times(way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "LEAST_ROOM", 1)
    random = np.random.default_rng(seed)
    optional = frozenset("b" if seed % 2 else "")
    lanes = lanes_of(random)
    others, mine = records_of(random, ("n",), frozenset(), True, 30), records_of(random, ("a", "b"), optional, True)
    found = FoundRecords(mine.variables, mine.from_, mine.start, mine.end, mine.rows)
    low, high = mine.start - 8, mine.end + 8
    tests = random_tests(random, lanes, ("a", "b"), ("n",), optional)
    expected: list[list[int]] = []
    for g in range(2):
        for m in range(mine.from_[g], mine.from_[g + 1]):
            expected.append([])
            for n in range(others.from_[g], others.from_[g + 1]):
                inside = low[m] <= others.start[n] and others.end[n] <= high[m]
                own = others.rows[n, 0] in mine.rows[m]
                if inside and not own and hold(tests, lanes, mine.rows[m], others.rows[n]):
                    expected[-1].append(int(others.rows[n, 0]))
    any_ = looking.any_between(tests, lanes, found, low, high, others)
    assert any_.tolist() == [bool(rows) for rows in expected]
    every = looking.all_between(tests, lanes, found, low, high, others, NO_LIMIT)
    assert every is not None
    offsets, rows = every
    assert [rows[a:b].tolist() for a, b in pairwise(offsets)] == expected
    if len(rows):
        assert looking.all_between(tests, lanes, found, low, high, others, len(rows) - 1) is None


@pytest.mark.parametrize("most", [NO_LIMIT, 2])
def test_events_that_follow_a_row(way: str, most: int) -> None:
    random = np.random.default_rng(most % 7)
    lanes = lanes_of(random)
    count = 20
    cut = int(random.integers(0, count))
    end = np.concatenate([np.sort(random.integers(0, 30, cut)), np.sort(random.integers(0, 30, count - cut))])
    start, events = end - random.integers(0, 3, count), np.arange(count, dtype=np.int32).reshape(-1, 1)
    others = Buffer(("n",), np.array([0, cut, count]), start, end, events)
    first = random.integers(-1, count, 9)
    group = np.array([0 if row < cut else 1 for row in first])
    found = FoundRecords(("a",), np.zeros(3, np.int64), end[:9], end[:9], np.zeros((9, 1), np.int32), {}, group)
    low, newest = random.integers(0, 10, 9), random.integers(10, 31, 9)
    listed = looking.all_following(lanes, found, first, low, newest, others, most, NO_LIMIT)
    assert listed is not None
    offsets, rows = listed
    for i in range(9):
        stop = others.from_[group[i] + 1] if first[i] >= 0 else 0
        until = next((n for n in range(first[i] + 1, stop) if end[n] > newest[i]), stop)
        expected = [n for n in range(first[i] + 1, until) if start[n] >= low[i]][:most]
        assert rows[offsets[i] : offsets[i + 1]].tolist() == expected


def test_conditions_on_single_records(way: str) -> None:
    random = np.random.default_rng(9)
    lanes = lanes_of(random)
    mine = records_of(random, ("a", "b"), frozenset("b"), False, 40)
    five = Constant(1, "bigint")
    sums = Apply("add", (load("a", "k"), load("b", "k")), "bigint")
    conditions = (
        (Apply("gt", (sums, five), "boolean"), frozenset("ab")),
        (Apply("le", (load("a", "k"), five), "boolean"), frozenset("a")),
    )
    tests = RecordTests(ConditionColumns(LanePlaces.of(lanes)), conditions, ("a", "b"), (), frozenset("b"))
    for held, (a, b) in zip(looking.hold(tests, lanes, mine.rows), mine.rows.tolist()):
        k = lanes.ints[2]
        assert held == ((b < 0 or k[a] + k[b] > 1) and k[a] <= 1)


# ---- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [0, 5, EVER])
def test_partners_are_near_and_by_chance(way: str, window: int) -> None:
    random = np.random.default_rng(2)
    end = np.concatenate([np.sort(random.integers(0, 30, 12)), np.sort(random.integers(0, 30, 8))])
    from_ = np.array([0, 0, 12, 20])
    round_ = Round(from_, end, end, np.zeros(3, np.int64), EVER, np.zeros(20, np.uint64))
    chosen, others = random.integers(0, 20, 50), np.flatnonzero(random.random(20) < 0.5)
    dice = random.random(50)
    beside = census._partners(chosen, others, round_, window, dice)
    for row, dice_, found in zip(chosen.tolist(), dice.tolist(), beside.tolist()):
        near = [
            other for other in others.tolist()
            if (other < 12) == (row < 12) and (window == EVER or abs(int(end[other]) - int(end[row])) <= window)
        ]  # fmt: skip
        assert found == (near[int(dice_ * len(near))] if near else -1)
