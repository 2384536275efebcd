"""The rows of a batch that each of many patterns is fed, with what is known of them: made once for equal demands.

Left out are rows that no match of a pattern can have, and, where nothing is held and nothing more comes, partitions
without a row that every match needs. What is fed alone gives the same matches: see `Demand`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from episode.kernels import row_classes as kernel
from episode.matchers.columns import take
from episode.matchers.encoding import Lanes, encode
from episode.matchers.held import owned, ranges
from episode.matchers.lowering import Assembler
from episode.matchers.prepare import Known, Needs, compute_lane
from episode.matchers.protocol import EventBatch
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
    followed: bool
    columns: tuple[str, ...]
    beyond: tuple[str, ...]

    @property
    def others(self) -> np.uint64:
        """The bits of a row of no class that has conditions."""
        return _EVERY & ~np.uint64(sum(1 << at for at, one in enumerate(self.conditional) if one))


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
        kept = self._partitions(asked) if whole and asked.required else None
        if kept is not None and not kept.any():
            return None
        chosen = self._chosen(asked, whole, kept)
        events = self.events
        if chosen is None:
            lanes, computed = self._shared() if shares else (None, {})
            return events.knowing(Known(self._bits(asked), lanes, computed), asked.columns)
        rows, bits = chosen
        if len(rows) == 0:
            return None
        table = take(events.table.select(asked.beyond if whole else asked.columns), rows)
        return EventBatch(table, events.key[rows], events.time[rows], Known(bits))

    def _chosen(self, asked: Asked, whole: bool, kept: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
        """The rows that may matter, and their bits; None: (nearly) all of them. kept: the partitions that may."""
        most = MOST_KEPT * len(self.events)
        if asked.sparse and (whole or not asked.followed):
            rows, bits = self._of_some_class(asked)
            if kept is not None and not kept.all():
                own = kept[self.groups[rows]]
                rows, bits = rows[own], bits[own]
            return None if len(rows) > most else (rows, bits)
        if kept is None:
            return None
        bounds = self.events.bounds
        sizes = np.diff(bounds)[kept]
        if sizes.sum() > most:
            return None
        rows = ranges(bounds[:-1][kept], sizes)
        return rows, self._bits(asked).take(rows)

    def _of_some_class(self, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
        """The rows of classes that all have conditions, and of each row which; with the rows after them, where these
        matter."""
        others = asked.others
        rows, bits = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        for at, number in enumerate(asked.classes):
            found = self.classes.rows(number)
            if found is not None:
                rows, bits = kernel.joined(rows, bits, found, np.uint64(1 << at), others)
        return kernel.with_next(rows, bits, self.events.bounds, others) if asked.followed else (rows, bits)

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

    def _bits(self, asked: Asked) -> np.ndarray:
        """uint64: the classes of all rows, as bits."""
        bits = np.full(len(self.events), asked.others, np.uint64)
        for at, number in enumerate(asked.classes):
            found = self.classes.rows(number)
            if found is not None:
                kernel.add_class(bits, found, np.uint64(1 << at))
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
