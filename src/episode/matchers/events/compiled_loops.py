"""Calls of the compiled loops of event patterns, and the arrays that they work on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from episode.matchers.encoding import Lanes
from episode.matchers.events.code.arrays import BUDGET, BY_DEPTH, LIMIT, MOST, NTH, ROWS, UNTIL, WINDOW, settings_of
from episode.matchers.events.code.between import (
    BY_GROUP,
    FINE,
    FOUND,
    FULL,
    SPLITS,
    TOO_MANY,
    ScanShape,
    scan_program,
    splits_program,
)
from episode.matchers.events.code.checks import PathShape, runnings_of
from episode.matchers.events.code.conditions import LEFT, NO_COLUMNS, RIGHT, RecordTests
from episode.matchers.events.code.joins import COUNT, TRIED, JoinShape, join_program, writing_program
from episode.matchers.events.code.negations import transition_arrays
from episode.matchers.events.code.runs import MATCHES, ORIGIN, RunsShape, runs_program
from episode.matchers.events.records import Buffer, EventsOfMatches, FoundRecords, NodeRecords
from episode.matchers.prepare import aggregate_of
from episode.matchers.times import NEVER
from episode.native.running import MOST_KEPT, compiled_for, compiled_with
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.events.plan import EventPlan

if TYPE_CHECKING:
    from episode.matchers.events.prepare import EventArrays
    from episode.matchers.events.rounds import Round


LEAST_ROOM = 1 << 16
"""Pairs of a first call: memory that is not written to costs nothing."""


def lane_arrays(lanes: Lanes) -> dict[str, np.ndarray]:
    """The lanes row after row, by name."""
    return {"ints": lanes.ints.reshape(-1), "floats": lanes.floats.reshape(-1), "valid": lanes.valid.reshape(-1)}


def side_arrays(side: str, records: NodeRecords) -> dict[str, np.ndarray]:
    """The records of a side, by name."""
    return {
        f"{side}_lo": records.lo, f"{side}_hi": records.hi, f"{side}_new": records.new, f"{side}_start": records.start,
        f"{side}_end": records.end, f"{side}_rows": records.rows.reshape(-1),
    }  # fmt: skip


def join_buffers(
    join: JoinShape,
    lanes: Lanes,
    left: NodeRecords,
    right: NodeRecords,
    window: int,
    done: np.ndarray,
    limit: int,
    bars: Mapping[str, np.ndarray],
    timed: bool = True,
) -> tuple[Buffer | None, int]:
    """(the records, sorted by end; how many pairs were tried); None if there are over `limit`.

    Of kept records, only the new ones of a right side, and pairs with a new one of a conjunction, are joined.
    done: only records that end later are made. bars: l_low, l_high, r_low and r_high, as far as there are bounds.
    timed: with their times; else `start` and `end` are empty.
    """
    (program, constants), before = compiled_with(join_program, join), _last_count(join)
    room = max(LEAST_ROOM, int((left.hi - left.lo).max(initial=0)), before[0] + before[0] // 4)
    kept = np.array([{"right": -1, "before": NEVER}.get(name, 0) for name in join.kept.split()], np.int64)
    indexes = [left.index_for(join, LEFT)] + ([right.index_for(join, RIGHT)] if join.kind == "together" else [])
    arrays = {
        **lane_arrays(lanes), **constants.arrays(lanes), **side_arrays("l", left), **side_arrays("r", right), **bars,
        "settings": settings_of({ROWS: lanes.ints.shape[1], WINDOW: window, LIMIT: limit}),
        "done": done, "kept": kept, "out_from": np.zeros(len(left.lo) + 1, np.int64),
        "r_values": np.empty(len(right), np.int64), "lefts": np.empty(room, np.int32),
        "rights": np.empty(room, np.int32),
    }  # fmt: skip
    for index in indexes:
        arrays |= index.arrays
    status = program.run(arrays)
    while status == FULL:
        for name in ("lefts", "rights"):
            more = np.empty(3 * len(arrays[name]), np.int32)
            arrays[name] = np.concatenate([arrays[name], more])
        status = program.run(arrays)
    count, tried = int(arrays["kept"][COUNT]), int(arrays["kept"][TRIED])
    if status == TOO_MANY:
        return None, tried
    assert status == FINE
    before[0] = count
    for index in indexes:
        index.keep()
    return _write(join, arrays, left, right, count, timed), tried


@lru_cache(maxsize=MOST_KEPT)
def _last_count(join: JoinShape) -> list[int]:
    """The number of pairs of the last join of this shape, in a list of one: the room with which the next one begins."""
    return [0]


def _write(
    join: JoinShape, arrays: dict[str, np.ndarray], left: NodeRecords, right: NodeRecords, count: int, timed: bool
) -> Buffer:
    left_width, right_width = left.rows.shape[1], right.rows.shape[1]
    rows = np.empty((count, left_width + right_width), np.int32)
    times = count if timed else 0
    start, end = np.empty(times, np.int64), np.empty(times, np.int64)
    written = {**arrays, "out_rows": rows.reshape(-1), "out_start": start, "out_end": end}
    program = compiled_for(writing_program, left_width, right_width, timed, join.kind == "together")
    program.run(written, count)
    return Buffer((*left.variables, *right.variables), arrays["out_from"], start, end, rows)


# Loops that look around and between records: negations, groups, conditions on single records.


NO_TESTS = RecordTests(NO_COLUMNS, (), (), ())


def _scan(scan: ScanShape, lanes: Lanes, settings: Mapping[int, int], arrays: dict[str, np.ndarray]) -> int:
    program, constants = compiled_with(scan_program, scan)
    arrays["settings"] = settings_of({ROWS: lanes.ints.shape[1], **settings})
    return program.run({**lane_arrays(lanes), **constants.arrays(lanes), **arrays})


def latest_before(
    tests: RecordTests, lanes: Lanes, others: NodeRecords, records: NodeRecords, nth: int, window: int
) -> np.ndarray:
    """By record, the greatest start of the nth last of the others that end before it begins and pass the tests."""
    found = np.empty(len(records), np.int64)
    arrays = {**side_arrays("l", others), **side_arrays("r", records), "found": found}
    _scan(ScanShape("latest", tests), lanes, {NTH: nth, WINDOW: window}, arrays)
    return found


def earliest_after(
    tests: RecordTests, lanes: Lanes, records: NodeRecords, others: NodeRecords, nth: int, window: int
) -> np.ndarray:
    """By record, the least end of the nth of the others that begin after it ends and pass the tests."""
    found = np.empty(len(records), np.int64)
    arrays = {**side_arrays("l", records), **side_arrays("r", others), "found": found}
    _scan(ScanShape("earliest", tests), lanes, {NTH: nth, WINDOW: window}, arrays)
    return found


def any_between(
    tests: RecordTests, lanes: Lanes, found: FoundRecords, low: np.ndarray, high: np.ndarray, others: NodeRecords
) -> np.ndarray:  # fmt: skip
    """By match, does one of the others, but its own events, lie in low .. high, both included, and pass the tests?"""
    held = np.empty(len(low), np.uint8)
    _scan(ScanShape("any", tests), lanes, {}, {**_around(found, low, high), **side_arrays("r", others), "held": held})
    return held.view(np.bool_)


def all_between(
    tests: RecordTests,
    lanes: Lanes,
    found: FoundRecords,
    low: np.ndarray,
    high: np.ndarray,
    others: NodeRecords,
    limit: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """All records that `any_between` looks for, which are single events: (offsets, rows); None if there are over
    `limit`."""
    arrays = {**_around(found, low, high), **side_arrays("r", others)}
    return _list_events(ScanShape("all", tests), lanes, {LIMIT: limit}, arrays, len(low))


def all_following(
    lanes: Lanes,
    found: FoundRecords,
    first: np.ndarray,
    start: np.ndarray,
    newest: np.ndarray,
    others: NodeRecords,
    most: int,
    limit: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """By match, the single events that come after the row `first` in the order of rows, begin not before `start` and
    end not after `newest`, at most `most` of each; none if `first` is -1. As `all_between`."""
    arrays = {**_around(found, start, newest), **side_arrays("r", others), "first": first.astype(np.int64)}
    return _list_events(ScanShape("following", NO_TESTS), lanes, {LIMIT: limit, MOST: most}, arrays, len(first))


def hold(tests: RecordTests, lanes: Lanes, rows: np.ndarray) -> np.ndarray:
    """By record, do the tests, all on the left side, hold?"""
    held = np.empty(len(rows), np.uint8)
    _scan(ScanShape("single", tests), lanes, {}, {"l_rows": rows.reshape(-1), "held": held})
    return held.view(np.bool_)


def _around(found: FoundRecords, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    return {"l_rows": found.rows.reshape(-1), "group": found.group, "l_low": low, "l_high": high}


def _list_events(
    scan: ScanShape, lanes: Lanes, settings: Mapping[int, int], arrays: dict[str, np.ndarray], records: int
) -> tuple[np.ndarray, np.ndarray] | None:
    rows = np.empty(max(LEAST_ROOM, records), np.int32)
    arrays.update(kept=np.zeros(2, np.int64), out_from=np.zeros(records + 1, np.int64), out_rows=rows)
    status = _scan(scan, lanes, settings, arrays)
    while status == FULL:
        arrays["out_rows"] = np.concatenate([arrays["out_rows"], np.empty(len(arrays["out_rows"]), np.int32)])
        status = _scan(scan, lanes, settings, arrays)
    return None if status == TOO_MANY else (arrays["out_from"], arrays["out_rows"][: arrays["kept"][FOUND]])


# Groups next to each other: the compiled loop that splits their events.


LEAST_SPLITS = 1024


def split_groups(
    from_: np.ndarray, rows: np.ndarray, least: np.ndarray, counts: np.ndarray, end: np.ndarray, limit: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every way to split the events of groups: (match int64[ways], from int64[ways, groups], to); one more than `limit`
    if there are more. See `code.between`; from_ int64[groups, matches + 1], rows: of the events, whose times are `end`.
    """
    groups = len(least)
    arrays = {
        "from_": from_.reshape(-1), "rows": rows.astype(np.int64), "least": least, "counts": counts, "end": end,
        "settings": settings_of({LIMIT: limit}), "kept": np.array([0, -1, 0], np.int64),
        **{name: np.zeros(groups + 1, np.int64) for name in BY_GROUP}, **_room(LEAST_SPLITS, groups),
    }  # fmt: skip
    program = compiled_for(splits_program, groups)
    while program.run(arrays) == FULL:
        more = _room(len(arrays["which"]), groups)
        arrays |= {name: np.concatenate([arrays[name], more[name]]) for name in more}
    count = arrays["kept"][SPLITS]
    begins, stops = (arrays[name].reshape(-1, groups)[:count] for name in ("begins", "stops"))
    return arrays["which"][:count], begins, stops


def _room(ways: int, groups: int) -> dict[str, np.ndarray]:
    sizes = {"which": ways, "begins": ways * groups, "stops": ways * groups}
    return {name: np.empty(size, np.int64) for name, size in sizes.items()}


# Loops that take events one by one, along the transitions of an automaton.


FIRST_MATCHES, FIRST_EVENTS = 1 << 10, 1 << 12
"""Room for matches and their events, to begin with."""


def path_shape_of(plan: EventPlan, automaton: AutomatonPlan, arrays: EventArrays) -> PathShape:
    """The part of an automaton that is compiled in: the plan's own, or that of its construction."""
    runnings = runnings_of(automaton)
    arguments = []
    for running in runnings:
        row, check, is_float = arrays.argument(running)
        arguments.append((bool(is_float), row, check))
    columns = arrays.columns if automaton.checks else NO_COLUMNS
    aggregates = tuple(aggregate_of(running) for running in runnings)
    return PathShape(automaton, plan.variables, columns, runnings, aggregates, tuple(arguments))


def path_arrays(path_shape: PathShape, deepest: int) -> dict[str, np.ndarray]:
    """The transitions, and an empty path with room for `deepest` events."""
    room, aggregates = deepest + 2, len(path_shape.runnings)
    return {
        **{name: np.zeros(room, np.int64) for name in BY_DEPTH},
        **{name: np.zeros(room * aggregates, np.int64) for name in ("agg_n", "agg_i")},
        **{name: np.zeros(room * aggregates, np.float64) for name in ("agg_f", "agg_m")},
        **no_events(path_shape),
        "spent": np.zeros(1, np.int64),
        **transition_arrays(path_shape.automaton, path_shape.variables),
    }


def no_events(path_shape: PathShape) -> dict[str, np.ndarray]:
    """The state of the variables of a path before its first event."""
    count = len(path_shape.variables)
    return {"last_depth": np.full(count, -1, np.int64), "taken": np.zeros(count, np.int64)}


def run_automaton(
    shape: RunsShape, arrays: EventArrays, round_: Round, bits: np.ndarray, starts: np.ndarray, window: int,
    budget: int, limit: int,
) -> tuple[int, int, EventsOfMatches]:  # fmt: skip
    """(status, the start event at which the code ended early, all matches of the start events of a round); at most
    `limit` events."""
    code, constants = compiled_with(runs_program, shape)
    settings = {ROWS: arrays.lanes.ints.shape[1], WINDOW: window, BUDGET: budget, LIMIT: limit, UNTIL: round_.until}
    work = {
        **lane_arrays(arrays.lanes), **constants.arrays(arrays.lanes),
        "bits": bits, "start": round_.start, "end": round_.end, "starts": starts.view(np.uint8),
        "from_": round_.from_, "done": round_.done, "settings": settings_of(settings), "kept": np.zeros(2, np.int64),
        "offsets": np.zeros(FIRST_MATCHES, np.int64), "out_rows": np.empty(FIRST_EVENTS, np.int32),
        "out_variables": np.empty(FIRST_EVENTS, np.int32),
        # Every event of a path is another row of a partition, with those of negated patterns.
        **path_arrays(shape.path_shape, int(np.diff(round_.from_).max(initial=0))),
    }  # fmt: skip
    status = code.run(work)
    while status == FULL:
        for name in ("offsets", "out_rows", "out_variables"):
            work[name] = np.concatenate([work[name], np.empty_like(work[name])])
        work.update(no_events(shape.path_shape))
        status = code.run(work)
    kept = work["kept"]
    offsets = work["offsets"][: kept[MATCHES] + 1]
    rows, variables = (work[name][: offsets[-1]] for name in ("out_rows", "out_variables"))
    return status, int(kept[ORIGIN]), (offsets, rows, variables)
