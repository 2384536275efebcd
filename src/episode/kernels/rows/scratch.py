"""Arrays of one call of the row matcher, as small as the query: what the search knows of the attempt that it is in."""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.rows.frames import FRAME_PLACE
from episode.kernels.rows.steady import turn_tests
from episode.kernels.rows.ways import RARE


@njit(cache=True, nogil=True)
def scratch_of(program, tests, residuals, navigations, aggregates):
    """The arrays of a call.

    By label: first_row, last_row: its first and last row in the match so far; tracked: does a navigation name it? By
    loop: loop_rows, arrival_loops: where its iteration began, now and on arrival at the last row. arrived: by
    instruction, the era of its last arrival there. seek: where each required label is looked for from. rare,
    frame_place, and steady, turned, fixed_i, fixed_f: see `kernels.rows.ways`, `frames`, `steady`. Then the rows and
    labels of navigations, the values of running aggregates and arrays, and the machine's registers.
    """
    labels, loops, registers = program.labels, program.loops, residuals.registers
    navs, aggs, required = len(navigations.first), len(aggregates.function), len(program.required)
    values = aggs + residuals.array_from[len(residuals.array_from) - 1]
    tracked = np.zeros(labels, np.bool_)
    for nav in range(navs):
        if navigations.label[nav] >= 0:
            tracked[navigations.label[nav]] = True
    steady, turned = turn_tests(
        tests.from_, tests.tests, residuals.from_, residuals.to, aggs, navigations.plain, navigations.label, labels
    )
    return (
        np.full(labels, -1, np.int64), np.full(labels, -1, np.int64), tracked,
        np.full(loops + 1, -1, np.int64), np.zeros(loops + 1, np.int64), np.zeros(len(program.code), np.int64),
        np.zeros(required, np.int64), np.zeros(RARE, np.int64), np.zeros(FRAME_PLACE, np.int64),
        steady, turned, np.zeros(len(turned), np.int64), np.zeros(len(turned), np.float64),
        np.full(navs, -1, np.int64), np.full(navs, -1, np.int64),
        np.zeros(values, np.int64), np.zeros(values, np.float64), np.zeros(values, np.uint8),
        np.zeros((registers, 1), np.int64), np.zeros((registers, 1), np.float64), np.zeros((registers, 1), np.uint8),
    )  # fmt: skip
