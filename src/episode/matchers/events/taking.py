"""Calls of the compiled loops that take events one by one, along the transitions of an automaton."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.matchers.events.code import runs, subsets
from episode.matchers.events.code.arrays import BUDGET, LIMIT, ROWS, UNTIL, WINDOW, settings_of
from episode.matchers.events.code.checks import Taking, runnings_of
from episode.matchers.events.code.conditions import NO_COLUMNS
from episode.matchers.events.code.flow import FULL
from episode.matchers.events.code.negations import transition_arrays
from episode.matchers.events.code.runs import MATCHES, ORIGIN, RunsShape, runs_program
from episode.matchers.events.joining import lane_arrays
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Round
from episode.matchers.prepare import aggregate_of
from episode.native.running import compiled_with
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.plan import EventPlan

FIRST_MATCHES, FIRST_EVENTS = 1 << 10, 1 << 12
"""Room for matches and their events, to begin with."""
_BY_DEPTH = ("path", "trans", "earlier", "n_state", "n_row", "n_option", *runs.BY_DEPTH, *subsets.BY_DEPTH)


def taking_of(plan: EventPlan, automaton: AutomatonPlan, arrays: EventArrays) -> Taking:
    """What is compiled in of an automaton: the plan's own, or that of its construction."""
    runnings = runnings_of(automaton)
    arguments = []
    for running in runnings:
        row, check, is_float = arrays.argument(running)
        arguments.append((bool(is_float), row, check))
    columns = arrays.columns if automaton.checks else NO_COLUMNS
    aggregates = tuple(aggregate_of(running) for running in runnings)
    return Taking(automaton, plan.variables, columns, runnings, aggregates, tuple(arguments))


def path_arrays(taking: Taking, deepest: int) -> dict[str, np.ndarray]:
    """An empty path with room for so many events, and the transitions."""
    room, aggregates = deepest + 2, len(taking.runnings)
    return {
        **{name: np.zeros(room, np.int64) for name in _BY_DEPTH},
        **{name: np.zeros(room * aggregates, np.int64) for name in ("agg_n", "agg_i")},
        **{name: np.zeros(room * aggregates, np.float64) for name in ("agg_f", "agg_m")},
        **no_events(taking),
        "spent": np.zeros(1, np.int64),
        **transition_arrays(taking.automaton, taking.variables),
    }


def no_events(taking: Taking) -> dict[str, np.ndarray]:
    """What a path knows of variables before its first event."""
    count = len(taking.variables)
    return {"last_depth": np.full(count, -1, np.int64), "taken": np.zeros(count, np.int64)}


@dataclass(frozen=True)
class FoundRuns:
    """What was found: the events of each match with their variables, in order. row: the start event at which the code
    ended, if it did."""

    status: int
    row: int
    offsets: np.ndarray
    rows: np.ndarray
    variables: np.ndarray


def run_automaton(
    shape: RunsShape, arrays: EventArrays, round_: Round, bits: np.ndarray, starts: np.ndarray, window: int,
    budget: int, limit: int,
) -> FoundRuns:  # fmt: skip
    """All matches of the start events of a round, unless they have over `limit` events."""
    code, constants = compiled_with(runs_program, shape)
    settings = {ROWS: arrays.lanes.ints.shape[1], WINDOW: window, BUDGET: budget, LIMIT: limit, UNTIL: round_.until}
    work = {
        **lane_arrays(arrays.lanes), **constants.arrays(arrays.lanes),
        "bits": bits, "start": round_.start, "end": round_.end, "starts": starts.view(np.uint8),
        "from_": round_.from_, "done": round_.done, "settings": settings_of(settings), "kept": np.zeros(2, np.int64),
        "offsets": np.zeros(FIRST_MATCHES, np.int64), "out_rows": np.empty(FIRST_EVENTS, np.int32),
        "out_variables": np.empty(FIRST_EVENTS, np.int32),
        # Every event of a path is another row of a partition, with those of negated patterns.
        **path_arrays(shape.taking, int(np.diff(round_.from_).max(initial=0))),
    }  # fmt: skip
    status = code.run(work)
    while status == FULL:
        work.update({name: _doubled(work[name]) for name in ("offsets", "out_rows", "out_variables")})
        work.update(no_events(shape.taking))
        status = code.run(work)
    matches = int(work["kept"][MATCHES])
    offsets = work["offsets"][: matches + 1]
    return FoundRuns(
        status,
        int(work["kept"][ORIGIN]),
        offsets,
        work["out_rows"][: offsets[-1]],
        work["out_variables"][: offsets[-1]],
    )


def _doubled(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, np.empty_like(values)])
