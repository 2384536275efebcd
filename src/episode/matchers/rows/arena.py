"""Rows of many keys in columns, each key's in a block that has room for more, and the progress of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.columns import one_chunk_each, take
from episode.matchers.encoding import Lanes, is_float_lane
from episode.matchers.prepare import Needs, Prepared, needs_of
from episode.matchers.rows.arrays import ATTEMPT_FIELDS, EXTREME_AT, OPEN, SIFTED
from episode.matchers.state import ranges
from episode.matchers.times import EVER
from episode.plan.expressions import Current, Expression, Load, walk
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.types import is_wide, lane_of

if TYPE_CHECKING:
    from episode.matchers.rows.waiting_attempts import WaitingAttempts


# The table of keys. A key keeps its slot while its state is known. Keys are found by binary search; slots of forgotten
# keys are reused when they are many.


(
    KEY, BASE, ROOM, LO, HI, AT_START, NEXT_START, NUMBER, COVERED, EXPLORED_START, EXPLORED_TO, DEADLINE, UNWRITTEN,
) = range(13)  # fmt: skip
"""Fields of a key. KEY: its code. BASE, ROOM: its block in the arena. LO … EXPLORED_TO: see `SearchPartitions`, as rows
of the arena. DEADLINE: the `until` from which on a feed without rows may decide something. UNWRITTEN: the number of its
last rows that no snapshot has written yet."""
OPENED = 13
"""First of the fields of an attempt that waits, followed by its marks and the rows sought; see
`matchers.rows.arrays.Attempts`."""
MARKS = OPENED + ATTEMPT_FIELDS
POSITIONS = np.array([LO, HI, NEXT_START, COVERED, EXPLORED_START, EXPLORED_TO])

_LEAST_SLOTS = 64


class KeyTable:
    """int64[fields, slots]. marks, sought: the number of these fields per attempt."""

    def __init__(self, marks: int = 0, sought: int = 0) -> None:
        self.count = 0
        self.marked = slice(MARKS, MARKS + marks)
        self.sought = slice(MARKS + marks, MARKS + marks + sought)
        self._table = np.zeros((self.sought.stop, _LEAST_SLOTS), np.int64)
        self._keys = np.zeros(0, np.int64)
        self._slots = np.zeros(0, np.int64)

    @property
    def table(self) -> np.ndarray:
        """By field and slot."""
        return self._table[:, : self.count]

    @property
    def in_order(self) -> np.ndarray:
        """All slots, by key."""
        return self._slots

    def slots_of(self, keys: np.ndarray) -> np.ndarray:
        """The slots of different keys; keys without a slot get one, with no rows."""
        at, known = self._places(keys)
        if not known.all():
            self._add(np.sort(keys[~known]))
            at = np.searchsorted(self._keys, keys)
        return self._slots[at]

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The slots of the known ones of these keys."""
        at, known = self._places(keys)
        return self._slots[at[known]]

    def _places(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The places of keys in the order of known keys, and which of them are known."""
        at = np.searchsorted(self._keys, keys)
        known = at < len(self._keys)
        known[known] = self._keys[at[known]] == keys[known]
        return at, known

    def _add(self, fresh: np.ndarray) -> None:
        count = self.count + len(fresh)
        if count > self._table.shape[1]:
            larger = np.zeros((len(self._table), 2 * count), np.int64)
            larger[:, : self.count] = self.table
            self._table = larger
        slots = np.arange(self.count, count)
        self.count = count
        self._table[:, slots] = 0
        self._table[KEY, slots] = fresh
        self.begin(slots)
        at = np.searchsorted(self._keys, fresh)
        self._keys, self._slots = np.insert(self._keys, at, fresh), np.insert(self._slots, at, slots)

    def begin(self, slots: np.ndarray) -> None:
        """Reset these keys to no rows; their blocks stay."""
        table = self._table
        for position in POSITIONS:
            table[position, slots] = table[BASE, slots]
        table[EXPLORED_START, slots] -= 1
        table[NUMBER, slots], table[AT_START, slots], table[DEADLINE, slots] = 0, 1, EVER
        table[UNWRITTEN, slots] = 0
        table[OPENED + OPEN, slots] = 0
        table[OPENED + EXTREME_AT, slots] = table[OPENED + SIFTED, slots] = -1
        table[self.sought, slots] = table[BASE, slots]

    def keep(self, slots: np.ndarray) -> None:
        """Forget all keys but those of these slots; they get new slots."""
        self._table = np.ascontiguousarray(self._table[:, slots])
        self.count = len(slots)
        self._order()

    def rename(self, slots: np.ndarray, keys: np.ndarray) -> None:
        self._table[KEY, slots] = keys
        self._order()

    def _order(self) -> None:
        keys = self._table[KEY, : self.count]
        self._slots = np.argsort(keys, kind="stable")
        self._keys = keys[self._slots]


# Prepared rows in columns: the rows of a key are together in a block that has room for more. A key whose block is full
# gets one twice as large at the end of the arena; when the end is reached, the arena is laid out anew, without the rows
# that are gone. So a new row costs the same, however many are held.


NO_KEY = np.iinfo(np.int64).min
"""The key of empty rows of the arena."""
_LEAST_ROWS = 1024
_SPARSE = 8


class Arena:
    """The columns. bits uint64, time, key int64, and the lanes of the layout: read by the search. source int64: the
    row in the log. chunk int64: the chunk of the state that has the row."""

    def __init__(self, layout: RowLayout, waiting: WaitingAttempts) -> None:
        self.layout = layout
        self.waiting = waiting
        self.end = 0
        self._allocate(_LEAST_ROWS)

    def _allocate(self, rows: int) -> None:
        layout = self.layout
        self.bits = np.zeros(rows, np.uint64)
        self.time = np.zeros(rows, np.int64)
        self.key = np.full(rows, NO_KEY, np.int64)
        self.ints = np.zeros((layout.ints, rows), np.int64)
        self.floats = np.zeros((layout.floats, rows), np.float64)
        self.valid = np.ones((layout.valids, rows), np.uint8)
        self.source = np.zeros(rows, np.int64)
        self.chunk = np.zeros(rows, np.int64)
        self.waiting.allocate(rows)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        own = self.bits, self.time, self.key, self.ints, self.floats, self.valid, self.source, self.chunk
        return own + self.waiting.columns

    def make_room(self, keys: KeyTable, slots: np.ndarray, counts: np.ndarray) -> None:
        """Make room for `counts` more rows after the rows of these keys."""
        table = keys.table
        base, room, lo, hi = (table[field, slots] for field in (BASE, ROOM, LO, HI))
        full = hi + counts > base + room
        if not full.any():
            return
        need = hi - lo + counts
        slides = 2 * need[full] <= room[full]
        larger = np.where(slides, 0, 2 * need[full] + 2)
        if self.end + larger.sum() > len(self.bits):
            self.lay_out(keys, slots, need)
            return
        slots, base, room = slots[full], base[full], room[full]
        table[ROOM, slots] = np.where(slides, room, larger)
        table[BASE, slots] = np.where(slides, base, self.end + np.cumsum(larger) - larger)
        self.end += int(larger.sum())
        self._move(keys, slots, self._columns)

    def _move(self, keys: KeyTable, slots: np.ndarray, columns: tuple[np.ndarray, ...]) -> None:
        """Move the rows of these keys from `columns` to where their blocks begin now."""
        table = keys.table
        lo, held = table[LO, slots], table[HI, slots] - table[LO, slots]
        shift = table[BASE, slots] - lo
        rows = ranges(lo, held)
        moved = [column[..., rows] for column in columns]
        if columns[0] is self.bits:
            self.key[rows] = NO_KEY
        to = rows + np.repeat(shift, held)
        for column, values in zip(self._columns, moved, strict=True):
            column[..., to] = values
        table[POSITIONS[:, np.newaxis], slots] += shift
        table[keys.sought, slots] += shift
        self.waiting.follow(keys, slots, shift)

    def lay_out(self, keys: KeyTable, slots: np.ndarray, need: np.ndarray) -> None:
        """Lay all blocks out anew, one after the other. need: rows for which these slots must have room."""
        table = keys.table
        held = table[HI] - table[LO]
        room = held.copy()
        room[slots] = need
        room = np.where(room > 0, 2 * room + 2, 0)
        before = self._columns
        self.end = int(room.sum())
        self._allocate(max(_LEAST_ROWS, self.end + self.end // 2))
        table[BASE], table[ROOM] = np.cumsum(room) - room, room
        self._move(keys, np.arange(keys.count), before)

    def is_sparse(self, rows: int) -> bool:
        """Is the arena much larger than a number of rows needs?"""
        return len(self.bits) > _SPARSE * rows + _SPARSE * _LEAST_ROWS

    def rename(self, keys: KeyTable, slots: np.ndarray) -> None:
        """Write the new codes of these keys."""
        table = keys.table
        held = table[HI, slots] - table[LO, slots]
        self.key[ranges(table[LO, slots], held)] = np.repeat(table[KEY, slots], held)

    def put(self, prepared: Prepared, rows: np.ndarray, to: np.ndarray) -> None:
        """Put rows of a prepared batch into the lanes, at the places `to`."""
        lanes, layout = prepared.lanes, self.layout
        columns = list(layout.columns_in(lanes))
        for name, row in layout.valid_at.items():
            check = lanes.valid_at[name]
            if check < 0:
                self.valid[row, to] = 1
            else:
                self.valid[row, to] = lanes.valid[check][rows]
                layout.seen.add(name)
        for expression, (floating, row, check) in layout.computed.items():
            _, from_row, from_check = prepared.computed[expression]
            columns.append((floating, row, from_row))
            if is_wide(expression):
                columns.append((False, row + 1, from_row + 1))
            self.valid[check, to] = lanes.valid[from_check][rows]
        for floating, row, from_row in columns:
            own, others = (self.floats, lanes.floats) if floating else (self.ints, lanes.ints)
            own[row, to] = others[from_row][rows]

    def with_context(self, lanes: Lanes, at: np.ndarray, context: np.ndarray, context_at: np.ndarray) -> Lanes:
        """The lanes of new rows, spread to the places `at`, with rows of the arena at the places between."""
        count, layout = len(at) + len(context_at), self.layout
        ints, floats = np.zeros((len(lanes.ints), count), np.int64), np.zeros((len(lanes.floats), count), np.float64)
        ints[:, at], floats[:, at] = lanes.ints, lanes.floats
        for floating, row, to_row in layout.columns_in(lanes):
            wide, own = (floats, self.floats) if floating else (ints, self.ints)
            wide[to_row, context_at] = own[row, context]
        nullable = [name for name, check in lanes.valid_at.items() if check >= 0 or name in layout.seen]
        valid = np.ones((len(nullable) + len(lanes.valid) - lanes.valid_rows, count), np.uint8)
        for number, name in enumerate(nullable):
            if lanes.valid_at[name] >= 0:
                valid[number, at] = lanes.valid[lanes.valid_at[name]]
            if name in layout.valid_at:
                valid[number, context_at] = self.valid[layout.valid_at[name], context]
        checks = dict.fromkeys(lanes.valid_at, -1) | {name: number for number, name in enumerate(nullable)}
        return replace(lanes, ints=ints, floats=floats, valid=valid, valid_at=checks, valid_rows=len(nullable))


# The lanes of an arena, and how prepared rows get into it and out of it. Rows of later feeds are compared with those of
# earlier ones, so the lanes must not depend on a feed: ranks of strings, which do, cannot be in an arena, and every
# column that may be null has its own row of validity.


def is_lasting(plan: RowPatternPlan, needs: Needs) -> bool:
    """Can prepared rows of this plan be kept and used with those of later feeds?

    Not if strings (binaries, wide decimals) are compared between rows or aggregated: they have the ranks of a feed.
    Conditions of single rows may read them, if such a condition need not be evaluated again for a held row.
    """
    unlocal = {label: replace(condition, row_local=()) for label, condition in plan.conditions.items()}
    between = needs_of(replace(plan, conditions=unlocal))
    if between.constants or any(lane_of(type_) == "code" for type_ in between.columns.values()):
        return False
    if any(lane_of(expression.type) == "code" and not is_wide(expression) for expression in needs.computed):
        return False
    codes = {name for name, type_ in needs.columns.items() if lane_of(type_) == "code"}
    if not codes:
        return True
    parts = [part for condition in plan.conditions.values() for part in condition.row_local]
    elsewhere = any(
        isinstance(node, Load) and node.at != Current(0) and {node.column, node.missing} & codes
        for part in (*parts, *needs.computed)
        for node in walk(part)
    )
    return plan.lookahead == 0 and not elsewhere


@dataclass
class RowLayout:
    """Rows of the lanes of an arena, by column and by computed expression.

    ints, floats, valids: the number of rows of the lanes. seen: columns that had a null so far.
    """

    ints: int = 0
    floats: int = 0
    valids: int = 0
    at: dict[str, int] = field(default_factory=dict)
    floating: dict[str, bool] = field(default_factory=dict)
    words_at: dict[str, int] = field(default_factory=dict)
    valid_at: dict[str, int] = field(default_factory=dict)
    computed: dict[Expression, tuple[bool, int, int]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    @staticmethod
    def of(needs: Needs) -> RowLayout:
        layout = RowLayout()
        for name, type_ in needs.columns.items():
            lane = lane_of(type_)
            if lane != "code":
                layout.floating[name] = lane == "float"
                layout.at[name] = layout._take(lane == "float")
        layout.words_at = {name: layout._take(False, 2) for name in needs.words}
        nullable = dict.fromkeys((*layout.at, *layout.words_at, *needs.null_tests))
        layout.valid_at = {name: row for row, name in enumerate(nullable)}
        layout.valids = len(nullable)
        for expression in needs.computed:
            floating = is_float_lane(expression.type)
            layout.computed[expression] = floating, layout._take(floating, 1 + is_wide(expression)), layout.valids
            layout.valids += 1
        return layout

    def _take(self, floating: bool, rows: int = 1) -> int:
        """Take the next rows of a lane; return the first."""
        if floating:
            self.floats += rows
            return self.floats - rows
        self.ints += rows
        return self.ints - rows

    def columns_in(self, lanes: Lanes) -> Iterator[tuple[bool, int, int]]:
        """Yield (is float, row here, row in the lanes of a feed) for columns."""
        for name, row in self.at.items():
            yield self.floating[name], row, lanes.at[name]
        for name, row in self.words_at.items():
            yield False, row, lanes.words_at[name]
            yield False, row + 1, lanes.words_at[name] + 1

    def as_prepared(self, ints: np.ndarray, floats: np.ndarray, valid: np.ndarray, bits: np.ndarray) -> Prepared:
        """Lanes of this layout as prepared rows."""
        checks = {name: row if name in self.seen else -1 for name, row in self.valid_at.items()}
        lanes = Lanes(ints, floats, valid, self.at, checks, self.words_at)
        return Prepared(lanes, bits, self.computed)


# Rows as they came, in order: the source of output, and of the rows that the state keeps.


_MOST_TABLES = 64
_MOST_SMALL = 4
_SMALL = 4096
"""Small tables are joined sooner: a match of a live task has rows of several, and reading each costs the same."""


class RowLog:
    """Tables of rows, numbered consecutively; any rows can be read.

    Small tables are joined now and then, so that there are never many, and a row is joined a few times only.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._tables: list[pa.Table] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def append(self, table: pa.Table, count: int) -> int:
        """Append rows; return the number of the first."""
        first = len(self)
        self._tables.append(table.select(self.columns))
        self._ends.append(first + count)
        if len(self._tables) > (_MOST_SMALL if count <= _SMALL else _MOST_TABLES):
            self._join()
        return first

    def _join(self) -> None:
        """Join the last tables with those before them that are not much larger."""
        at = len(self._tables) - 1
        begin = self._ends[at - 1]
        while at > 0 and self._ends[at - 1] - (self._ends[at - 2] if at > 1 else 0) <= 4 * (len(self) - begin):
            at -= 1
            begin = self._ends[at - 1] if at else 0
        joined = one_chunk_each(pa.concat_tables(self._tables[at:]))
        self._tables[at:], self._ends[at:] = [joined], [len(self)]

    def take(self, rows: np.ndarray) -> pa.Table:
        """The rows of these numbers, in this order. There is at least one table."""
        if 4 * len(rows) > len(self) and len(self._tables) > 1:
            self._tables, self._ends = [one_chunk_each(pa.concat_tables(self._tables))], [len(self)]
        if len(self._tables) == 1 or len(rows) == 0:
            return take(self._tables[0], rows)
        if len(self._tables) <= _MOST_SMALL and len(rows) <= _SMALL:
            return take(pa.concat_tables(self._tables), rows)
        which = np.searchsorted(self._ends, rows, side="right")
        order = np.argsort(which, kind="stable")
        parts = []
        bounds = np.flatnonzero(np.diff(which[order], prepend=-1)).tolist()
        for begin, end in zip(bounds, [*bounds[1:], len(rows)], strict=True):
            number = int(which[order[begin]])
            first = self._ends[number - 1] if number else 0
            parts.append(take(self._tables[number], rows[order[begin:end]] - first))
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return take(pa.concat_tables(parts), back)

    def keep(self, rows: np.ndarray) -> None:
        """Keep only these rows: rows[i] becomes number i."""
        self._tables, self._ends = [self.take(rows)], [len(rows)]
