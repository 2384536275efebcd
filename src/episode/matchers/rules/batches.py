"""The rows of a batch that each of many patterns is fed, with what is known of them: made once for equal demands.

Left out are rows that no match of a pattern can have, and, where nothing is held and nothing more comes, partitions
without a row that every match needs. What is fed alone gives the same matches: see `ClassDemand`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.chains import near_chains, viable
from episode.matchers.code.rows import compute_lane
from episode.matchers.columns import plain
from episode.matchers.encoding import Lanes, encode
from episode.matchers.prepare import Needs, Precomputed
from episode.matchers.protocol import ChosenBatch, EventBatch
from episode.matchers.rules.classes import ClassRows, join_classes, with_next
from episode.matchers.screening import ClassDemand
from episode.matchers.state import ranges, writable
from episode.plan.expressions import Expression

if TYPE_CHECKING:
    from episode.matchers.rules.shared import Beginning, CommonPrefix

MOST_KEPT = 0.7
"""Share of the rows beyond which all are kept: what is known of all rows is shared by more patterns."""

SAMPLE_ROWS = 4096
"""Rows that decide whether it pays to find the events of a prefix, with the rest of the last one's partition."""

_EVERY = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Asked:
    """A demand whose classes are numbered among those of all patterns. columns: those that its patterns read; beyond:
    those that they read beyond the conditions of classes, which is enough where nothing is held. beginning: with a
    prefix that it has in common with others."""

    classes: tuple[int, ...]
    demand: ClassDemand
    columns: tuple[str, ...]
    beyond: tuple[str, ...]
    beginning: Beginning | None = None

    @cached_property
    def conditional(self) -> int:
        """Bits of the classes that have conditions."""
        return sum(1 << at for at, one in enumerate(self.demand.classes) if one)

    @cached_property
    def others(self) -> np.uint64:
        """The bits of a row of no class that has conditions."""
        return _EVERY & ~np.uint64(self.conditional)

    @cached_property
    def chain(self) -> np.ndarray:
        return np.array(self.demand.chain, np.uint64)


class RuleBatches:
    """One batch as many patterns see it. needs: what patterns of all rows need of it, together; None: they do not
    share it. prefixes: those that several of them have."""

    def __init__(
        self, events: EventBatch, classes: ClassRows, needs: Needs | None, prefixes: Sequence[CommonPrefix] = ()
    ) -> None:  # fmt: skip
        self.events = EventBatch(events.table, writable(events.key), writable(events.time))
        self.classes = classes
        self.prefixes_found = 0
        self._needs = needs
        self._prefixes = prefixes
        self._of_prefix: dict[int, list[np.ndarray] | None] = {}
        self._made: tuple[tuple[int, bool, bool], EventBatch | None] | None = None
        self._plain: dict[str, pa.ChunkedArray] = {}
        self._present: dict[tuple[int, ...], np.ndarray] = {}

    @cached_property
    def every(self) -> EventBatch:
        """All events, as a pattern that asks for nothing is fed them."""
        return EventBatch(self._columns(self.events.table.column_names), self.events.key, self.events.time)

    def of(self, number: int, asked: Asked, whole: bool, shares: bool) -> EventBatch | None:
        """The events of a demand, by its number; None where none of them can matter. whole: nothing came before these
        events, and nothing comes after them. shares: may what is known of all rows be used?

        They are good until other ones are asked for; the next pattern with the same demand gets the same.
        """
        which = number, whole, shares
        if self._made is None or self._made[0] != which:
            self._made = None
            self._made = which, self._make(asked, whole, shares)
        return self._made[1]

    def _make(self, asked: Asked, whole: bool, shares: bool) -> EventBatch | None:
        kept = self._partitions(asked) if whole and asked.demand.required else None
        if kept is not None and not kept.any():
            return None
        chosen = self._choose_rows(asked, whole, kept)
        events = self.events
        if chosen is None:
            lanes, computed = self._lanes if shares else (None, {})
            return events.with_known(Precomputed(self._bits(asked), lanes, computed), self._columns(asked.columns))
        rows, bits = chosen
        if len(rows) == 0:
            return None
        return self._part(asked.beyond if whole else asked.columns, rows, bits)

    def _choose_rows(self, asked: Asked, whole: bool, kept: np.ndarray | None) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the rows that may matter, and their bits; None: (nearly) all rows. kept: the partitions that may."""
        most = MOST_KEPT * len(self.events)
        if asked.demand.sparse and (whole or not asked.demand.followed):
            rows, bits = self._of_some_class(asked, whole)
            if kept is not None and not kept.all():
                own = kept[self.groups[rows]]
                rows, bits = rows[own], bits[own]
            if whole and asked.demand.chain:
                rows, bits = self._in_chains(asked, rows, bits)
            return None if len(rows) > most else (rows, bits)
        if kept is None:
            return None
        bounds = self.events.bounds
        sizes = np.diff(bounds)[kept]
        if sizes.sum() > most:
            return None
        rows = ranges(bounds[:-1][kept], sizes)
        return rows, self._bits(asked).take(rows)

    def _of_some_class(self, asked: Asked, whole: bool) -> tuple[np.ndarray, np.ndarray]:
        """The rows of classes that all have conditions, and of each row which; and the rows after them, if needed."""
        found = {at: self.classes.rows(number) for at, number in enumerate(asked.classes)}
        if whole and asked.beginning is not None:
            of_prefix = self._rows_of_prefix(asked.beginning.common)
            found.update({} if of_prefix is None else dict(zip(asked.beginning.at, of_prefix, strict=True)))
        rows, bits = join_classes(_some(found), asked.others)
        return with_next(rows, bits, self.events.bounds, asked.others) if asked.demand.followed else (rows, bits)

    def _rows_of_prefix(self, number: int) -> list[np.ndarray] | None:
        """Return for each place of a common prefix the rows that are in a match of it; None if it does not
        pay to find them. The first rule that begins with it asks for all."""
        if number not in self._of_prefix:
            self._of_prefix[number] = self._found_of_prefix(self._prefixes[number])
        return self._of_prefix[number]

    def _found_of_prefix(self, common: CommonPrefix) -> list[np.ndarray] | None:
        of_place = [self.classes.rows(one) for one in common.classes]
        if any(rows is None or len(rows) == 0 for rows in of_place):
            return None
        rows, bits = join_classes(_some(dict(enumerate(of_place))), np.uint64(0))
        prefix, time = common.prefix, self.events.time
        span = int(time.max()) - int(time.min()) + 1
        partitions = len(self.events.bounds) - 1
        windows = partitions * span / min(max(1, prefix.within), span)
        counts = [len(one) for one in of_place if one is not None]
        rules = common.expected_rules(self.classes.counts, partitions, span)
        few = int(self.events.bounds[np.searchsorted(self.events.bounds, rows[: SAMPLE_ROWS + 1][-1], side="right")])
        sample = int(np.searchsorted(rows, few))
        try:
            if prefix.gain(self._part(prefix.columns, rows[:sample], bits[:sample]), counts, windows, rules) <= 0:
                return None
            left = prefix.left(self._part(prefix.columns, rows, bits))
        except EpisodeDataError:  # of events that no rule may look at: then each looks at its own
            return None
        self.prefixes_found += 1
        return [rows[left & np.uint64(1 << place) != 0] for place in range(len(common.classes))]

    def _part(self, columns: Sequence[str], rows: np.ndarray, bits: np.ndarray) -> EventBatch:
        """Some rows, of which the classes are known."""
        table, names, events = self.events.table, list(columns), self.events
        return ChosenBatch(lambda: table.select(names), rows, events.key[rows], events.time[rows], Precomputed(bits))

    def _in_chains(self, asked: Asked, rows: np.ndarray, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Leave out rows that are in no chain of the demand, nor near one."""
        from_, time, within = np.searchsorted(rows, self.events.bounds), self.events.time[rows], asked.demand.within
        left = viable(bits, asked.chain, from_, time, time, within, True)
        in_chain = np.bitwise_or.reduce(asked.chain)
        beside = np.uint64(asked.conditional) & ~in_chain
        kept = np.flatnonzero(near_chains(left, in_chain, beside, from_, time, within))
        return rows[kept], left[kept]

    def _columns(self, names: Sequence[str]) -> pa.Table:
        """Columns of all rows, without dictionaries; each is made once."""
        for name in names:
            if name not in self._plain:
                self._plain[name] = plain(self.events.table.select([name])).column(0)
        fields = [self.events.table.schema.field(name).with_type(self._plain[name].type) for name in names]
        return pa.Table.from_arrays([self._plain[name] for name in names], schema=pa.schema(fields))

    def _partitions(self, asked: Asked) -> np.ndarray:
        """bool: the partitions that have a row of each required class."""
        kept = np.ones(len(self.events.bounds) - 1, np.bool_)
        for required in asked.demand.required:
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

    @cached_property
    def groups(self) -> np.ndarray:
        sizes = np.diff(self.events.bounds)
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)

    def _bits(self, asked: Asked) -> np.ndarray:
        """uint64: the classes of all rows, as bits, always in the same place."""
        bits = self._room
        bits[:] = asked.others
        for at, number in enumerate(asked.classes):
            found = self.classes.rows(number)
            if found is not None:
                bits[found] |= np.uint64(1 << at)
        return bits

    @cached_property
    def _room(self) -> np.ndarray:
        return np.empty(len(self.events), np.uint64)

    @cached_property
    def _lanes(self) -> tuple[Lanes | None, dict[Expression, tuple[bool, int, int]]]:
        """The columns that patterns of all rows read, in lanes, and what they compute of single rows."""
        needs, events = self._needs, self.events
        if needs is None:
            return None, {}
        lanes = encode(events.table, needs.columns, needs.null_tests, needs.constants, needs.room, needs.words)
        return lanes, {expression: compute_lane(lanes, events.key, expression) for expression in needs.computed}


def _some(found: Mapping[int, np.ndarray | None]) -> dict[int, np.ndarray]:
    """Leave out the classes that every row is of."""
    return {at: rows for at, rows in found.items() if rows is not None}


def together(needs: Sequence[Needs]) -> Needs:
    """Join what several patterns need, each thing once."""
    columns: dict[str, str] = {}
    parts: tuple[dict[object, None], ...] = ({}, {}, {}, {})
    for one in needs:
        columns.update(one.columns)
        for known, more in zip(parts, (one.null_tests, one.constants, one.computed, one.words), strict=True):
            known.update(dict.fromkeys(more))
    null_tests, constants, computed, words = (tuple(part) for part in parts)
    return Needs(columns, null_tests, constants, computed, words)  # type: ignore[arg-type]
