"""The keystone: one Matcher protocol, run by every runtime (batch, stream, live task, in process).

A Matcher serves one shard (a set of partition keys). It is fed column batches in order and returns finished matches.
Its laws (tests/property): chunk invariance, shard invariance, oracle equality, bounded state.

See decisions 2 and 85.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.columns import empty_table, plain, take
from episode.matchers.times import EVER

if TYPE_CHECKING:
    from episode.matchers.prepare import Precomputed
    from episode.matchers.screening import ClassDemand, Screen
    from episode.matchers.stage_clock import StageClock
    from episode.plan.options import StreamOptions


@dataclass(frozen=True)
class StateLimit:
    """The limit of rows that a key may hold. Beyond it: an error, or the key's open match is dropped with its rows."""

    rows: int
    give_up: bool

    @staticmethod
    def of(options: StreamOptions) -> StateLimit | None:
        """Return the limit that options set, or None."""
        return StateLimit(options.max_state_rows, options.gives_up) if options.max_state_rows else None

    def keys_beyond(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys that hold too many of the rows with these keys, and how many each of them holds."""
        keys, counts = np.unique(key, return_counts=True)
        over = counts > self.rows
        return keys[over], counts[over]


END_OF_TIME = EVER
"""`until` of a feed after which no event can come before the end of input."""
KEY_COLUMN = "__episode_key"
"""The column of key codes of a keyed matcher's matches."""


@dataclass(frozen=True)
class OrderKey:
    """One ORDER BY column of the input table."""

    column: str
    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True)
class InputOrder:
    """Grouping and order of the rows of a shard.

    keys: partition columns (null counts as a value; without keys one partition holds everything).
    order: ORDER BY columns; after them, and without any, rows keep their order of arrival.
    needs_time: the first order column is an event time that a query measures: it must not be null.
    start: if events last until that time, the column of their start: neither null nor after it.
    imprecise: the two are the earliest and the latest time of events that do not last; width: the greatest distance
    between them.
    """

    keys: tuple[str, ...]
    order: tuple[OrderKey, ...]
    needs_time: bool = False
    start: str | None = None
    imprecise: bool = False
    width: int | None = None


@dataclass(frozen=True)
class EventBatch:
    """Events of one feed: rows contiguous by key, each key's rows in order.

    table: the columns the query reads, one chunk each; row i belongs to key[i].
    key: int64 key codes, equal for equal keys, the same for a key in every feed of a matcher's life.
    time: int64 order-preserving image of the first order column. Timestamps and dates are microseconds (dates at
    midnight), integers are themselves; zero without an order column.
    Within a key, the rows of a feed come after all rows of earlier feeds.
    known: values of these rows that were computed before, for the pattern that they are fed to.
    """

    table: pa.Table
    key: np.ndarray
    time: np.ndarray
    known: Precomputed | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def empty(schema: pa.Schema, columns: Iterable[str]) -> EventBatch:
        """Return no events, with these columns of a schema."""
        nothing = np.zeros(0, np.int64)
        return EventBatch(empty_table(schema).select(list(columns)), nothing, nothing)

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def bounds(self) -> np.ndarray:
        """The starts of the partitions and the end (int64): partition g has rows bounds[g]:bounds[g + 1]."""
        if len(self.key) == 0:
            return np.zeros(1, np.int64)
        return np.concatenate([[0], np.flatnonzero(np.diff(self.key)) + 1, [len(self.key)]]).astype(np.int64)

    def with_known(self, known: Precomputed | None, columns: pa.Table) -> EventBatch:
        """Return the same rows, with some of their columns and precomputed values."""
        batch = EventBatch(columns, self.key, self.time, known)
        batch.__dict__["bounds"] = self.bounds
        return batch

    def select(self, columns: Iterable[str]) -> EventBatch:
        """Return the same rows, with some of their columns."""
        return EventBatch(self.table.select(list(columns)), self.key, self.time, self.known)

    def from_row(self, row: int) -> EventBatch:
        """Return the events from a row on."""
        return EventBatch(self.table.slice(row), self.key[row:], self.time[row:])

    def values_at(self, row: int, columns: Iterable[str]) -> str:
        """Describe a row for errors: its values in some columns."""
        return ", ".join(f"{name} = {self.table.column(name)[row].as_py()}" for name in columns)


class ChosenBatch(EventBatch):
    """Some rows of a table as events; its columns are gathered, without dictionaries, when first read.

    source: returns the table; rows: int64, in order.
    """

    source: Callable[[], pa.Table]
    rows: np.ndarray

    def __init__(
        self,
        source: Callable[[], pa.Table],
        rows: np.ndarray,
        key: np.ndarray,
        time: np.ndarray,
        known: Precomputed | None,
    ) -> None:
        self.__dict__.update(source=source, rows=rows, key=key, time=time, known=known)

    @cached_property
    def table(self) -> pa.Table:
        return plain(take(self.source(), self.rows))

    def select(self, columns: Iterable[str]) -> EventBatch:
        source, names = self.source, list(columns)
        return ChosenBatch(lambda: source().select(names), self.rows, self.key, self.time, self.known)


@dataclass(frozen=True)
class StateChunk:
    """A piece of a snapshot: a name, a format version, Arrow IPC bytes."""

    name: str
    version: int
    data: bytes

    def check_version(self, version: int) -> None:
        """Raise an error if the chunk does not have this format."""
        if self.version != version:
            message = f"The state of format {self.version} cannot be read; this version reads format {version}."
            raise EpisodeDataError(message)


@dataclass(frozen=True)
class Snapshot:
    """Changes since the previous snapshot: chunks that are new or rewritten, names of chunks that are removed.

    All chunks that were put and neither put again nor removed make up the state.
    """

    put: tuple[StateChunk, ...] = ()
    removed: tuple[str, ...] = ()

    def apply(self, chunks: dict[str, StateChunk]) -> None:
        """Apply the changes to a state, by name of chunk."""
        for name in self.removed:
            chunks.pop(name, None)
        for chunk in self.put:
            chunks[chunk.name] = chunk


@runtime_checkable
class Matcher(Protocol):
    """A pattern matcher of one shard.

    keyed: whether tables of matches have KEY_COLUMN as last column, the codes (int64) of the matches' keys. It is set
    before the first feed.
    """

    keyed: bool

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        """Take new events and yield the matches that are now certain. All events with time <= until are in.

        Matches are yielded as they are found, in tables of bounded size. All of them must be taken before any other
        call.
        """

    def finish(self) -> Iterator[pa.Table]:
        """Yield all remaining matches, as `feed` does: the input has ended."""

    def snapshot(self) -> Snapshot:
        """Return the changes of the state since the last call (or since restore), columnar and versioned."""

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Continue from a state (chunks in any order), in a matcher newly opened from the same spec."""

    @property
    def state_rows(self) -> int:
        """Events held for future matches."""

    @property
    def given_up(self) -> int:
        """Open matches dropped by the state limit so far."""

    @property
    def live_keys(self) -> np.ndarray:
        """Codes of the keys that the matcher holds something of."""

    @property
    def wakes_at(self) -> int | None:
        """The least `until` at which a feed without events could yield a match, or None."""

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys that hold something (int64 codes, ascending), each with the earliest start (int64) of its future
        matches.

        Future matches of other keys have only future events.
        """


class MatcherReport(Protocol):
    """Counts of a matcher's work, defined by its language, which turns them into words when explaining a query."""

    def to_json(self) -> str:
        """Encode the counts for the way from a worker to the driver."""


@runtime_checkable
class Reports(Protocol):
    """A Matcher that can report its work, for explain."""

    def report(self) -> MatcherReport: ...


@dataclass(frozen=True)
class Traits:
    """Properties of a pattern's matches that hold for any events.

    prompt: a match is emitted by the feed that completes the time of its last event. early: how long before its first
    future event a match may start, because events last; None: any time. dependent: why a match may depend on other
    matches, or on rows far from it; None: it depends on its own rows and `lookback` rows before them, and on those
    after it only as far as they could belong to it. Then the matcher is `Partial`, and: by_end: for each end the
    longest match is reported, otherwise matches by their start; longest: the most rows that a match can have; within:
    the longest time; walls: whether rows may exist that can only be the first of a match. by_start: the matches of a
    key are in order of their starts. reach: if matches depend on each other, how long before its start an event may
    matter to a match; None: any time. states: labels, variables or symbols of the pattern. consumes: whether the events
    of a match are in no later one.
    """

    prompt: bool = False
    early: int | None = 0
    dependent: str | None = "its language does not declare on which events a match depends"
    lookback: int = 0
    by_end: bool = False
    longest: int | None = None
    within: int | None = None
    walls: bool = False
    by_start: bool = False
    reach: int | None = None
    states: int = 1
    consumes: bool = False


@runtime_checkable
class Forgets(Protocol):
    """A Matcher that can forget some of its keys."""

    def forget(self, keys: np.ndarray) -> None:
        """Drop everything held for these keys (codes, ascending)."""


@runtime_checkable
class Partial(Forgets, Protocol):
    """A Matcher whose matches can be found in any stretch of a key's rows, independently of the others."""

    def rename(self, old: np.ndarray, new: np.ndarray) -> None:
        """Give keys (codes, ascending) other codes, which no key has yet."""

    def walls(self, events: EventBatch) -> np.ndarray:
        """Return the rows (bool) that can only be first in a match; some may be left out where a key begins."""


@dataclass(frozen=True)
class Selectivities:
    """Counts of rows that entered and left the states of a pattern, since the matcher was opened (not kept in
    snapshots).

    A state is a place of the pattern that takes rows: one for each time that a label is written, in the order of the
    pattern (of alternatives, one after the other); `B+` is two, a singleton and a star. The numbers are those of Lau's
    statistic model (4.3.1), all arrays are by state:
    labels: of the states. star (bool): whether it may hold any number of rows, also none (`B*`, `B?`). All others hold
    exactly one.
    entered (int64): rows that reached the state. left (int64): rows that left it: of a singleton those that met its
    condition, of a star those that did not, so that the match continued with the next state. A row counts at a state
    once per window, when the window first reaches the row: rows that the search returns to are not counted again. A
    reluctant star (`B*?`) counts only rows that the states after it did not take.
    windows: start rows at which a match was searched. matches: the number of matches.
    """

    labels: tuple[str, ...]
    star: np.ndarray
    entered: np.ndarray
    left: np.ndarray
    windows: int
    matches: int


@runtime_checkable
class Selective(Protocol):
    """A Matcher that can count the rows that pass the states of its pattern.

    counting: whether it counts. Off at first, as it costs a little; it may be set at any time.
    """

    counting: bool

    def selectivities(self) -> Selectivities:
        """Return the counts so far."""

    @property
    def current_states(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys (int64 codes, ascending) with a window that waits for more rows, and the state (int64: its
        place in `Selectivities.labels`) at which each of them waits. All other keys are before the first state."""


class MatcherSpec(Protocol):
    """A planned query: picklable, shipped to the workers, where it opens matchers."""

    @property
    def input_order(self) -> InputOrder: ...

    @property
    def input_columns(self) -> tuple[str, ...]: ...

    @property
    def input_schema(self) -> pa.Schema:
        """The types of at least the input columns, as they are fed."""

    @property
    def output_schema(self) -> pa.Schema: ...

    @property
    def fingerprint(self) -> str:
        """The identity of a state: equal for specs whose matchers can resume each other's state."""

    @property
    def traits(self) -> Traits: ...

    def open(self) -> Matcher:
        """Return a new matcher with empty state."""


def keeps_dictionaries(spec: MatcherSpec) -> bool:
    """Whether columns of strings may be fed as dictionaries. Matchers see plain strings unless their spec sets this."""
    return bool(getattr(spec, "keeps_dictionaries", False))


@runtime_checkable
class Screens(Protocol):
    """A MatcherSpec that knows single rows that cannot be in a match."""

    @property
    def screen(self) -> Screen | None:
        """The filter of rows; None: any row may count."""


@runtime_checkable
class Demands(Protocol):
    """A MatcherSpec that knows the conditions of its pattern on single rows."""

    @property
    def demand(self) -> ClassDemand | None:
        """The conditions, or None if unknown."""


@runtime_checkable
class Analyzes(Protocol):
    """A MatcherSpec whose matchers can count, time and report their work; that costs extra time."""

    def open_analyzed(self, clock: StageClock) -> Matcher:
        """Return a new matcher with empty state, which reports its stages to the clock."""
