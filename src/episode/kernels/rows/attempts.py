"""Attempts that wait for rows: where the search stands, kept by partition, and stacks that grow."""

from __future__ import annotations

from numba import njit

from episode.kernels.rows.arrays import (
    AT_LABEL,
    ATTEMPT,
    CUT_AT,
    DEPTH,
    HAS_EMPTY,
    LATEST,
    LENGTH,
    OPEN,
    PC,
    REMEMBERING,
    ROOM,
    ROW,
    SIEVE,
    STACK,
    STACK_END,
    STAMP,
    STEPS,
)

LEAST_STACK = 8


@njit(cache=True, nogil=True)
def keep_attempt(
    k, opened, marks, row, pc, depth, steps, mine, stamp, remembering, length, has_empty, cut, sieve, latest, at_label,
    first_row, last_row, loop_rows,
):  # fmt: skip
    """The attempt of partition k goes on from here; see `Attempts`."""
    opened[OPEN, k] = 1
    opened[ROW, k], opened[PC, k], opened[DEPTH, k] = row, pc, depth
    opened[STEPS, k], opened[ATTEMPT, k] = steps, mine
    opened[STAMP, k], opened[REMEMBERING, k] = stamp, remembering
    opened[LENGTH, k], opened[HAS_EMPTY, k], opened[CUT_AT, k] = length, has_empty, cut
    opened[SIEVE, k], opened[LATEST, k], opened[AT_LABEL, k] = sieve, latest, at_label
    labels = len(last_row)
    for at in range(labels):
        marks[at, k], marks[labels + at, k] = last_row[at], first_row[at]
    for at in range(len(loop_rows)):
        marks[2 * labels + at, k] = loop_rows[at]


@njit(cache=True, nogil=True)
def take_attempt_up(k, opened, marks, first_row, last_row, loop_rows):
    """The attempt of partition k goes on: rows of labels and loops where the search works; and, in the order of
    `keep_attempt`, row, pc, depth, steps, mine, stamp, remembering, length, has_empty, cut, sieve, latest, at_label."""
    opened[OPEN, k] = 0
    labels = len(last_row)
    for at in range(labels):
        last_row[at], first_row[at] = marks[at, k], marks[labels + at, k]
    for at in range(len(loop_rows)):
        loop_rows[at] = marks[2 * labels + at, k]
    return (
        opened[ROW, k], opened[PC, k], opened[DEPTH, k], opened[STEPS, k], opened[ATTEMPT, k], opened[STAMP, k],
        opened[REMEMBERING, k] != 0, opened[LENGTH, k], opened[HAS_EMPTY, k] != 0, opened[CUT_AT, k],
        opened[SIEVE, k], opened[LATEST, k], opened[AT_LABEL, k],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def enlarge_stack(kept, k, depth, bottom, room, opened, cursor, stack_pc, stack_row, stack_low):
    """Where attempts are kept, a partition whose stack is full gets one twice as large at the end: (bottom, room)."""
    larger = max(LEAST_STACK, 2 * room)
    end = cursor[STACK_END]
    if not kept or end + larger > len(stack_pc):
        return bottom, room
    for at in range(depth):
        stack_pc[end + at] = stack_pc[bottom + at]
        stack_row[end + at] = stack_row[bottom + at]
        stack_low[end + at] = stack_low[bottom + at]
    cursor[STACK_END] = end + larger
    opened[STACK, k], opened[ROOM, k] = end, larger
    return end, larger
