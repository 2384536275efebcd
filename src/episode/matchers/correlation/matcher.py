"""The correlation Matcher: two patterns on one shard, joined by recency, in batch and in a stream.

A round evaluates both patterns over new events, by the strategy that is thought to be cheapest, joins the matches that
are new with each other and with those that are kept, and then keeps the matches that a match to come may be a pair
with. A feed is one round; in a batch, groups of keys are rounds. The strategy may change between any two rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes
from episode.matchers.correlation import regions
from episode.matchers.correlation.archive import Past
from episode.matchers.correlation.demand import DemandedSide
from episode.matchers.correlation.join import MatchJoin, PairOutput
from episode.matchers.correlation.matches import SideMatches
from episode.matchers.correlation.recent import OlderRows
from episode.matchers.correlation.regions import RegionDemands
from episode.matchers.correlation.side import RecencySide, rounds_of, with_prefix, without_prefix
from episode.matchers.correlation.strategies import RecencyAdaptation, RecencyRound, unavailable
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.slices.slicing import ALL_TIMES, SliceBounds
from episode.matchers.state import by_name, chunk_of
from episode.matchers.times import EVER, NEVER, window_ends, window_starts
from episode.plan.correlation.pairs import ARCHIVE_ROW, LIVE_ROW
from episode.plan.correlation.plan import CorrelationReport, CorrelationStrategy

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec

_STATE = "correlation"


class CorrelationMatcher:
    """Two patterns and their join at work on one shard; or on a slice of it: live matches end there then."""

    def __init__(self, spec: CorrelationSpec, bounds: SliceBounds = ALL_TIMES) -> None:
        self.spec = spec
        cached, barred = spec.plan.result_cache, unavailable(spec)
        self.live, self.archive = RecencySide(spec, spec.live, LIVE_ROW), RecencySide(spec, spec.archive, ARCHIVE_ROW)
        if CorrelationStrategy.ARCHIVE_FIRST not in barred:
            self.live = DemandedSide(spec, spec.live, LIVE_ROW, cached)
        if CorrelationStrategy.LIVE_FIRST not in barred:
            self.archive = DemandedSide(spec, spec.archive, ARCHIVE_ROW, cached)
        self.live.ending = bounds
        self.adaptation = RecencyAdaptation(spec.plan, [one for one in CorrelationStrategy if one not in barred])
        self.strategy = CorrelationStrategy.EAGER
        output = PairOutput(spec.output_schema, spec.archive.start, spec.live.end)
        self.join = MatchJoin(
            output, self.live.schema, self.archive.schema, spec.recency, spec.plan.ordered, spec.tests
        )
        self.past = None
        if spec.history is not None:
            self.past = Past(spec, self.archive.events.outer, self.archive.traits)
            if isinstance(self.archive, DemandedSide):
                self.archive.answers.older = OlderRows(self.past, spec.plan.recent_buffer)
        self.until = NEVER
        self._buffering = 0.0

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for part, complete in rounds_of(events, until, self.state_rows == 0, self.adaptation.chooses):
            yield from self._round(part, complete)

    def finish(self) -> Iterator[pa.Table]:
        yield from self.feed(EventBatch.empty(self.spec.input_schema, self.spec.input_columns), END_OF_TIME)

    def snapshot(self) -> Snapshot:
        parts = [with_prefix(self.live.snapshot(), "live."), with_prefix(self.archive.snapshot(), "archive.")]
        own = chunk_of(_STATE, pa.table({"strategy": [self.strategy.value], "until": [self.until]}))
        parts += [self.join.snapshot(), Snapshot((own,) if self.past is None else (own, self.past.chunk()))]
        put = tuple(chunk for part in parts for chunk in part.put)
        return Snapshot(put, tuple(name for part in parts for name in part.removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name([chunk for chunk in chunks if chunk.name == _STATE])
        if known:
            table = from_bytes(known[_STATE].data)
            self.strategy = CorrelationStrategy(table.column("strategy")[0].as_py())
            self.until = table.column("until")[0].as_py()
            if self.spec.plan.strategy is None:
                self.adaptation.strategy = self.strategy
        self.live.restore(without_prefix(chunks, "live."))
        self.archive.restore(without_prefix(chunks, "archive."))
        self.join.restore(chunks)
        if self.past is not None:
            self.past.restore(chunks)

    def report(self) -> CorrelationReport:
        return self.adaptation.report()

    @property
    def keyed(self) -> bool:
        return self.join.output.keyed

    @keyed.setter
    def keyed(self, keyed: bool) -> None:
        self.join.output.keyed = keyed

    @property
    def state_rows(self) -> int:
        """Events, and matches that are kept."""
        return self.live.state_rows + self.archive.state_rows + len(self.join)

    @property
    def given_up(self) -> int:
        return self.live.matcher.given_up + self.archive.matcher.given_up

    @property
    def live_keys(self) -> np.ndarray:
        return self._held_keys() if self.past is None else np.union1d(self._held_keys(), self.past.key)

    def _held_keys(self) -> np.ndarray:
        return np.unique(np.concatenate([self.live.live_keys, self.archive.live_keys, self.join.keys]))

    @property
    def wakes_at(self) -> int | None:
        """When either pattern could give a match; where pairs come in order, when none can come before one any more."""
        wakes = [self.live.matcher.wakes_at, self.archive.matcher.wakes_at, self.join.wakes_at]
        return min((one for one in wakes if one is not None), default=None)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """A pair starts with its archive match: one that is kept, or one to come."""
        keys = self.live_keys
        return keys, np.minimum(self.archive.starts_from(keys, END_OF_TIME), self.join.first_kept(keys))

    def _round(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        round_ = RecencyRound(len(events))
        self._switch()
        live, archive = self.live.events.rows_of(events), self.archive.events.rows_of(events)
        if self.past is not None:
            archive = self.past.supply(events, archive, until, self.strategy is CorrelationStrategy.LIVE_FIRST)
        evaluate = self._eager if self.strategy is CorrelationStrategy.EAGER else self._on_demand
        yield from evaluate(live, archive, until, round_)
        began = thread_time()
        self._expire(until)
        self.until = self.until if until == END_OF_TIME else max(self.until, until)
        round_.join += thread_time() - began
        self.adaptation.note(round_, self.strategy)
        buffered = sum(len(side.recent) for side in (self.live, self.archive) if isinstance(side, DemandedSide))
        self.adaptation.hold(buffered, len(self.join), 0 if self.past is None else self.past.reader.rows)

    def _switch(self) -> None:
        """Take the strategy that was chosen; what is asked for and not found yet, is found in any case."""
        wanted = self.adaptation.strategy
        begun = self.until > NEVER or self.state_rows > 0
        if wanted is self.strategy or (begun and not self.spec.plan.result_cache):
            return  # without the cache nothing records what is known already
        for strategy, least in (
            (CorrelationStrategy.LIVE_FIRST, self._least_start),
            (CorrelationStrategy.ARCHIVE_FIRST, self._least_end),
        ):
            side = self._second(strategy)
            if side is not None and wanted is not strategy:
                side.take_all(partial(least, until=self.until))
        second = self._second(wanted)
        if second is not None:
            second.take_some(self.until, self.join.keys, self.join.last_wanted)
        self.strategy = wanted
        self._buffering = 0.0 if second is None else second.buffering

    def _second(self, strategy: CorrelationStrategy) -> DemandedSide | None:
        """The side of which a strategy finds only the matches that the other asks for."""
        side = self.archive if strategy is CorrelationStrategy.LIVE_FIRST else self.live
        return side if isinstance(side, DemandedSide) and strategy is not CorrelationStrategy.EAGER else None

    def _eager(
        self, live_rows: EventBatch, archive_rows: EventBatch, until: int, round_: RecencyRound
    ) -> Iterator[pa.Table]:
        live = self._timed_feed(self.live, live_rows, until, round_, "live")
        archive = self._timed_feed(self.archive, archive_rows, self._archive_until(until), round_, "archive")
        if self.adaptation.counts_regions:
            for strategy, rows, demands in (
                (CorrelationStrategy.LIVE_FIRST, archive_rows, self._asked_by_live(live)),
                (CorrelationStrategy.ARCHIVE_FIRST, live_rows, self._asked_by_archive(archive)),
            ):
                round_.regions[strategy] = _extent(rows, demands)
        yield from self._join_matches(live, archive, until, round_)

    def _on_demand(
        self, live_rows: EventBatch, archive_rows: EventBatch, until: int, round_: RecencyRound
    ) -> Iterator[pa.Table]:
        """All matches of one pattern, and the matches of the other in their regions."""
        live_first = self.strategy is CorrelationStrategy.LIVE_FIRST
        second = self._second(self.strategy)
        assert second is not None
        if live_first:
            found = self._timed_feed(self.live, live_rows, until, round_, "live")
            rows, demands, kept, least = archive_rows, self._asked_by_live(found), self.join.live, self._least_start
        else:
            found = self._timed_feed(self.archive, archive_rows, self._archive_until(until), round_, "archive")
            rows, demands, kept, least = live_rows, self._asked_by_archive(found), self.join.archive, self._least_end
        before, began, fed = second.buffering, thread_time(), second.answers.fed_rows
        asked, ids = second.answer(rows, until, demands)
        round_.asked += thread_time() - began - (second.buffering - before)
        round_.asked_rows += second.answers.fed_rows - fed
        live, archive = (found, asked) if live_first else (asked, found)
        round_.live_matches, round_.archive_matches = len(live), len(archive)
        if second.cached:
            yield from self._join_matches(live, archive, until, round_)
        else:  # each match has its own partners: both have the number of the segment as their key
            kept.add(replace(found, key=ids))
            live, archive = (kept.matches, archive) if live_first else (live, kept.matches)
            yield from self._time_join(self.join.own(live, archive), round_)
        second.trim(until, partial(least, until=until))
        round_.buffering, self._buffering = second.buffering - self._buffering, second.buffering

    def _join_matches(
        self, live: SideMatches, archive: SideMatches, until: int, round_: RecencyRound
    ) -> Iterator[pa.Table]:
        yield from self._time_join(self.join.add(live, archive), round_)
        kept = self.join.archive.matches.key
        if self.spec.plan.ordered:
            starts, ends = self._archive_starts(kept, until), self.live.ends_from(kept, until)
            yield from self._time_join(self.join.emit_ordered(starts, ends), round_)

    def _expire(self, until: int) -> None:
        """Keep only matches that a match to come may be a pair with, and only keys that something is held of."""
        if until == END_OF_TIME:
            self.join.forget()
            return
        if self.past is not None:
            self.past.forget(until, self._held_keys())
        second = self._second(self.strategy)
        if second is not None and not second.cached:  # those whose segments are not decided: each has its own
            kept = self.join.live if second is self.archive else self.join.archive
            kept.keep(np.isin(kept.matches.key, second.answers.segments.id))
        else:
            keys = self.join.archive.matches.key
            self.join.expire(self._archive_starts(keys, until), self.live.ends_from(keys, until))
            self.join.expire_live(self._archive_starts(self.join.live.matches.key, until))
        self.live.forget_keys()
        self.archive.forget_keys()

    def _asked_by_live(self, live: SideMatches) -> RegionDemands:
        """Starts in the regions of live matches."""
        return RegionDemands(live.key, window_starts(live.end, self.spec.recency), live.start)

    def _asked_by_archive(self, archive: SideMatches) -> RegionDemands:
        """Ends in the regions of archive matches."""
        after = np.minimum(archive.start, EVER - 1) + 1
        return RegionDemands(archive.key, after, window_ends(after, self.spec.recency))

    def _least_start(self, keys: np.ndarray, until: int) -> np.ndarray:
        """The first start that live matches to come may ask for."""
        return window_starts(self.live.ends_from(keys, until), self.spec.recency)

    def _least_end(self, keys: np.ndarray, until: int) -> np.ndarray:
        """The first end that archive matches to come may ask for."""
        return np.minimum(self._archive_starts(keys, until), EVER - 1) + 1

    def _archive_until(self, until: int) -> int:
        """A table that is read along has no more rows to come when it is at its end."""
        return END_OF_TIME if self.past is not None and self.past.complete else until

    def _archive_starts(self, keys: np.ndarray, until: int) -> np.ndarray:
        """For each key: no archive match to come starts before this time."""
        return self.archive.starts_from(keys, self._archive_until(until))

    def _timed_feed(
        self, side: RecencySide, rows: EventBatch, until: int, round_: RecencyRound, name: str
    ) -> SideMatches:
        began = thread_time()
        found = side.feed(rows, until)
        setattr(round_, name, getattr(round_, name) + thread_time() - began)
        setattr(round_, f"{name}_matches", len(found))
        return found

    def _time_join(self, tables: Iterator[pa.Table], round_: RecencyRound) -> Iterator[pa.Table]:
        while True:
            began = thread_time()
            table = next(tables, None)
            round_.join += thread_time() - began
            if table is None:
                return
            round_.pairs += table.num_rows
            yield table


def _extent(rows: EventBatch, demands: RegionDemands) -> tuple[int, int]:
    """Rows of regions, in all and in their union."""
    keys = rows.key[rows.bounds[:-1]]
    order = np.argsort(keys, kind="stable")
    known = demands.select(np.flatnonzero(np.isin(demands.key, keys)))
    known = known.select(np.lexsort((known.lo, known.key)))
    number = np.searchsorted(keys[order], known.key)
    first, last = rows.bounds[:-1][order], rows.bounds[1:][order]
    return regions.extent(number, known, first, last, rows.time)
