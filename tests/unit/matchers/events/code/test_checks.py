"""Emitted checks and negations, in all ways: is a path of events a match? Against the condition in plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from episode.lang.events.syntax import Strategy
from episode.matchers.code.searching import window_end
from episode.matchers.events.code.arrays import BUDGET, ROWS, TYPES, WINDOW, settings_of
from episode.matchers.events.code.checks import Checks
from episode.matchers.events.code.negations import Negations, transition_arrays
from episode.matchers.events.compiled_loops import lane_arrays, path_shape_of
from episode.matchers.events.prepare import EventArrays
from episode.matchers.times import EVER
from episode.native.builder import Program, Scope
from episode.native.ir import I64
from episode.plan.events.automaton import AutomatonPlan
from tests.reference.event_patterns import Event
from tests.support.events import spec_of
from tests.unit.matchers.events.ways import WAYS, arrays_of

Taken = dict[str, list[dict[str, Any]]]
N = 40
XS = [None, 1, 2, 3]
WITHIN = 8


def path_program(arrays: EventArrays, automaton: AutomatonPlan) -> tuple[Program, Checks]:
    """Gives 1 if the path given by w_rows and w_trans is a match."""
    checks = Checks(path_shape_of(arrays.plan, automaton, arrays))
    negations = Negations(checks)
    types = {**TYPES, "w_rows": (I64, False), "w_trans": (I64, False)}
    program = Program("path")
    s = Scope(program.function("run"), types)
    f = s.f
    with f.loop(0, s.w_rows.length) as depth:
        row, transition = s.w_rows[depth], s.w_trans[depth]
        checks.take(s, depth, row, transition, s.t_variable[transition])
        with f.when(~checks.fit(s, transition, depth)):
            f.give(0)
        with f.when(depth > 0), f.when(negations.is_crossed(s, transition, depth)):
            f.give(0)
    last = s.w_rows.length - 1
    state = s.t_target[s.w_trans[last]]
    with f.when(~checks.are_complete(s, state, last)):
        f.give(0)
    newest = window_end(f, s.start[s.path[0]], s.settings[WINDOW])
    with f.when(negations.late(s, state, last, f.value(0), s.end.length, newest).differs(0)):
        f.give(0)
    top = f.variable("top", last)
    with f.during(lambda: top >= 0):  # what is taken can be dropped again
        checks.drop(s, top)
    f.give(1)
    return program, checks


def run_path(way: Any, checks: Checks, arrays: EventArrays, rows: list[int], transitions: list[int]) -> bool:
    plan, automaton = arrays.plan, checks.automaton
    room, aggregates = 2 * N + 2, max(1, len(checks.shape.runnings))
    times = np.arange(N)
    given = {
        **lane_arrays(arrays.lanes), **checks.constants.arrays(arrays.lanes),
        **transition_arrays(automaton, plan.variables), "bits": arrays.bits, "start": times, "end": times,
        "settings": settings_of({ROWS: N, WINDOW: EVER if plan.within is None else plan.within, BUDGET: 10**6}),
        **{name: np.zeros(room, np.int64) for name in ("path", "trans", "earlier", "n_state", "n_row", "n_option")},
        "last_depth": np.full(len(plan.variables), -1, np.int64), "taken": np.zeros(len(plan.variables), np.int64),
        **{name: np.zeros(room * aggregates, np.int64) for name in ("agg_n", "agg_i")},
        **{name: np.zeros(room * aggregates) for name in ("agg_f", "agg_m")}, "spent": np.zeros(1, np.int64),
        "w_rows": np.array(rows), "w_trans": np.array(transitions),
    }  # fmt: skip
    found = bool(way([given[name] for name, _, _ in way.arrays]))
    if found:
        assert (given["last_depth"] == -1).all()
        assert (given["taken"] == 0).all()
    return found


def random_path(automaton: AutomatonPlan, arrays: EventArrays, draw: random.Random) -> tuple[list[int], list[int]]:
    """Rows and transitions from a start to an accepting state, within the window; or nothing."""
    rows: list[int] = []
    taken: list[int] = []
    state = draw.choice(automaton.starts)
    row = draw.randrange(N // 2) - 1
    while True:
        options = [
            (at, number)
            for at in range(row + 1, min(N, row + 9))
            for number, one in enumerate(automaton.transitions)
            if one.source == state and int(arrays.bits[at]) >> arrays.plan.variables.index(one.variable) & 1
        ]
        if rows and automaton.accepting[state] and (not options or draw.random() < 0.5):
            return rows, taken
        if not options:
            return [], []
        row, number = draw.choice(options)
        rows.append(row)
        taken.append(number)
        state = automaton.transitions[number].target
        if arrays.plan.within is not None and rows[-1] - rows[0] > arrays.plan.within:
            return [], []


# ---- conditions in plain Python --------------------------------------------------------------------------------------


def values(events: list[dict[str, Any]], column: str) -> list[Any]:
    return [event[column] for event in events if event[column] is not None]


def rises(taken: Taken, around: list[dict[str, Any]]) -> bool:
    b = taken["b"]
    rising = all(later["y"] > before["y"] for before, later in pairwise(b))
    xs = [values(b[: at + 1], "x") for at in range(len(b))]
    return rising and all(not some or sum(some) < 6 for some in xs) and all(some for some in xs)


def average(taken: Taken, around: list[dict[str, Any]]) -> bool:
    xs, c = values(taken["b"], "x"), taken["c"][0]
    first = [event["y"] for event in taken["b"][:1]]
    return bool(xs) and sum(xs) / len(xs) > c["y"] / 3 and first[0] <= taken["a"][0]["y"] + 2


def before(taken: Taken, around: list[dict[str, Any]]) -> bool:
    b = taken["b"]
    return (
        all(
            event["y"] >= max(one["y"] for one in b[:at]) and len(values(b, "x")) >= 2
            for at, event in enumerate(b)
            if at > 0
        )
        and len(values(b, "x")) >= 2
    )


def no_event(taken: Taken, around: list[dict[str, Any]]) -> bool:
    a, c = taken["a"][0], taken["c"][0]
    between = [one for one in around if a["te"] < one["te"] < c["te"] and one["type"] == "B"]
    return not any((one["x"] is not None and one["x"] == a["y"]) or one["y"] + 1 > c["y"] + 5 for one in between)


def no_pattern(taken: Taken, around: list[dict[str, Any]]) -> bool:
    a, c = taken["a"][0], taken["c"][0]
    between = [one for one in around if a["te"] < one["te"] < c["te"]]
    return not any(
        b["type"] == "B" and d["type"] == "D" and b["te"] < d["te"] and b["y"] > a["y"] and d["y"] < c["y"]
        for b in between
        for d in between
    )


def none_after(taken: Taken, around: list[dict[str, Any]]) -> bool:
    a, c = taken["a"][0], taken["c"][-1]
    after = [one for one in around if c["te"] < one["te"] <= a["te"] + WITHIN and one["type"] == "B"]
    return not any(one["y"] >= a["y"] for one in after)


CASES: dict[str, Callable[[Taken, list[dict[str, Any]]], bool]] = {
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].y > b[i-1].y AND sum(b[..i].x) < 6": rises,
    "PATTERN SEQ(A a, B+ b[], C c) WHERE avg(b[].x) > c.y / 3 AND b[1].y <= a.y + 2": average,
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].y >= max(b[..i-1].y) AND count(b[].x) >= 2": before,
    "PATTERN SEQ(A a, ~(B b), C c) WHERE b.x = a.y OR b.y + 1 > c.y + 5": no_event,
    "PATTERN SEQ(A a, ~SEQ(B b, D d), C c) WHERE b.y > a.y AND d.y < c.y": no_pattern,
    f"PATTERN SEQ(A a, C+ c[], ~(B b)) WHERE b.y >= a.y WITHIN {WITHIN}": none_after,
}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("text", list(CASES))
def test_paths(way: str, text: str) -> None:
    spec = spec_of(text, strategy=Strategy.NEXT)
    automaton = spec.plan.automaton
    assert automaton is not None
    draw = random.Random(text)
    outcomes = {True: 0, False: 0}
    for batch in range(12):
        events = [
            Event(t, t, t, {"type": kind, "k": 1, "x": draw.choice(XS), "y": draw.randrange(5), "s": ""})
            for t, kind in enumerate(draw.choices("AABBCDD", k=N))
        ]
        arrays = arrays_of(spec, events)
        program, checks = path_program(arrays, automaton)
        made = WAYS[way](program)
        around = [{"te": event.te, **event.values} for event in events]
        for _ in range(25):
            rows, transitions = random_path(automaton, arrays, draw)
            if rows:
                taken: Taken = {}
                for row, number in zip(rows, transitions):
                    taken.setdefault(automaton.transitions[number].variable, []).append(around[row])
                expected = CASES[text](taken, around)
                assert run_path(made, checks, arrays, rows, transitions) == expected, (batch, rows)
                outcomes[expected] += 1
    assert min(outcomes.values()) > 0
