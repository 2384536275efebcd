"""The keystone: one Matcher protocol, run by every runtime (batch, stream, live task, in process).

A Matcher lives for one shard (a set of partition keys). It is fed column batches in order and hands back
finished matches. Its laws (tests/property): chunk invariance, shard invariance, oracle equality, bounded state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from episode.matchers.columns import plain, take

if TYPE_CHECKING:
    from episode.matchers.prepare import Known
    from episode.matchers.screening import ClassDemand, Screen
    from episode.matchers.stages import StageClock


# What a matcher may take: rows held for open matches.


@dataclass(frozen=True)
class StateLimit:
    """How many rows a key may hold. Beyond: an error, or its open match is given up and its rows are forgotten."""

    rows: int
    give_up: bool

    @staticmethod
    def of(rows: int | None, give_up: bool) -> StateLimit | None:
        """The limit that options set; None: there is none."""
        return StateLimit(rows, give_up) if rows else None

    def keys_beyond(self, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Keys that hold too many of the rows with these keys, and how many each of them holds."""
        keys, counts = np.unique(key, return_counts=True)
        over = counts > self.rows
        return keys[over], counts[over]


END_OF_TIME = np.iinfo(np.int64).max
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
    """How the rows of a shard are grouped and ordered.

    keys: partition columns (null is a value of its own; none: one partition holds everything).
    order: ORDER BY columns; after them, and without any, rows keep their order of arrival.
    needs_time: the first order column is an event time that a query measures: it must not be null.
    start: where events last until that time, the column of their start: neither null nor after it.
    imprecise: the two are the earliest and the latest time of events that do not last; width: they are no further apart
        than this.
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
    time: int64 order-preserving image of the first order column. Timestamps and dates are microseconds
        (dates at midnight), integers are themselves; zero where there is no order column.
    Within a key, the rows of a feed come after all rows of earlier feeds.
    known: what has been computed of these rows already, for the pattern that they are fed to.
    """

    table: pa.Table
    key: np.ndarray
    time: np.ndarray
    known: Known | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def empty(schema: pa.Schema, columns: Iterable[str]) -> EventBatch:
        """No events, with these columns of a schema."""
        nothing = np.zeros(0, np.int64)
        return EventBatch(schema.empty_table().select(list(columns)), nothing, nothing)

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def bounds(self) -> np.ndarray:
        """int64: where the partitions begin, and the end: partition g has rows bounds[g]:bounds[g + 1]."""
        if len(self.key) == 0:
            return np.zeros(1, np.int64)
        return np.concatenate([[0], np.flatnonzero(np.diff(self.key)) + 1, [len(self.key)]]).astype(np.int64)

    def knowing(self, known: Known | None, columns: pa.Table) -> EventBatch:
        """The same rows, with some of their columns and what is known of them."""
        batch = EventBatch(columns, self.key, self.time, known)
        batch.__dict__["bounds"] = self.bounds
        return batch

    def select(self, columns: Iterable[str]) -> EventBatch:
        """The same rows, with some of their columns."""
        return EventBatch(self.table.select(list(columns)), self.key, self.time, self.known)

    def from_row(self, row: int) -> EventBatch:
        """The events from a row on."""
        return EventBatch(self.table.slice(row), self.key[row:], self.time[row:])

    def values_at(self, row: int, columns: Iterable[str]) -> str:
        """A row in words for errors: its values in some columns."""
        return ", ".join(f"{name} = {self.table.column(name)[row].as_py()}" for name in columns)


class ChosenBatch(EventBatch):
    """Some rows of a table as events; its columns are gathered, without dictionaries, when somebody asks for them.

    source: gives the table; rows: int64, in order.
    """

    source: Callable[[], pa.Table]
    rows: np.ndarray

    def __init__(
        self, source: Callable[[], pa.Table], rows: np.ndarray, key: np.ndarray, time: np.ndarray, known: Known | None
    ) -> None:  # fmt: skip
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


@dataclass(frozen=True)
class Snapshot:
    """What has changed since the snapshot before: chunks that are new or rewritten, names of chunks that are gone.

    All chunks that were put and neither put again nor removed make up the state.
    """

    put: tuple[StateChunk, ...] = ()
    removed: tuple[str, ...] = ()

    def apply(self, chunks: dict[str, StateChunk]) -> None:
        """Bring a state, by name of chunk, up to date."""
        for name in self.removed:
            chunks.pop(name, None)
        for chunk in self.put:
            chunks[chunk.name] = chunk


@runtime_checkable
class Matcher(Protocol):
    """One engine at work on one shard.

    keyed: do tables of matches have one more column at the end, KEY_COLUMN, the codes (int64) of the matches' keys? It
    is set before the first feed.
    """

    keyed: bool

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        """Take new events; all events with time <= until are in. Yields the matches that are now certain.

        They come as they are found, in tables of bounded size (none where there are none). All of them must be taken
        before anything else is asked of the matcher.
        """
        ...

    def finish(self) -> Iterator[pa.Table]:
        """The input has ended: yields all remaining matches, as `feed` does."""
        ...

    def snapshot(self) -> Snapshot:
        """The state, columnar and versioned: what has changed since the last call (or since restore)."""
        ...

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Continue from a state (chunks in any order), in a matcher newly opened from the same spec."""
        ...

    @property
    def state_rows(self) -> int:
        """Events held for matches still to come."""
        ...

    @property
    def given_up(self) -> int:
        """How many open matches were given up so far, because a limit to the state said so."""
        ...

    @property
    def live_keys(self) -> np.ndarray:
        """Codes of the keys of which the matcher still knows something."""
        ...

    @property
    def wakes_at(self) -> int | None:
        """The least `until` at which a feed without events could give a match; None if none could."""
        ...

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each key (int64 codes, ascending) that holds something: no match to come starts before this time (int64).

        Matches to come of other keys have events to come alone.
        """
        ...


class Report(Protocol):
    """What a matcher has done: counts of its language, which its words are made of where the query was planned."""

    def to_json(self) -> str:
        """For the way from a worker to the driver."""
        ...


@runtime_checkable
class Reports(Protocol):
    """A Matcher that can say what it has done, for explain."""

    def report(self) -> Report: ...


@dataclass(frozen=True)
class Traits:
    """What is known of the matches of a pattern, whatever the events are.

    prompt: a match comes with the feed that completes the time of its last event. early: how long before the first of
    its events that are still to come a match may start, because events last; None: any time. dependent: why a match may
    depend on other matches, or on rows far from it; None: it depends on its own rows and `lookback` rows before them,
    and on those after it only as far as they could belong to it. Then `Partial` is there, and: by_end: for each end the
    longest match is reported, otherwise matches by their start; longest: the most rows that a match can have; within:
    the longest time; walls: may there be rows that can only be the first of a match? by_start: the matches of a key
    come in order of their starts. reach: where matches depend on each other, how long before its start an event may
    matter to a match; None: any time.
    """

    prompt: bool = False
    early: int | None = 0
    dependent: str | None = "its language does not say on which events a match depends"
    lookback: int = 0
    by_end: bool = False
    longest: int | None = None
    within: int | None = None
    walls: bool = False
    by_start: bool = False
    reach: int | None = None


@runtime_checkable
class Forgets(Protocol):
    """A Matcher that can be parted from some of its keys."""

    def forget(self, keys: np.ndarray) -> None:
        """Hold nothing more of these keys (codes, ascending)."""
        ...


@runtime_checkable
class Partial(Forgets, Protocol):
    """A Matcher whose matches can be found in any stretch of a key's rows, apart from the others."""

    def rename(self, old: np.ndarray, new: np.ndarray) -> None:
        """Keys (codes, ascending) have other codes from now on, which no key has yet."""
        ...

    def walls(self, events: EventBatch) -> np.ndarray:
        """bool: the rows that can only be the first of a match; at the beginning of a key some may be left out."""
        ...


@dataclass(frozen=True)
class Selectivities:
    """How often the states of a pattern were entered and left, since the matcher was opened (not kept in snapshots).

    A state is a place of the pattern that takes rows: one for each time that a label is written, in the order of the
    pattern (of alternatives, one after the other); `B+` is two, a singleton and a star. The numbers are those of
    Lau's statistic model (4.3.1), all arrays are by state:
    labels: of the states. star (bool): may it hold any number of rows, none among them (`B*`, `B?`)? All others hold
        exactly one.
    entered (int64): rows that came to the state. left (int64): rows that left it: of a singleton those that met its
        condition, of a star those that did not, so that the match went on to the next state.
        A row counts at a state once per window, when the window first reaches the row: rows to which the search comes
        back to try something else are not counted again. A reluctant star (`B*?`) is asked only where what comes after
        it did not take the row.
    windows: start rows at which a match was looked for. matches: how many there were.
    """

    labels: tuple[str, ...]
    star: np.ndarray
    entered: np.ndarray
    left: np.ndarray
    windows: int
    matches: int


@runtime_checkable
class Selective(Protocol):
    """A Matcher that can count what the states of its pattern let through.

    counting: does it count? Off at first, as it costs a little; it may be set at any time.
    """

    counting: bool

    def selectivities(self) -> Selectivities:
        """What was counted so far."""
        ...

    @property
    def current_states(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys (int64 codes, ascending) with a window that waits for more rows, and the state (int64: its place in
        `Selectivities.labels`) at which each of them waits. All other keys are before the first state."""
        ...


class MatcherSpec(Protocol):
    """A planned query: picklable, shipped to the workers, where it opens matchers."""

    @property
    def input_order(self) -> InputOrder: ...

    @property
    def input_columns(self) -> tuple[str, ...]: ...

    @property
    def input_schema(self) -> pa.Schema:
        """At least the input columns, as they are fed."""
        ...

    @property
    def output_schema(self) -> pa.Schema: ...

    @property
    def fingerprint(self) -> str:
        """What a state belongs to: equal for specs whose matchers can go on with each other's state."""
        ...

    @property
    def traits(self) -> Traits: ...

    def open(self) -> Matcher:
        """A new matcher with empty state."""
        ...


def keeps_dictionaries(spec: MatcherSpec) -> bool:
    """May columns of strings be fed as dictionaries? Matchers see plain strings unless their spec says so."""
    return bool(getattr(spec, "keeps_dictionaries", False))


@runtime_checkable
class Screens(Protocol):
    """A MatcherSpec that can say of single rows that no match has them."""

    @property
    def screen(self) -> Screen | None:
        """None: any row may count."""
        ...


@runtime_checkable
class Demands(Protocol):
    """A MatcherSpec that can say what its pattern asks of single rows."""

    @property
    def demand(self) -> ClassDemand | None:
        """None: nothing can be said."""
        ...


@runtime_checkable
class Analyzes(Protocol):
    """A MatcherSpec whose matchers can count and clock what they do, and report it; that takes time of its own."""

    def open_analyzed(self, clock: StageClock) -> Matcher:
        """A new matcher with empty state, which says to the clock what it does."""
        ...
