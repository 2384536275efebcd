"""Calls of the compiled loops that look around and between records: negations, groups, conditions on single records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from episode.matchers.encoding import Lanes
from episode.matchers.events.code.arrays import LIMIT, MOST, NTH, ROWS, WINDOW, settings_of
from episode.matchers.events.code.between import COUNT, LookShape, look_program
from episode.matchers.events.code.conditions import NO_COLUMNS
from episode.matchers.events.code.flow import FULL, TOO_MANY
from episode.matchers.events.code.tests import RecordTests
from episode.matchers.events.joining import LEAST_ROOM, lane_arrays, side_arrays
from episode.matchers.events.records import Buffer, FoundRecords
from episode.native.running import compiled_with

NO_TESTS = RecordTests(NO_COLUMNS, (), (), ())


def _look(look: LookShape, lanes: Lanes, settings: Mapping[int, int], arrays: dict[str, np.ndarray]) -> int:
    program, constants = compiled_with(look_program, look)
    arrays["settings"] = settings_of({ROWS: lanes.ints.shape[1], **settings})
    return program.run({**lane_arrays(lanes), **constants.arrays(lanes), **arrays})


def latest_before(
    tests: RecordTests, lanes: Lanes, others: Buffer, records: Buffer, nth: int, window: int
) -> np.ndarray:
    """By record, the greatest start of the nth last of the others that end before it begins and pass the tests."""
    found = np.empty(len(records), np.int64)
    arrays = {**side_arrays("l", others), **side_arrays("r", records), "found": found}
    _look(LookShape("latest", tests), lanes, {NTH: nth, WINDOW: window}, arrays)
    return found


def earliest_after(
    tests: RecordTests, lanes: Lanes, records: Buffer, others: Buffer, nth: int, window: int
) -> np.ndarray:
    """By record, the least end of the nth of the others that begin after it ends and pass the tests."""
    found = np.empty(len(records), np.int64)
    arrays = {**side_arrays("l", records), **side_arrays("r", others), "found": found}
    _look(LookShape("earliest", tests), lanes, {NTH: nth, WINDOW: window}, arrays)
    return found


def any_between(
    tests: RecordTests, lanes: Lanes, found: FoundRecords, low: np.ndarray, high: np.ndarray, others: Buffer
) -> np.ndarray:  # fmt: skip
    """By match, does one of the others, but its own events, lie in low .. high, both included, and pass the tests?"""
    held = np.empty(len(low), np.uint8)
    _look(LookShape("any", tests), lanes, {}, {**_around(found, low, high), **side_arrays("r", others), "held": held})
    return held.view(np.bool_)


def all_between(
    tests: RecordTests, lanes: Lanes, found: FoundRecords, low: np.ndarray, high: np.ndarray, others: Buffer, limit: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """As `any_between`, all of them, which are single events: (offsets, rows); None if there are over `limit`."""
    arrays = {**_around(found, low, high), **side_arrays("r", others)}
    return _listed(LookShape("all", tests), lanes, {LIMIT: limit}, arrays, len(low))


def all_following(
    lanes: Lanes,
    found: FoundRecords,
    first: np.ndarray,
    start: np.ndarray,
    newest: np.ndarray,
    others: Buffer,
    most: int,
    limit: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """By match, the single events that come after the row `first` in the order of rows, begin not before `start` and
    end not after `newest`, at most `most` of each; none if `first` is -1. As `all_between`."""
    arrays = {**_around(found, start, newest), **side_arrays("r", others), "first": first.astype(np.int64)}
    return _listed(LookShape("following", NO_TESTS), lanes, {LIMIT: limit, MOST: most}, arrays, len(first))


def hold(tests: RecordTests, lanes: Lanes, rows: np.ndarray) -> np.ndarray:
    """By record, do the tests, all on the left side, hold?"""
    held = np.empty(len(rows), np.uint8)
    _look(LookShape("single", tests), lanes, {}, {"l_rows": rows.reshape(-1), "held": held})
    return held.view(np.bool_)


def _around(found: FoundRecords, low: np.ndarray, high: np.ndarray) -> dict[str, np.ndarray]:
    return {"l_rows": found.rows.reshape(-1), "group": found.group, "l_low": low, "l_high": high}


def _listed(
    look: LookShape, lanes: Lanes, settings: Mapping[int, int], arrays: dict[str, np.ndarray], records: int
) -> tuple[np.ndarray, np.ndarray] | None:
    rows = np.empty(max(LEAST_ROOM, records), np.int32)
    arrays.update(kept=np.zeros(2, np.int64), out_from=np.zeros(records + 1, np.int64), out_rows=rows)
    status = _look(look, lanes, settings, arrays)
    while status == FULL:
        arrays["out_rows"] = np.concatenate([arrays["out_rows"], np.empty(len(arrays["out_rows"]), np.int32)])
        status = _look(look, lanes, settings, arrays)
    return None if status == TOO_MANY else (arrays["out_from"], arrays["out_rows"][: arrays["kept"][COUNT]])
