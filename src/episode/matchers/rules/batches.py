"""The rows of a batch that each of many patterns is fed, with what is known of them: made once for equal demands.

Left out are rows that no match of a pattern can have, and, where nothing is held and nothing more comes, partitions
without a row that every match needs. What is fed alone gives the same matches: see `Demand`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from episode.matchers.encoding import Lanes, encode
from episode.matchers.held import owned, ranges
from episode.matchers.lowering import Assembler
from episode.matchers.prepare import Known, Needs, compute_lane
from episode.matchers.protocol import ChosenBatch, EventBatch
from episode.matchers.rules.classes import ClassRows
from episode.plan.expressions import Expression

MOST_KEPT = 0.7
"""Where more of the rows are kept, all of them are: what is known of all rows is shared by more patterns."""

_EVERY = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Asked:
    """A demand whose classes are numbered among those of all patterns. columns: those that its patterns read; beyond:
    those that they read beyond the conditions of classes, which is enough where nothing is held."""

    classes: tuple[int, ...]
    conditional: tuple[bool, ...]
    required: tuple[tuple[int, ...], ...]
    sparse: bool
    columns: tuple[str, ...]
    beyond: tuple[str, ...]


class RuleBatches:
    """One batch as many patterns see it. needs: what patterns of all rows need of it, together; None: they do not
    share it."""

    def __init__(self, events: EventBatch, classes: ClassRows, needs: Needs | None) -> None:
        self.events = EventBatch(events.table, owned(events.key), owned(events.time))
        self.classes = classes
        self._needs = needs
        self._lanes: tuple[Lanes, dict[Expression, tuple[bool, int, int]]] | None = None
        self._made: dict[tuple[int, bool, bool], EventBatch | None] = {}
        self._present: dict[tuple[int, ...], np.ndarray] = {}
        self._groups: np.ndarray | None = None

    def of(self, number: int, asked: Asked, whole: bool, shares: bool) -> EventBatch | None:
        """The events of a demand, by its number; None where none of them can matter. whole: nothing came before these
        events, and nothing comes after them. shares: may what is known of all rows be used?"""
        which = number, whole, shares
        if which not in self._made:
            self._made[which] = self._make(asked, whole, shares)
        return self._made[which]

    def _make(self, asked: Asked, whole: bool, shares: bool) -> EventBatch | None:
        rows = self._rows(asked, whole)
        events = self.events
        if rows is None:
            bits = self._bits(asked, None)
            lanes, computed = self._shared() if shares else (None, {})
            return events.knowing(Known(bits, lanes, computed), asked.columns)
        if len(rows) == 0:
            return None
        table, columns = events.table, list(asked.beyond if whole else asked.columns)
        known = Known(self._bits(asked, rows))
        return ChosenBatch(lambda: table.select(columns), rows, events.key[rows], events.time[rows], known)

    def _rows(self, asked: Asked, whole: bool) -> np.ndarray | None:
        """The rows that may matter; None: (nearly) all of them."""
        kept = self._partitions(asked) if whole and asked.required else None
        if kept is not None and not kept.any():
            return np.zeros(0, np.int64)
        most = MOST_KEPT * len(self.events)
        if asked.sparse:
            rows = self._of_some_class(asked.classes)
            if kept is not None:
                rows = rows[kept[self.groups[rows]]]
            return None if len(rows) > most else rows
        if kept is None:
            return None
        bounds = self.events.bounds
        sizes = np.diff(bounds)[kept]
        return None if sizes.sum() > most else ranges(bounds[:-1][kept], sizes)

    def _of_some_class(self, classes: Sequence[int]) -> np.ndarray:
        found = [rows for one in dict.fromkeys(classes) if (rows := self.classes.rows(one)) is not None]
        if len(found) == 1:
            return found[0]
        if sum(map(len, found)) < len(self.events) // 16:
            return np.unique(np.concatenate(found))
        mask = np.zeros(len(self.events), np.bool_)
        for rows in found:
            mask[rows] = True
        return np.flatnonzero(mask)

    def _partitions(self, asked: Asked) -> np.ndarray:
        """bool: the partitions that have a row of each required class."""
        kept = np.ones(len(self.events.bounds) - 1, np.bool_)
        for required in asked.required:
            kept &= self._having(tuple(asked.classes[at] for at in required))
        return kept

    def _having(self, classes: tuple[int, ...]) -> np.ndarray:
        if classes not in self._present:
            present = np.zeros(len(self.events.bounds) - 1, np.bool_)
            for one in classes:
                rows = self.classes.rows(one)
                present[slice(None) if rows is None else self.groups[rows]] = True
            self._present[classes] = present
        return self._present[classes]

    @property
    def groups(self) -> np.ndarray:
        """The partition of each row."""
        if self._groups is None:
            sizes = np.diff(self.events.bounds)
            self._groups = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return self._groups

    def _bits(self, asked: Asked, rows: np.ndarray | None) -> np.ndarray:
        """uint64: the classes of rows (None: of all), as bits."""
        conditional = sum(1 << at for at, one in enumerate(asked.conditional) if one)
        bits = np.full(len(self.events) if rows is None else len(rows), _EVERY & ~np.uint64(conditional), np.uint64)
        for at, number in enumerate(asked.classes):
            found = self.classes.rows(number)
            if found is None:
                continue
            if rows is not None:
                places = np.searchsorted(rows, found)
                places[places == len(rows)] = 0
                found = places[rows[places] == found]
            bits[found] |= np.uint64(1 << at)
        return bits

    def _shared(self) -> tuple[Lanes | None, dict[Expression, tuple[bool, int, int]]]:
        """The columns that patterns of all rows read, in lanes, and what they compute of single rows."""
        if self._lanes is None and self._needs is not None:
            self._lanes = in_lanes(self._needs, self.events)
        return (None, {}) if self._lanes is None else self._lanes


def in_lanes(needs: Needs, events: EventBatch) -> tuple[Lanes, dict[Expression, tuple[bool, int, int]]]:
    """What is needed of a batch, row by row."""
    lanes = encode(events.table, needs.columns, needs.null_tests, needs.constants, needs.room, needs.words)
    assembler = Assembler(lanes)
    programs = [(expression, assembler.program(expression)) for expression in needs.computed]
    code, ints, reals = assembler.arrays()
    shared = (assembler.registers, events.key, lanes.ints, lanes.floats, lanes.valid, ints, reals)
    computed = {
        expression: compute_lane(lanes, expression, code, start, stop, result, shared)
        for expression, (start, stop, result) in programs
    }
    return lanes, computed


def together(needs: Sequence[Needs]) -> Needs:
    """What several patterns need, each thing once."""
    columns: dict[str, str] = {}
    parts: tuple[dict[object, None], ...] = ({}, {}, {}, {})
    for one in needs:
        columns.update(one.columns)
        for known, more in zip(parts, (one.null_tests, one.constants, one.computed, one.words), strict=True):
            known.update(dict.fromkeys(more))
    null_tests, constants, computed, words = (tuple(part) for part in parts)
    return Needs(columns, null_tests, constants, computed, words)  # type: ignore[arg-type]
