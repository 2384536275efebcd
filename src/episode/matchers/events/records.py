"""Results of a tree plan in one round: buffers of records, and matches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from episode.plan.events.tree import Group

if TYPE_CHECKING:
    from episode.matchers.events.code.joins import JoinShape

NO_LIMIT = np.iinfo(np.int64).max


class TooManyRecords(Exception):
    """A buffer has outgrown its limit: the round must be smaller. what: the things of which there are more than
    `limit`."""

    def __init__(self, limit: int, what: str = "matches or partial matches") -> None:
        super().__init__(limit, what)
        self.limit = limit
        self.what = what


class NodeRecords(Protocol):
    """Records of a node, those of partition g at lo[g]:hi[g], sorted by end: see `code.joins`.

    variables: the columns of rows. start, end: empty for matches whose times are not needed. new: where the new ones of
    each partition begin.
    """

    @property
    def variables(self) -> tuple[str, ...]: ...

    @property
    def start(self) -> np.ndarray: ...

    @property
    def end(self) -> np.ndarray: ...

    @property
    def rows(self) -> np.ndarray: ...

    @property
    def lo(self) -> np.ndarray: ...

    @property
    def hi(self) -> np.ndarray: ...

    @property
    def new(self) -> np.ndarray: ...

    def __len__(self) -> int:
        """The length of the arrays."""

    def index_for(self, join: JoinShape, side: str) -> RecordIndex:
        """The index of these records for a join that has them as one of its sides."""


class RecordIndex(Protocol):
    """Values of records that are compared, and a hash table of them: see `code.joins`."""

    arrays: dict[str, np.ndarray]

    def keep(self) -> None:
        """Take over what a call has added."""


@dataclass
class Buffer:
    """The records of one round, next to each other. from_: where those of each partition begin."""

    variables: tuple[str, ...]
    from_: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lo(self) -> np.ndarray:
        return self.from_[:-1]

    @property
    def hi(self) -> np.ndarray:
        return self.from_[1:]

    @property
    def new(self) -> np.ndarray:
        return self.lo

    def index_for(self, join: JoinShape, side: str) -> RecordIndex:
        arrays = {"values": np.empty(len(self), np.int64), "entered": self.lo.astype(np.int64)}
        if join.is_hashed:
            room = rooms(self.hi - self.lo)
            arrays |= {"heads": np.full(int(room.sum()), -1, np.int64), "chain": np.empty(len(self), np.int64)}
            arrays |= {"buckets": np.cumsum(room) - room, "mask": room - 1}
        return RoundIndex({f"{side}_{name}": array for name, array in arrays.items()})


def no_records(variables: tuple[str, ...], partitions: int) -> Buffer:
    times, rows = np.zeros(0, np.int64), np.zeros((0, len(variables)), np.int32)
    return Buffer(variables, np.zeros(partitions + 1, np.int64), times, times, rows)


@dataclass
class RoundIndex:
    """A `RecordIndex` for one call."""

    arrays: dict[str, np.ndarray]

    def keep(self) -> None:
        pass


LEAST_ROOM = 4


def rooms(records: np.ndarray) -> np.ndarray:
    """Room for numbers of records, and for as many buckets: powers of two."""
    return np.maximum(LEAST_ROOM, 1 << np.ceil(np.log2(np.maximum(records * 1.5, 1))).astype(np.int64))


@dataclass(frozen=True)
class NodeWork:
    """Work of a node in a round, for explain. variables: of its records, if it is a join; hashed: were pairs looked up
    by their equality?"""

    name: str
    tried: int
    records: int
    variables: tuple[str, ...] = ()
    hashed: bool = False


@dataclass
class FoundRecords:
    """Matches: single events in `rows` (columns: variables), groups as lists. from_: where each partition's begin,
    until matches are dropped."""

    variables: tuple[str, ...]
    from_: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rows: np.ndarray
    groups: dict[str, RowLists] = field(default_factory=dict)
    _group: np.ndarray | None = None

    @property
    def group(self) -> np.ndarray:
        """The partition of each match."""
        if self._group is None:
            self._group = np.repeat(np.arange(len(self.from_) - 1), np.diff(self.from_))
        return self._group

    def select(self, which: np.ndarray) -> None:
        self._group, self.start, self.end = self.group[which], self.start[which], self.end[which]
        self.rows = self.rows[which]
        self.groups = {name: select_lists(lists, which) for name, lists in self.groups.items()}

    def part(self, low: int, high: int) -> FoundRecords:
        """Some successive matches, before they have groups."""
        assert not self.groups
        which = slice(low, high)
        return FoundRecords(
            self.variables, self.from_, self.start[which], self.end[which], self.rows[which], {}, self.group[which]
        )


# Lists of events, one for each match: the contents of groups while they are found.


RowLists = tuple[np.ndarray, np.ndarray]
"""offsets int64[matches + 1], rows: match i has rows[offsets[i]:offsets[i + 1]]."""
EventsOfMatches = tuple[np.ndarray, np.ndarray, np.ndarray]
"""offsets, rows, and the number of the variable of each row."""


@dataclass(frozen=True)
class EventLists:
    """The events of a group per match. kinds: the number of each event's variable in the group; None if it has one."""

    offsets: np.ndarray
    rows: np.ndarray
    kinds: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def only(self, applies: np.ndarray) -> EventLists:
        """Empty lists for the other matches."""
        if applies.all():
            return self
        keep = np.repeat(applies, self.lengths)
        lengths = np.where(applies, self.lengths, 0)
        return EventLists(offsets_of(lengths), self.rows[keep], None if self.kinds is None else self.kinds[keep])

    def parts(self, low: np.ndarray, high: np.ndarray) -> EventLists:
        """Lists of rows low[i]:high[i] for match i."""
        lengths = high - low
        at = np.repeat(low - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        return EventLists(offsets_of(lengths), self.rows[at], None if self.kinds is None else self.kinds[at])

    def by_variable(self, group: Group) -> dict[str, RowLists]:
        """The list of each variable of the group."""
        if self.kinds is None:
            return {group.variable: (self.offsets, self.rows)}
        match = np.repeat(np.arange(len(self.offsets) - 1), self.lengths)
        found = {}
        for number, name in enumerate(group.variables):
            mine = self.kinds == number
            lengths = np.bincount(match[mine], minlength=len(self.offsets) - 1)
            found[name] = offsets_of(lengths), self.rows[mine]
        return found


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def select_lists(lists: RowLists, which: np.ndarray) -> RowLists:
    """The lists of some matches, perhaps several times."""
    offsets, rows = lists
    some = EventLists(offsets, rows).parts(offsets[:-1][which], offsets[1:][which])
    return some.offsets, some.rows


def merge_lists(lists: list[RowLists]) -> EventLists:
    """Merge lists of several variables in the order of rows: each event for the first variable that has it."""
    if len(lists) == 1:
        return EventLists(*lists[0])
    count = len(lists[0][0]) - 1
    match = np.concatenate([np.repeat(np.arange(count), np.diff(offsets)) for offsets, _ in lists])
    rows = np.concatenate([rows for _, rows in lists])
    kinds = np.repeat(np.arange(len(lists)), [len(rows) for _, rows in lists])
    order = np.lexsort((kinds, rows, match))
    match, rows, kinds = match[order], rows[order], kinds[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (match[1:] != match[:-1]) | (rows[1:] != rows[:-1])
    return EventLists(offsets_of(np.bincount(match[first], minlength=count)), rows[first], kinds[first])
