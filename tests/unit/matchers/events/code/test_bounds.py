"""Emitted bounds, in all ways: what they cut has no match in it, and what they settle holds for every choice.

Every choice of the candidates of a closure is tried with the condition in plain Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from episode.lang.events.syntax import Strategy
from episode.matchers.events.code import bounds
from episode.matchers.events.code.arrays import LEVELS, ROWS, TYPES, settings_of
from episode.matchers.events.code.bounds import NO_DOOM, BoundCode, bound_room
from episode.matchers.events.code.checks import Checks
from episode.matchers.events.code.negations import transition_arrays
from episode.matchers.events.compiled_loops import lane_arrays, path_shape_of
from episode.matchers.events.prepare import EventArrays, bounds_shape
from episode.native.builder import Program, Scope
from episode.native.ir import I64
from tests.reference.event_patterns import Event
from tests.support.events import spec_of
from tests.unit.matchers.events.ways import WAYS, arrays_of

Row = dict[str, Any]
XS = [None, -2, 0, 1, 2, 3]


def total(b: list[Row]) -> int | None:
    xs = [one["x"] for one in b if one["x"] is not None]
    return sum(xs) if xs else None


def is_more(value: float | None, limit: float) -> bool:
    return value is not None and value > limit


WHOLE: dict[str, Callable[[Row, list[Row], Row], bool]] = {
    "sum(b[].x) > c.y": lambda a, b, c: is_more(total(b), c["y"]),
    "sum(b[].x) + a.y < c.y": lambda a, b, c: is_more(c["y"] - a["y"], total(b)) if total(b) is not None else False,
    "count(b[].x) >= 2": lambda a, b, c: sum(one["x"] is not None for one in b) >= 2,
    "min(b[].y) = c.y": lambda a, b, c: min(one["y"] for one in b) == c["y"],
    "max(b[].y) <> a.y": lambda a, b, c: max(one["y"] for one in b) != a["y"],
    "avg(b[].y) > c.y": lambda a, b, c: sum(one["y"] for one in b) / len(b) > c["y"],
    "b[1].y < a.y OR b[last].y > c.y": lambda a, b, c: b[0]["y"] < a["y"] or b[-1]["y"] > c["y"],
}
EACH: dict[str, tuple[int, Callable[[Row, list[Row], Row], bool]]] = {
    "b[i].y + sum(b[..i].y) < 9": (0, lambda one, before, c: one["y"] + sum(e["y"] for e in [*before, one]) < 9),
    "b[i].y >= b[i-1].y": (1, lambda one, before, c: one["y"] >= before[-1]["y"]),
    "b[i].y > avg(b[..i-1].y) + c.y - 3": (
        1, lambda one, before, c: one["y"] > sum(e["y"] for e in before) / len(before) + c["y"] - 3,
    ),
}  # fmt: skip


def program_of(code: BoundCode, checks: Checks, variable: int) -> Program:
    """Begins the one intermediate match; then takes w_rows, and asks after each whether the rest may hold.

    out[0]: may it hold at all? out[1 + 2 n], out[2 + 2 n]: may it with one more event after n + 1, and is it decided?
    """
    types = {**TYPES, **bounds.TYPES, "w_rows": (I64, False), "out": (I64, True)}
    program = Program("bounds")
    s = Scope(program.function("run"), types)
    f = s.f
    s.out[0] = code.begin(0, s, f.value(0)).to(I64)
    closure = f.value(variable)
    first = s.low[variable]
    with f.loop(0, s.w_rows.length) as depth:
        with f.when(depth.equals(0)):
            s.first_depth[variable] = depth
        checks.take(s, depth, s.members[first + s.w_rows[depth]].to(I64), 0, closure)
        after = s.w_rows[depth] + 1
        left = s.tops[variable] - first - after
        code.reopen(s, closure, depth)
        with f.when(left > 0):
            s.out[1 + depth * 2] = code.may_hold(s, closure, after, left, depth).to(I64)
            s.out[2 + depth * 2] = (s.settled[0] <= depth).to(I64)
    f.give(0)
    return program


def batch(draw: random.Random, text: str) -> tuple[EventArrays, list[Row]]:
    """A, up to six B, C."""
    kinds = "A" + "B" * draw.randrange(1, 7) + "C"
    rows = [{"type": kind, "k": 1, "x": draw.choice(XS), "y": draw.randrange(5), "s": ""} for kind in kinds]
    spec = spec_of(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {text}", strategy=Strategy.ANY, closure="postponed")
    return arrays_of(spec, [Event(t, t, t, row) for t, row in enumerate(rows)]), rows


def run_bounds(way: str, arrays: EventArrays, rows: list[Row], walk: list[int]) -> dict[str, np.ndarray]:
    plan, construction = arrays.plan, arrays.plan.construction
    assert construction is not None
    path_shape = path_shape_of(plan, construction.automaton, arrays)
    shape, factors = bounds_shape(plan, construction, arrays, path_shape)
    assert len(shape.bounds) == 1
    checks = Checks(path_shape)
    program = WAYS[way](program_of(BoundCode(shape, checks), checks, plan.variables.index("b")))
    candidates = len(rows) - 2
    spans = {"a": (0, 1), "b": (1, 1 + candidates), "c": (1 + candidates, 2 + candidates)}
    low, tops = (np.array([spans[name][edge] for name in plan.variables], np.int64) for edge in (0, 1))
    variables, room = len(plan.variables), len(rows) * max(1, len(path_shape.runnings))
    given = {
        **lane_arrays(arrays.lanes), **checks.constants.arrays(arrays.lanes),
        **bound_room(shape, candidates, len(rows)), **transition_arrays(construction.automaton, plan.variables),
        "factors": factors,
        "settings": settings_of({ROWS: len(rows), LEVELS: candidates + 2}), "low": low, "tops": tops,
        "members": np.arange(len(rows), dtype=np.int32), "first_depth": np.full(variables, -1, np.int64),
        **{name: np.zeros(len(rows), np.int64) for name in ("path", "trans", "earlier")},
        "last_depth": np.full(variables, -1, np.int64), "taken": np.zeros(variables, np.int64),
        **{name: np.zeros(room, np.int64) for name in ("agg_n", "agg_i")},
        **{name: np.zeros(room) for name in ("agg_f", "agg_m")},
        "w_rows": np.array(walk, np.int64), "out": np.full(1 + 2 * len(walk), -1, np.int64),
    }  # fmt: skip
    program([given[name] for name, _, _ in program.arrays])
    number = plan.variables.index("b")
    return {**given, "kept": given["members"][low[number] : given["tops"][number]]}


def choices(candidates: list[Row]) -> list[list[Row]]:
    return [list(some) for size in range(1, len(candidates) + 1) for some in combinations(candidates, size)]


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("text", list(WHOLE))
def test_bounds_on_whole_closures(way: str, text: str) -> None:
    draw, holds = random.Random(text), WHOLE[text]
    for _ in range(6 if way == "interpreted" else 15):
        arrays, rows = batch(draw, text)
        begun = run_bounds(way, arrays, rows, [])
        a, c, kept = rows[0], rows[-1], begun["kept"].tolist()
        matches = [some for some in choices(rows[1:-1]) if holds(a, some, c)]
        if not begun["out"][0]:
            assert not matches
            continue
        for row in rows[1:-1]:
            if not any(row is rows[one] for one in kept):
                assert not any(row is event for some in matches for event in some)
        candidates = [rows[one] for one in kept]
        if begun["settled"][0] == -1 and not begun["rests"][0]:
            assert all(holds(a, some, c) for some in choices(candidates))
        _check_a_walk(way, arrays, rows, candidates, holds, draw)


def _check_a_walk(
    way: str, arrays: EventArrays, rows: list[Row], candidates: list[Row], holds: Callable, draw: random.Random
) -> None:
    walk = sorted(draw.sample(range(len(candidates)), draw.randrange(1, len(candidates) + 1)))
    out = run_bounds(way, arrays, rows, walk)["out"]
    for depth, last in enumerate(walk):
        rest = choices(candidates[last + 1 :])
        if not rest:
            continue
        prefix = [candidates[one] for one in walk[: depth + 1]]
        outcomes = {bool(holds(rows[0], [*prefix, *some], rows[-1])) for some in rest}
        if not out[1 + 2 * depth]:
            assert outcomes == {False}
        elif out[2 + 2 * depth]:
            assert outcomes == {True}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("text", list(EACH))
def test_bounds_on_each_event(way: str, text: str) -> None:
    draw, (back, holds) = random.Random(text), EACH[text]
    marked = 0
    for _ in range(6 if way == "interpreted" else 15):
        arrays, rows = batch(draw, text)
        begun = run_bounds(way, arrays, rows, [])
        for member, row in enumerate(rows[1:-1], start=1):
            before = [some for some in [[], *choices(rows[1:member])] if len(some) >= back]
            outcomes = {bool(holds(row, some, rows[-1])) for some in before}
            if begun["safe"][member]:
                assert outcomes <= {True}
            if begun["doom"][member] != NO_DOOM:
                assert outcomes <= {False}
            marked += bool(begun["safe"][member]) + (begun["doom"][member] != NO_DOOM)
    assert marked
