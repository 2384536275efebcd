"""Joins of buffers: calls of the compiled loops, and the arrays that they work on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from episode.matchers.encoding import Lanes
from episode.matchers.events.code.arrays import LIMIT, ROWS, WINDOW, settings_of
from episode.matchers.events.code.flow import FINE, FULL, TOO_MANY
from episode.matchers.events.code.joins import COUNT, KEPT, TRIED, JoinShape, join_program, writing_program
from episode.matchers.events.records import Buffer
from episode.matchers.times import NEVER
from episode.native.running import MOST_KEPT, compiled_for, compiled_with

LEAST_ROOM = 1 << 16
"""Pairs of a first call: memory that is not written to costs nothing."""
MOST_BUCKETS = 1 << 22
NO_TIMES = np.zeros(0, np.int64)


def lane_arrays(lanes: Lanes) -> dict[str, np.ndarray]:
    """The lanes row after row, by name."""
    return {"ints": lanes.ints.reshape(-1), "floats": lanes.floats.reshape(-1), "valid": lanes.valid.reshape(-1)}


def side_arrays(side: str, records: Buffer) -> dict[str, np.ndarray]:
    """The records of a side, by name."""
    return {
        f"{side}_lo": records.from_[:-1], f"{side}_hi": records.from_[1:], f"{side}_start": records.start,
        f"{side}_end": records.end, f"{side}_rows": records.rows.reshape(-1),
    }  # fmt: skip


def join_buffers(
    join: JoinShape,
    lanes: Lanes,
    left: Buffer,
    right: Buffer,
    window: int,
    done: np.ndarray,
    limit: int,
    bars: Mapping[str, np.ndarray],
    timed: bool = True,
) -> tuple[Buffer | None, int]:
    """(the records, sorted by end; how many pairs were tried); None if there are over `limit`.

    done: only records that end later are made. bars: l_low, l_high, r_low and r_high, as far as there are bounds.
    timed: with their times; else `start` and `end` are empty.
    """
    (program, constants), before = compiled_with(join_program, join), _last_count(join)
    room = max(LEAST_ROOM, len(right), before[0] + before[0] // 4)
    arrays = {
        **lane_arrays(lanes), **constants.arrays(lanes), **side_arrays("l", left), **side_arrays("r", right), **bars,
        "settings": settings_of({ROWS: lanes.ints.shape[1], WINDOW: window, LIMIT: limit}),
        "done": done, "kept": _first_kept(join.kind, left, right), "out_from": np.zeros(len(left.from_), np.int64),
        "l_values": np.empty(len(left), np.int64), "r_values": np.empty(len(right), np.int64),
        "lefts": np.empty(room, np.int32), "rights": np.empty(room, np.int32),
    }  # fmt: skip
    if join.kind == "hash":
        arrays["heads"] = np.full(_buckets(left), -1, np.int64)
        arrays["chain"] = np.empty(len(left), np.int64)
    status = program.run(arrays)
    while status == FULL:
        for name in ("lefts", "rights"):
            more = np.empty(max(len(right), 3 * len(arrays[name])), np.int32)
            arrays[name] = np.concatenate([arrays[name], more])
        status = program.run(arrays)
    count, tried = int(arrays["kept"][COUNT]), int(arrays["kept"][TRIED])
    if status == TOO_MANY:
        return None, tried
    assert status == FINE
    before[0] = count
    return _write(join, arrays, left, right, count, timed), tried


@lru_cache(maxsize=MOST_KEPT)
def _last_count(join: JoinShape) -> list[int]:
    """How many pairs the last join of this shape listed, in a list of one: the next one begins with that much room."""
    return [0]


def _first_kept(kind: str, left: Buffer, right: Buffer) -> np.ndarray:
    """The variables of a join that begins."""
    begins = {
        "right": right.from_[0], "r_low": right.from_[0], "before": NEVER,
        **dict.fromkeys(("left", "l_low", "low", "high", "last", "entered"), left.from_[0]),
    }  # fmt: skip
    return np.array([begins.get(name, 0) for name in KEPT[kind].split()], np.int64)


def _buckets(left: Buffer) -> int:
    """A power of two, at least twice the records of a partition."""
    largest = int(np.diff(left.from_).max(initial=1))
    return min(MOST_BUCKETS, 1 << max(0, 2 * largest - 1).bit_length())


def _write(
    join: JoinShape, arrays: dict[str, np.ndarray], left: Buffer, right: Buffer, count: int, timed: bool
) -> Buffer:
    left_width, right_width = left.rows.shape[1], right.rows.shape[1]
    rows = np.empty((count, left_width + right_width), np.int32)
    times = count if timed else 0
    start, end = np.empty(times, np.int64), np.empty(times, np.int64)
    written = {**arrays, "out_rows": rows.reshape(-1), "out_start": start, "out_end": end}
    program = compiled_for(writing_program, left_width, right_width, timed, join.kind == "together")
    program.run(written, count)
    return Buffer((*left.variables, *right.variables), arrays["out_from"], start, end, rows)
