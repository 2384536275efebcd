"""Arrays of the search of row patterns: those of a query and of a batch, in tuples by subject.

Arrays have the types given here, in C order. Rows are numbers of rows in the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from episode.matchers.rows.code.array_code import RunningValues


OP, FIRST, SECOND, LABEL, BIT, ENTRY, LOOP, SLOT = range(8)
"""Columns of an instruction: the opcode; where it leads to; the label that it takes, and its bit; labels of which a row
must offer one, as bits (all bits if no label is needed); is it the choice after a greedy loop over one label?; the
first memory slot of a SPLIT, or -1."""


class RowProgram(NamedTuple):
    """The pattern.

    code int64[instructions, 8], in columns OP … SLOT, so that one step reads adjacent memory. label_of int64: its
    labels once more. loop_ids[loop_from[i]:loop_from[i + 1]]: loops around an instruction, int32. slots, loops, labels:
    their numbers, of labels at least one. first_bits, follow_bits uint64: labels of which a start row and its successor
    must offer one. one_row_enough: may a match have one row? nullable: or none? required uint64: bits of labels that
    every match has.
    """

    code: np.ndarray
    label_of: np.ndarray
    loop_from: np.ndarray
    loop_ids: np.ndarray
    slots: int
    loops: int
    labels: int
    first_bits: np.uint64
    follow_bits: np.uint64
    one_row_enough: bool
    nullable: bool
    required: np.ndarray


class SearchSettings(NamedTuple):
    """The matches to find, and what they may cost.

    mode, skip, memory: see the codes below. within: the window, or NO_WINDOW. timed_out: a start row that finds nothing
    because its window ended gives the rows until then, numbered TIMED_OUT; the end of the input ends every window.
    lookahead: rows that a NEXT may need. budget: steps that a start row may take. patience: steps after which it waits
    for a label that it needs and that no row offers yet. counting: are rows counted by the instructions that they come
    to? bounded: does a window or the pattern itself bound how far a start row may look?
    """

    mode: int
    skip: int
    memory: int
    with_unmatched: bool
    within: int
    timed_out: bool
    lookahead: int
    budget: int
    patience: int
    counting: bool
    bounded: bool


class Frames(NamedTuple):
    """Frames of a row pattern in a window; None for MATCH_RECOGNIZE.

    The number of a match is the row it belongs to, and a match is in the frame of that row. seek: does it begin at the
    first row of the frame that matches (SEEK), or at the row (INITIAL)? reach: the most rows of a frame. lookback: the
    rows before a row of the match that are read.
    """

    seek: bool
    reach: int
    lookback: int


class SearchRows(NamedTuple):
    """The rows of the batch. bits uint64: a bit for each label whose row-local conditions hold; time, key int64;
    ints int64[:, rows], floats float64[:, rows], valid uint8[:, rows]: the lanes."""

    bits: np.ndarray
    time: np.ndarray
    key: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray


class SearchPartitions(NamedTuple):
    """The rows lo:hi of each partition, int64. at_start bool: is lo its true start?

    Updated in place: next_start: the row to resume at; number: of the last match; covered: the row after all matches;
    explored_start, explored_to (INCREMENTAL MATCH): the last start tried, and up to which row.
    """

    lo: np.ndarray
    hi: np.ndarray
    at_start: np.ndarray
    next_start: np.ndarray
    number: np.ndarray
    covered: np.ndarray
    explored_start: np.ndarray
    explored_to: np.ndarray


OPEN, PC, ROW, DEPTH, STEPS, ATTEMPT, STAMP, REMEMBERING, LENGTH, HAS_EMPTY = range(10)
CUT_AT, SIEVE, EXTREME_AT, SIFTED, STACK, ROOM, LATEST, AT_LABEL = range(10, 18)
"""Fields of an attempt that waits: is there one to resume?; its instruction and row; the number of untried choices;
steps so far; its number; the stamp of its memory, and whether it is in use; the length of the best way so far, and
whether there is an empty one; rows that a window cut off; the state of its sieve: NOT_SOUGHT before labels are sought
that every match has, then UNSIFTED, STUCK until a row passes, or PASSED. LATEST (ALL MATCHES): the last match found so
far, see `code.paths`; AT_LABEL: the place of the label to skip to in the longest one. Of the partition, whether an
attempt waits or not: the memory of its sieve (see `code.sieves`), the begin of its stack, and its room. INCREMENTAL
MATCH: OPEN, DEPTH, STACK and ROOM are those of ways that wait (see `code.waiting_ways`)."""
ATTEMPT_FIELDS = 18
UNSIFTED, STUCK, PASSED, NOT_SOUGHT = range(4)


class Attempts(NamedTuple):
    """Attempts that resume when rows come, if the search keeps its arrays by row (see `SearchWork`).

    kept: does it? If not, only `sought` counts, and may have no column. open int64[ATTEMPT_FIELDS, partitions]. marks
    int64[2 * labels + loops + 1, partitions]: the last and the first row of each label, and the row where the iteration
    of each loop began. sought int64[required, partitions]: from the next start on, no row before this one offers the
    label. turns int64[:, 3], in the columns of `code.paths`. INCREMENTAL MATCH keeps ways instead: ways int64[:,
    WAY_MARKS + marks + 2 * aggregates], way_values float64[:, 2 * aggregates], see `code.waiting_ways`.
    """

    kept: bool
    open: np.ndarray
    marks: np.ndarray
    sought: np.ndarray
    ways: np.ndarray
    way_values: np.ndarray
    turns: np.ndarray


class FoundPaths(NamedTuple):
    """Room for the matches: kind uint8; start, length, number int64; path int32: the instruction that took each row,
    from path_from int64 on, which has one entry more."""

    kind: np.ndarray
    start: np.ndarray
    length: np.ndarray
    number: np.ndarray
    path_from: np.ndarray
    path: np.ndarray


AT_PARTITION, OUTS, PATHS, GENERATION, ATTEMPTS, STATUS_ROW, CUT, EXCESS, ALL_STEPS = range(9)
STACK_END, TURNS_END, AT_LIMIT, SIFTINGS = range(9, 13)
"""Places of the cursor: partition to resume at; matches; entries of their paths; memory generation; attempts; row of an
error; rows that a window cut off; steps beyond the allowance of the rows; steps of all attempts; the ends of the stacks
(or ways) and of the turns; may these not grow any more?; rows that sieves have looked through."""
CURSOR = 13


class SearchWork(NamedTuple):
    """Room for the search.

    cursor int64[CURSOR]. stack_pc int32, stack_row, stack_low int64: untried choices. By row of a match (if attempts
    are kept, by row of the batch): path, best int32: instructions of this way and of the best one; previous int64: the
    row of the same label before; memo int64: visited states; seen_end int64: the attempt that found a match with this
    last row. By row of a partition: end_taken, pending int64. agg_i int64, agg_f, agg_m float64, agg_n int64
    [aggregates and arrays, rows (as path, and one more) or elements]. counts int64[instructions, 2, 2]: rows that came
    to an instruction, and those that it did not take; for the first time, and again after a row that it took.
    """

    cursor: np.ndarray
    stack_pc: np.ndarray
    stack_row: np.ndarray
    stack_low: np.ndarray
    path: np.ndarray
    best: np.ndarray
    previous: np.ndarray
    memo: np.ndarray
    seen_end: np.ndarray
    end_taken: np.ndarray
    pending: np.ndarray
    agg_i: np.ndarray
    agg_f: np.ndarray
    agg_m: np.ndarray
    agg_n: np.ndarray
    counts: np.ndarray


STACKS = {"stack_pc": np.int32, "stack_row": np.int64, "stack_low": np.int64}
BY_ROW = {"path": np.int32, "best": np.int32, "previous": np.int64}
RUNNING = {"agg_i": np.int64, "agg_f": np.float64, "agg_m": np.float64, "agg_n": np.int64}
"""Types of arrays of `SearchWork` that attempts keep while they wait for rows."""


# Codes shared by the search of row patterns and its callers: modes, skips, statuses, limits.


PREFERRED, MAXIMAL, INCREMENTAL, ALL = range(4)
PAST_LAST_ROW, NEXT_ROW, FIRST_LABEL, LAST_LABEL = range(4)
FINE, BUDGET_SPENT, SKIP_TO_FIRST_ROW, SKIP_NOT_FOUND, OUTPUT_FULL, PATHS_FULL, STACK_FULL, MEMORY_NEEDED = range(8)
ALL_BUDGETS_SPENT, WAYS_FULL, TURNS_FULL, SIFTING_SLOW = 8, 9, 10, 11
NO_MEMORY, ATTEMPT_MEMORY, PARTITION_MEMORY = range(3)
NO_WINDOW = -1

MEMORY_AFTER = 256
"""Steps after which an attempt remembers the choices that failed."""
STEPS_PER_ROW = 64
BUDGETS = 20
"""Budgets that all start rows of a feed together may spend, beyond the allowance of the rows they reach."""
STEPS_PER_ROW_READ = 1024
"""The allowance of a row, in steps of all start rows together, if nothing bounds how far a start row may look;
otherwise it is STEPS_PER_ROW of each start row that reaches it. Rows that a loop takes at once are an eighth of a
step."""
SEEK_LABELS_AFTER = 8
"""Steps after which the search checks that the window of a start row has the labels that every match has."""
SIFTED_PER_ROW, LEAST_SIFTED = 64, 1 << 20
"""At the end of input: start rows that look through more rows than that, for each row, are to be sifted all at once."""


MOST_MATCHES, MOST_ROWS = 1 << 20, 1 << 23
"""Matches, and rows of matches, from which on they are emitted while the search still has work to do."""


@dataclass
class WorkArrays:
    """Output and work arrays for partitions of at most `longest` rows. Only a deep search touches the large ones."""

    found: FoundPaths
    work: SearchWork
    longest: int

    @staticmethod
    def allocate(longest: int, rows: int, values: RunningValues, counts: np.ndarray) -> WorkArrays:
        """Allocate for `rows` rows in all, and the values that conditions need."""
        outputs, deep = max(1024, rows // 4), longest + 2
        stack = max(256, 2 * deep)
        running = values.shape(deep)
        start, length, number = (np.zeros(outputs, np.int64) for _ in range(3))
        path_from, path = np.zeros(outputs + 1, np.int64), np.empty(max(4096, rows), np.int32)
        found = FoundPaths(np.empty(outputs, np.uint8), start, length, number, path_from, path)
        work = SearchWork(
            cursor=np.zeros(CURSOR, np.int64),
            memo=np.zeros(0, np.int64),
            seen_end=np.zeros(deep, np.int64),
            end_taken=np.zeros(deep, np.int64),
            pending=np.empty(deep, np.int64),
            counts=counts,
            **{name: np.empty(stack, kind) for name, kind in STACKS.items()},
            **{name: np.empty(deep, kind) for name, kind in BY_ROW.items()},
            **{name: np.empty(running, kind) for name, kind in RUNNING.items()},
        )
        return WorkArrays(found, work, longest)

    @property
    def cursor(self) -> np.ndarray:
        return self.work.cursor

    def enlarge(self, status: int, slots: int) -> bool:
        """Make room for what the search ran out of; False if it did not run out of anything."""
        found, work = self.found, self.work
        if status == OUTPUT_FULL:
            self.found = found._replace(**{name: double_array(getattr(found, name)) for name in found._fields[:-1]})
        elif status == PATHS_FULL:
            self.found = found._replace(path=double_array(found.path, self.longest))
        elif status == STACK_FULL:
            self.work = work._replace(**{name: double_array(getattr(work, name)) for name in STACKS})
        elif status == MEMORY_NEEDED:
            self.work = work._replace(memo=np.zeros((self.longest + 1) * slots, np.int64))
        else:
            return False
        return True

    def holds_many(self, status: int) -> bool:
        """Is the output full, and so large that it is better emitted than given more room?"""
        if self.cursor[OUTS] == 0:
            return False
        if status == OUTPUT_FULL:
            return len(self.found.kind) >= MOST_MATCHES
        return status == PATHS_FULL and len(self.found.path) >= MOST_ROWS

    def forget_found(self) -> None:
        """Forget the matches found so far, which have been emitted."""
        self.cursor[OUTS] = self.cursor[PATHS] = 0

    def matches(self) -> FoundPaths:
        """The matches found so far, without the room for more."""
        outs = self.cursor[OUTS]
        path = self.found.path[: self.cursor[PATHS]]
        return FoundPaths(*(array[:outs] for array in self.found))._replace(path=path)


def double_array(array: np.ndarray, least: int = 0) -> np.ndarray:
    """The array with twice its room, and `least` more."""
    return np.concatenate([array, np.zeros((len(array) + least, *array.shape[1:]), array.dtype)])
