"""The event pattern Matcher: tree plans and the automaton on one shard, in batch and in a stream.

State: the events that a match to come may still hold (those of the last window, as far as they qualify for anything),
and up to which time matches have been handed out. Intermediate results are no state: every feed is cut into rounds, and
each round builds what it needs from the events of its window. So plans can change between any two rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.kernels.events import joins
from episode.kernels.events import runs as runs_kernel
from episode.kernels.rows.matching import MATCHED
from episode.matchers.assembly import Matches, OutputAssembler, PathLabels
from episode.matchers.columns import from_bytes, take, to_bytes
from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.prepare import EventArrays, EventNeeds, event_needs, prepare_events
from episode.matchers.events.runs import automaton_arrays
from episode.matchers.events.tree import Found, Round, TooManyRecords, TreeRun, edges
from episode.matchers.held import STATE_VERSION, KeptRows, check_version, with_held
from episode.matchers.ordering import start_image
from episode.matchers.prepare import Needs, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.plan.clause import Strategy
from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import Group, InSequence, first_variables, variables_of

if TYPE_CHECKING:
    from episode.matchers.events.spec import EventPatternSpec

_PARTITIONS = "partitions"
STRATEGIES = {
    Strategy.ANY: runs_kernel.ANY, Strategy.NEXT: runs_kernel.NEXT,
    Strategy.STRICT: runs_kernel.CONTIGUOUS, Strategy.PARTITION: runs_kernel.CONTIGUOUS,
}  # fmt: skip
FIRST_ROWS, ROUND_ROWS = 1 << 10, 1 << 16
"""Rows of the first round, and at the most."""
MOST_RECORDS = 1 << 21
"""Records of one buffer in one round, at the most; a round with more is cut in two."""
EVENTS_PER_RECORD = 4
"""The automaton puts out matches of any length: their events are counted, so many to a record."""
GOOD_RECORDS, LEAST_WINDOWS = 1 << 18, 4
"""Records of a round that stay in the processor's cache; rounds are cut to have about so many, but not below so many
windows, as each builds the records of the window before it anew."""


class EventPatternMatcher:
    """One event pattern at work on one shard."""

    def __init__(self, spec: EventPatternSpec) -> None:
        self.spec = spec
        self.plan = spec.plan
        self.needs: EventNeeds = event_needs(self.plan)
        self.output_needs: Needs = needs_of(self.plan)
        self.adaptation = Adaptation(self.plan, spec.forced)
        self.held: EventBatch | None = None
        self.given_up = 0
        self.done = joins.NEVER
        self.window = joins.EVER if self.plan.within is None else self.plan.within
        self._round_rows = min(FIRST_ROWS, spec.round_rows)
        self._kept = KeptRows()
        self._chain = _chain(self.plan)
        self._waits = self.plan.waits
        self._single, self._first = self._masks_of_starts()
        self._back = self._reach_back()

    def _masks_of_starts(self) -> tuple[np.uint64, np.uint64]:
        """Variables of single events, and of those that are the first event of their matches."""
        tree = self.plan.tree
        if tree is None:
            return np.uint64(0), np.uint64(0)
        led = any(isinstance(edge.item, Group) and not edge.left for edge in edges(tree))
        bit = {name: 1 << number for number, name in enumerate(self.plan.variables)}
        first = () if led else first_variables(tree)
        return np.uint64(sum(bit[name] for name in variables_of(tree))), np.uint64(sum(bit[name] for name in first))

    def _reach_back(self) -> int:
        """How far before the last decided time an event may still be needed."""
        return self.window if self.window == joins.EVER else self.window * (2 if self._waits else 1)

    # ---- protocol ------------------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> pa.Table:
        tables = list(self.feed_in_rounds(events, until))
        return pa.concat_tables(tables) if tables else self.spec.output_schema.empty_table()

    def feed_in_rounds(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        """As `feed`, matches coming as they are found."""
        for together, found in self.matches_in(events, until):
            yield self._output(together, found)

    def matches_in(self, events: EventBatch, until: int) -> Iterator[tuple[EventBatch, FoundMatches]]:
        """The matches of a feed as lists of events, round by round, each with the batch that its rows are of."""
        new = np.unique(events.key)
        together = with_held(self.held, events, self._kept, self.spec.input_columns)
        for found in self._advance(together, until, new):
            yield together, found

    def finish(self) -> pa.Table:
        if self.held is None or len(self.held) == 0:
            return self.spec.output_schema.empty_table()
        held = self.held
        tables = [self._output(held, found) for found in self._advance(held, END_OF_TIME, np.zeros(0, np.int64))]
        return pa.concat_tables(tables) if tables else self.spec.output_schema.empty_table()

    def snapshot(self) -> Snapshot:
        key = self.held.key if self.held is not None else np.zeros(0, np.int64)
        keys, counts = np.unique(key, return_counts=True)
        partitions = pa.table({"key": keys, "held": counts.astype(np.int64)})
        partitions = partitions.replace_schema_metadata({"done": str(self.done)})
        put, removed = self._kept.changes(self.held)
        return Snapshot((StateChunk(_PARTITIONS, STATE_VERSION, to_bytes(partitions)), *put), removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        keys, held = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for chunk in chunks:
            check_version(chunk)
            if chunk.name == _PARTITIONS:
                table = from_bytes(chunk.data)
                keys, held = table.column("key").to_numpy(), table.column("held").to_numpy()
                self.done = int((table.schema.metadata or {})[b"done"])
        self.held = self._kept.restore(chunks, keys, held)

    def report(self) -> str:
        return self.adaptation.report()

    @property
    def state_rows(self) -> int:
        return 0 if self.held is None else len(self.held)

    @property
    def live_keys(self) -> np.ndarray:
        return np.unique(self.held.key) if self.held is not None else np.zeros(0, np.int64)

    @property
    def wakes_at(self) -> int | None:
        """Where something stands behind the last event: the earliest end of a window."""
        if not self._waits or self.window == joins.EVER or self.held is None or len(self.held) == 0:
            return None
        ends = self._starts(self.held) + self.window
        ends = ends[ends > self.done]
        return min(int(ends.min()), END_OF_TIME - 1) if len(ends) else None

    # ---- one step ------------------------------------------------------------------------------------------------

    def _starts(self, events: EventBatch) -> np.ndarray:
        starts = start_image(events.table, self.spec.input_order)
        return events.time if starts is None else starts.values

    def _advance(self, events: EventBatch, until: int, new: np.ndarray) -> Iterator[FoundMatches]:
        if len(events):
            arrays = prepare_events(self.plan, self.needs, events.table, events.key)
            start = self._starts(events)
            for round_ in self._rounds(events, start, arrays, until, new):
                yield from (found for found in self._matches(events, arrays, round_) if len(found))
            self._hold(events, start, arrays, until)
        if until != END_OF_TIME:
            self.done = max(self.done, until)

    def _rounds(
        self, events: EventBatch, start: np.ndarray, arrays: EventArrays, until: int, new: np.ndarray
    ) -> Iterator[Round]:
        """Partitions together up to a number of rows; a large one in pieces of time, each with the window before it."""
        from_ = events.bounds
        groups = len(from_) - 1
        touched = np.ones(groups, np.bool_)
        if not self._waits and until != END_OF_TIME:
            touched = np.isin(events.key[from_[:-1]], new)
        at = 0
        while at < groups:
            size = self._round_rows
            if not touched[at]:
                at += 1
                continue
            last = at + 1
            while last < groups and touched[last] and from_[last + 1] - from_[at] <= size:
                last += 1
            if last == at + 1 and from_[last] - from_[at] > size:
                yield from self._pieces(events, start, arrays, int(from_[at]), int(from_[last]), until)
            else:
                yield Round(
                    from_[at : last + 1],
                    start,
                    events.time,
                    np.full(last - at, self.done, np.int64),
                    until,
                    arrays.bits,
                )
            at = last

    def _pieces(
        self, events: EventBatch, start: np.ndarray, arrays: EventArrays, low: int, high: int, until: int
    ) -> Iterator[Round]:
        """One partition's events in rounds; without a window all of them at once."""
        time = events.time[low:high]
        done, begin = self.done, low
        span = max(1, int(time[-1]) - int(time[0]))
        in_window = (high - low) * min(1.0, self.window / span)
        while self.window < joins.EVER:
            size = max(self._round_rows, int(LEAST_WINDOWS * in_window))
            at = int(np.searchsorted(time, done, side="right")) + size
            if at + size // 2 >= high - low or time[at] >= until:
                break
            cut = int(time[at])
            end = low + int(np.searchsorted(time, cut, side="right"))
            yield self._piece(events, start, arrays, begin, end, done, cut)
            done = cut
            begin = low + int(np.searchsorted(time, done - self._back, side="right"))
        yield self._piece(events, start, arrays, begin, high, done, until)

    def _piece(
        self, events: EventBatch, start: np.ndarray, arrays: EventArrays, low: int, high: int, done: int, until: int
    ) -> Round:
        return Round(
            np.array([low, high], np.int64), start, events.time, np.array([done], np.int64), until, arrays.bits
        )

    # ---- matching ----------------------------------------------------------------------------------------------------

    def _matches(self, events: EventBatch, arrays: EventArrays, round_: Round) -> Iterator[FoundMatches]:
        """All matches of a round, in halves where there are too many at once."""
        try:
            found = self._matches_at_once(events, arrays, round_)
        except TooManyRecords as many:
            self._fit_rounds(round_, self.spec.most_records)
            for half in self._halved(events, round_, many):
                yield from self._matches(events, arrays, half)
        else:
            yield found

    def _matches_at_once(self, events: EventBatch, arrays: EventArrays, round_: Round) -> FoundMatches:
        reduced = self._viable(round_)
        if self.plan.tree is None:
            return self._run_automaton(events, arrays, round_, reduced)
        physical = self.adaptation.plan_for(arrays, reduced)
        if physical.automaton:
            return self._run_automaton(events, arrays, round_, reduced)
        run = TreeRun(self.plan, physical, arrays, self._decidable(reduced), self.spec.most_records)
        found = run.matches()
        self.adaptation.note(run.counted, len(found.rows), run.events)
        self._fit_rounds(round_, max((one.records for one in run.counted), default=0))
        return FoundMatches(len(found.rows), partial(_flattened, self.plan, found))

    def _fit_rounds(self, round_: Round, records: int) -> None:
        """Rounds of fewer or more rows, after what one has made of its rows."""
        rows = int(round_.from_[-1] - round_.from_[0])
        size = min(self.spec.round_rows, int(rows * min(2.0, GOOD_RECORDS / max(records, 1))))
        if records > GOOD_RECORDS or size > self._round_rows:
            self._round_rows = max(1, size)

    def _viable(self, round_: Round) -> Round:
        """The round without events that no match can hold."""
        masks = self._chain
        skips_nothing = self.plan.strategy in (Strategy.ANY,)
        if len(masks) < 2 or not skips_nothing:
            return round_
        bits = np.empty_like(round_.bits)
        joins.viable(round_.bits, masks, round_.from_, round_.start, round_.end, self.window, True, bits)
        return Round(round_.from_, round_.start, round_.end, round_.done, round_.until, bits)

    def _decidable(self, round_: Round) -> Round:
        """A waiting round without single events that are only in matches of other rounds, by the start of a match."""
        if not self._waits or self.window == joins.EVER:
            return round_
        low, high = int(round_.from_[0]), int(round_.from_[-1])
        early, late = self._beyond(round_)
        bits = np.empty_like(round_.bits)
        bits[low:high] = round_.bits[low:high]
        bits[low:high][early] &= ~self._single
        bits[low:high][late] &= ~self._first
        return Round(round_.from_, round_.start, round_.end, round_.done, round_.until, bits)

    def _beyond(self, round_: Round) -> tuple[np.ndarray, np.ndarray]:
        """Of each event: would a match that starts with it be decided before a waiting round, or behind it?"""
        start = round_.start[int(round_.from_[0]) : int(round_.from_[-1])]
        least = np.maximum(round_.done, joins.NEVER + self.window) - self.window
        return start <= np.repeat(least, np.diff(round_.from_)), start > max(round_.until - self.window, joins.NEVER)

    def _halved(self, events: EventBatch, round_: Round, many: TooManyRecords) -> list[Round]:
        groups = len(round_.from_) - 1
        if groups > 1:
            half = groups // 2
            return [
                Round(
                    round_.from_[: half + 1], round_.start, round_.end, round_.done[:half], round_.until, round_.bits
                ),
                Round(round_.from_[half:], round_.start, round_.end, round_.done[half:], round_.until, round_.bits),
            ]
        low, high = int(round_.from_[0]), int(round_.from_[1])
        done = int(round_.done[0])
        time = round_.end[low:high]
        decided = time if not self._waits or self.window == joins.EVER else round_.start[low:high] + self.window
        ours = (decided > done) & (decided <= round_.until)
        cuts = np.unique(decided[ours])
        if len(cuts) < 2 or (self._waits and self.window == joins.EVER):
            raise self._explosion(events, low + int(np.argmax(ours)), many)
        cut = int(cuts[(len(cuts) - 1) // 2])
        middle = low + int(np.searchsorted(time, cut, side="right"))
        begin = low
        if self.window < joins.EVER:
            begin = low + int(np.searchsorted(time, max(cut - self._back, joins.NEVER), side="right"))
        return [
            Round(np.array([low, middle]), round_.start, round_.end, np.array([done]), cut, round_.bits),
            Round(np.array([begin, high]), round_.start, round_.end, np.array([cut]), round_.until, round_.bits),
        ]

    def _run_automaton(self, events: EventBatch, arrays: EventArrays, round_: Round, reduced: Round) -> FoundMatches:
        automaton = automaton_arrays(self.plan, arrays)
        most_events = self.spec.most_records * EVENTS_PER_RECORD
        starts = reduced.bits != 0
        first = np.bitwise_or.reduce(automaton.mask[automaton.start_states])
        if self.plan.strategy is not Strategy.ANY and len(self._chain) > 1 and not first & ~self._chain[0]:
            possible = np.zeros_like(round_.bits)
            joins.viable(round_.bits, self._chain, round_.from_, round_.start, round_.end, self.window, True, possible)
            starts = possible & first != 0
        if self._waits and self.window < joins.EVER:
            starts = self._starts_of_round(round_, starts)
        status, row, offsets, rows, variables = runs_kernel.runs(
            automaton, arrays.kernel_lanes, STRATEGIES[self.plan.strategy], reduced.bits, starts, round_.from_,
            round_.start, round_.end, self.window, round_.done, round_.until, self._waits, self.spec.step_budget,
            most_events,
        )  # fmt: skip
        if status == runs_kernel.TOO_MANY:
            raise TooManyRecords(most_events, "events in its matches")
        if status == runs_kernel.BUDGET_SPENT:
            raise self._budget_spent(events, int(row))
        self.adaptation.note([], len(offsets) - 1, {})
        self._fit_rounds(round_, len(offsets) - 1)
        return FoundMatches(len(offsets) - 1, lambda: (offsets, rows, variables))

    def _starts_of_round(self, round_: Round, starts: np.ndarray) -> np.ndarray:
        """Starts of matches that are decided in a waiting round; of events that last, the first may not begin first."""
        low, high = int(round_.from_[0]), int(round_.from_[-1])
        early, late = self._beyond(round_)
        out = np.empty_like(starts)
        out[low:high] = starts[low:high] & ~early
        if self.plan.times.start is None:
            out[low:high] &= ~late
        return out

    # ---- output and state ----------------------------------------------------------

    def _output(self, events: EventBatch, found: FoundMatches) -> pa.Table:
        """Matches as rows: their events, one after the other, are a table in which a match is a run of rows."""
        count = len(found.offsets) - 1
        schema = self.spec.output_schema
        if count == 0:
            return schema.empty_table()
        table = take(events.table, found.rows)
        prepared = prepare(self.plan, self.output_needs, table, np.zeros(len(found.rows), np.int64))
        lengths = np.diff(found.offsets)
        matches = Matches(
            np.full(count, MATCHED, np.uint8),
            found.offsets[:-1],
            lengths,
            np.ones(count, np.int64),
            found.offsets,
            found.variables,
            found.offsets[:-1],
            found.offsets[1:],
        )
        labels = np.arange(len(self.plan.variables), dtype=np.int64)
        path = PathLabels(labels, np.zeros(len(labels), np.bool_))
        return OutputAssembler(self.plan, schema, path, table, prepared, matches).table_of_matches()

    def _hold(self, events: EventBatch, start: np.ndarray, arrays: EventArrays, until: int) -> None:
        """Keep the events that a later match can hold."""
        if until == END_OF_TIME:
            self.held = None
            self._kept.select(np.zeros(0, np.int64))
            return
        keep = np.ones(len(events), np.bool_)
        if self.window < joins.EVER and until >= joins.NEVER + self._back:
            keep = events.time > until - self._back
        if self.plan.strategy in (Strategy.ANY, Strategy.NEXT):
            bits = arrays.bits
            if self.plan.strategy is Strategy.ANY and len(self._chain) > 1:
                bits = np.empty_like(arrays.bits)
                joins.viable(arrays.bits, self._chain, events.bounds, start, events.time, self.window, False, bits)
            keep &= bits != 0
        rows = np.flatnonzero(keep)
        rows = self._within_limit(events, rows)
        self._kept.select(rows)
        table = take(events.table.select(list(self.spec.input_columns)), rows)
        self.held = EventBatch(table, events.key[rows], events.time[rows])

    def _within_limit(self, events: EventBatch, rows: np.ndarray) -> np.ndarray:
        limit = self.spec.limit
        if limit is None or len(rows) == 0:
            return rows
        over, _ = limit.keys_beyond(events.key[rows])
        if len(over) == 0:
            return rows
        if not limit.give_up:
            first = rows[events.key[rows] == over[0]]
            raise self._error(
                events,
                int(first[0]),
                f"holds {len(first):,} events of its window; max_state_rows is {limit.rows:,}",
                "Shorten WITHIN, raise max_state_rows, or give such events up: when_full='drop'.",
            )
        self.given_up += len(over)
        return rows[~np.isin(events.key[rows], over)]

    # ---- errors ------------------------------------------------------------------------------------------------------

    def _error(self, events: EventBatch, row: int, what: str, hint: str) -> EpisodeDataError:
        query = self.plan.query
        names = dict.fromkeys([*self.plan.keys, self.plan.times.end])
        return EpisodeDataError(
            f"{events.values_at(row, names)} {what}.",
            source=query.source,
            position=query.pattern_span.start,
            length=query.pattern_span.end - query.pattern_span.start,
            hint=hint,
        )

    def _explosion(self, events: EventBatch, row: int, many: TooManyRecords) -> EpisodeDataError:
        return self._error(
            events,
            row,
            f"is in a window with more than {many.limit:,} {many.what}",
            "Shorten WITHIN, narrow the conditions, relate the events by [attribute], or use skip-till-next-match.",
        )

    def _budget_spent(self, events: EventBatch, row: int) -> EpisodeDataError:
        return self._error(
            events,
            row,
            f"starts more than {self.spec.step_budget:,} steps of matching (a closure under skip-till-any-match takes "
            "every choice of events)",
            "Shorten WITHIN, narrow the conditions, use skip-till-next-match, or raise Options(step_budget=…).",
        )


@dataclass
class FoundMatches:
    """Matches as lists of events with their variables: match i has events offsets[i]:offsets[i + 1] of `rows`.

    The lists are made when they are asked for.
    """

    count: int
    make: Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray]]

    def __len__(self) -> int:
        return self.count

    @cached_property
    def lists(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(offsets, rows, variables)"""
        return self.make()

    @property
    def offsets(self) -> np.ndarray:
        return self.lists[0]

    @property
    def rows(self) -> np.ndarray:
        return self.lists[1]

    @property
    def variables(self) -> np.ndarray:
        return self.lists[2]


def _flattened(plan: EventPlan, found: Found) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Single events and groups of each match, one after the other: (offsets, rows, variables)."""
    number = {name: index for index, name in enumerate(plan.variables)}
    count = len(found.rows)
    codes = np.array([number[name] for name in found.variables], np.int32)
    if not found.groups and (len(found.rows) == 0 or found.rows.min() >= 0):
        width = len(codes)
        return np.arange(count + 1, dtype=np.int64) * width, found.rows.reshape(-1), np.tile(codes, count)
    present = found.rows >= 0
    match = [np.nonzero(present)[0]]
    rows = [found.rows[present]]
    variables = [np.tile(codes, (count, 1))[present]]
    for name, (offsets, members) in found.groups.items():
        match.append(np.repeat(np.arange(count), np.diff(offsets)))
        rows.append(members)
        variables.append(np.full(len(members), number[name], np.int32))
    which = np.concatenate(match)
    order = np.argsort(which, kind="stable")
    offsets = np.searchsorted(which[order], np.arange(count + 1)).astype(np.int64)
    return offsets, np.concatenate(rows)[order], np.concatenate(variables)[order]


def _chain(plan: EventPlan) -> np.ndarray:
    """Places that every match fills, in order, as bits of variables."""
    bit = {name: 1 << number for number, name in enumerate(plan.variables)}
    places: list[tuple[str, ...]] = []
    if plan.tree is not None:
        places = [variables_of(place) for place in plan.tree.places] if isinstance(plan.tree, InSequence) else []
    elif plan.automaton is not None:
        places = [tuple(place) for place in plan.automaton.required]
    return np.array([sum(bit[name] for name in place) for place in places], np.uint64)
