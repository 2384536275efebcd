"""Situation patterns in process, under orders of search of our choice: what the experiments after TPStream's share.

Timed is feeding events in memory to the matcher, on one core: conditions, situations, matches, and what is held for
the next feed; with or without the output of matches. The clock counts the seconds that the core worked for this
process.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from bench.feeding import Clock, Fed, batches_of, feeds_of, median_parts, told_medians
from bench.harness import median
from episode.lang.situations.parser import parse_situation_query
from episode.matchers.protocol import EventBatch
from episode.matchers.situations import prepare as situation_prepare
from episode.matchers.situations.code.arrays import SituationShape
from episode.matchers.situations.matcher import SituationPatternMatcher
from episode.matchers.situations.prepare import shape_of
from episode.matchers.situations.spec import SituationPatternSpec
from episode.matchers.situations.values import SituationOutput
from episode.native.running import Compiled
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import EARLIEST, plan_situation_pattern

Forced = tuple[tuple[int, ...], ...]
"""For each symbol the order in which the others are searched."""
STEPS = ("prepare", "detect", "values", "hold")


@dataclass(frozen=True)
class Query:
    """A situation pattern over a table of events."""

    text: str
    types: dict[str, str]
    schema: pa.Schema
    keys: tuple[str, ...] = ()
    time: str = "ts"

    def spec(self, forced: Forced | None = None, detect: str = EARLIEST) -> SituationPatternSpec:
        query = parse_situation_query(self.text)
        plan = plan_situation_pattern(query, InputSchema(self.types), self.time, self.keys, detect == EARLIEST)
        return SituationPatternSpec(plan, self.schema, forced=forced)

    def batches(self, tables: Iterable[pa.Table]) -> list[EventBatch]:
        return batches_of(self.spec(), tables)

    def initial(self) -> Forced:
        """The orders that the engine begins with."""
        return tuple(map(tuple, self.spec().open().orders.orders.tolist()))

    def shown(self, order: Forced, symbols: Sequence[int]) -> str:
        """Orders as the paper writes them, C → B → A, of the symbols that begin a search."""
        names = self.spec().plan.symbols
        return "; ".join(" → ".join(names[at] for at in (first, *order[first])) for first in symbols)


@dataclass(frozen=True)
class Contender:
    """A way to run. delivered: are the matches put out, too? code: makes other code than the engine's, of a pattern's
    shape. before_feed: is given the matcher and the number of each feed."""

    name: str
    spec: SituationPatternSpec
    delivered: bool = False
    code: Callable[[SituationShape], Compiled] | None = None
    before_feed: Callable[[SituationPatternMatcher, int], None] | None = None


@dataclass(frozen=True)
class Measured(Fed):
    """steps: seconds of all feeds by step of the matcher."""

    steps: dict[str, float]
    matcher: SituationPatternMatcher

    @property
    def each(self) -> float:
        """Nanoseconds for each event."""
        return 1e9 / self.rate

    @property
    def searches(self) -> int:
        return int(self.matcher.orders.statistics["searches"].sum())


class _Counting(SituationOutput):
    """Counts matches instead of putting them out."""

    found = 0

    def table(self, feed: Any, symbols: Any, found: np.ndarray, rows: np.ndarray) -> pa.Table:
        self.found += len(found)
        return self.schema.empty_table()


@contextmanager
def _clocked(matcher: SituationPatternMatcher) -> Iterator[Clock]:
    """A matcher with a clock in its steps."""
    clock = Clock.of(*STEPS)
    kept = situation_prepare.prepare
    situation_prepare.prepare = clock.timed("prepare", kept)
    steps = (
        ("detect", matcher.detector, "detect"),
        ("values", matcher.output, "table"),
        ("hold", matcher.state, "hold"),
    )
    for step, part, name in steps:
        setattr(part, name, clock.timed(step, getattr(part, name)))
    try:
        yield clock
    finally:
        situation_prepare.prepare = kept


def run(contender: Contender, batches: Sequence[EventBatch], most: float = float("inf")) -> Measured:
    """Feed the batches one after the other; no other one after `most` seconds."""
    spec = contender.spec
    matcher = SituationPatternMatcher(spec)
    counting = _Counting(spec.plan, spec.output_schema, spec.input_schema)
    if not contender.delivered:
        matcher.output = counting
    parts: list[float] = []
    delivered = 0
    gc.collect()
    if contender.code is not None:
        matcher.detector.code = contender.code(shape_of(spec.plan, matcher.orders))
    with _clocked(matcher) as clock:
        for number, (batch, until) in enumerate(feeds_of(batches)):
            if contender.before_feed is not None:
                contender.before_feed(matcher, number)
            begin = time.process_time()
            for table in matcher.feed(batch, until):
                delivered += table.num_rows
            parts.append(time.process_time() - begin)
            if sum(parts) > most:
                break
    events = tuple(len(batch) for batch in batches[: len(parts)])
    matches = delivered if contender.delivered else counting.found
    return Measured(tuple(parts), events, matches, clock.seconds, matcher)


def side_by_side(
    contenders: Sequence[Contender], batches: Sequence[EventBatch], runs: int, setting: str, *, alike: bool = True
) -> dict[str, Measured]:
    """Every contender once without counting, then all in turns, forwards and backwards. alike: all must find as many
    matches."""
    taken: dict[str, list[Measured]] = {one.name: [] for one in contenders}
    expected = None
    for turn in range(runs + 1):
        for one in contenders if turn % 2 else reversed(contenders):
            measured = run(one, batches)
            expected = measured.matches if expected is None else expected
            if alike and measured.matches != expected:
                raise SystemExit(f"{setting}: {one.name} finds {measured.matches:,} matches, others {expected:,}")
            if turn:
                taken[one.name].append(measured)
    return told_medians(setting, taken, _medians)


def _medians(several: list[Measured]) -> Measured:
    steps = {step: median([one.steps[step] for one in several]) for step in STEPS}
    return replace(several[-1], parts=median_parts(several), steps=steps)


def matches_of(query: Query, batches: Sequence[EventBatch], detect: str) -> pa.Table:
    """All matches, as the matcher puts them out."""
    matcher = query.spec(detect=detect).open()
    tables = [table for batch, until in feeds_of(batches) for table in matcher.feed(batch, until)]
    return pa.concat_tables([query.spec().output_schema.empty_table(), *tables])
