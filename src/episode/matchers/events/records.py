"""What a tree plan makes in one round: buffers of records, and matches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from episode.matchers.events.lists import Pair, select_lists

NO_LIMIT = np.iinfo(np.int64).max


class TooManyRecords(Exception):
    """A buffer has outgrown its limit: the round must be smaller. what: what there are more than `limit` of."""

    def __init__(self, limit: int, what: str = "matches or partial matches") -> None:
        super().__init__(limit, what)
        self.limit = limit
        self.what = what


@dataclass(frozen=True)
class Buffer:
    """Records of a node, sorted by (partition, end): see `code.joins`.

    variables: what the columns of rows hold.
    start, end: empty for matches of whose times nobody asks."""

    variables: tuple[str, ...]
    from_: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self.from_, self.start, self.end, self.rows


@dataclass(frozen=True)
class Counted:
    """What a node did in a round, for explain. variables: of its records, if it is a join; hashed: were pairs looked up
    by their equality?"""

    name: str
    tried: int
    records: int
    variables: tuple[str, ...] = ()
    hashed: bool = False


@dataclass
class FoundRecords:
    """Matches: single events in `rows` (columns: variables), groups as lists. from_: where each partition's begin, as
    long as none has been left out."""

    variables: tuple[str, ...]
    from_: np.ndarray
    start: np.ndarray
    end: np.ndarray
    rows: np.ndarray
    groups: dict[str, Pair] = field(default_factory=dict)
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
