"""Event patterns in process, under plans of our choice: what the experiments after ZStream's evaluation share.

Timed is finding the matches of events in memory, without delivering them (as in the paper, section 6), on one core; the
clock counts the seconds that the core worked for this process.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from bench.feeding import Clock, Fed, batches_of, feeds_of, median_parts, told_medians
from bench.harness import median
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import classes_of
from episode.matchers.events import matcher as event_pattern
from episode.matchers.events.matcher import EventPatternMatcher
from episode.matchers.events.spec import EventPatternSpec
from episode.plan.events.classes import EventClasses
from episode.plan.events.cost import PhysicalPlan, Shape, Statistics, cost_of, left_deep
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.events.tree import InSequence, variables_of
from episode.plan.schema import InputSchema

AUTOMATON, CHOSEN = "NFA", "chosen"
PREPARE = "prepare"


@dataclass(frozen=True)
class Query:
    """An event pattern over a table of events whose type and time are in these columns."""

    text: str
    types: dict[str, str]
    schema: pa.Schema
    type_column: str
    time: str = "ts"

    @property
    def plan(self) -> EventPlan:
        query = parse_event_query(self.text)
        classes = EventClasses(
            query,
            InputSchema(self.types),
            self.type_column,
            {},
            {one.variable: one for one in classes_of(query.pattern)},
        )
        return plan_event_pattern(query, classes, EventTimes(self.time, None, "bigint"), (), None)


@dataclass(frozen=True)
class Contender:
    """A plan to run under; `forced` None: the one that the engine chooses."""

    name: str
    spec: EventPatternSpec

    @property
    def physical(self) -> PhysicalPlan | None:
        return self.spec.forced


@dataclass(frozen=True)
class Measured(Fed):
    """preparing: seconds that went into columns and conditions on single events, which all plans share."""

    preparing: float
    matcher: EventPatternMatcher

    @property
    def matching(self) -> float:
        return self.seconds - self.preparing

    @property
    def counted(self) -> tuple[int, int]:
        """Pairs that the joins of a tree tried, and records that they put out."""
        counted = self.matcher.adaptation.counted.values()
        return sum(tried for tried, _ in counted), sum(records for _, records in counted)


# ---- plans -----------------------------------------------------------------------------------------------


def tree_of(query: Query, shape: Shape, name: str, *, on_top: bool = False) -> Contender:
    plan = query.plan
    assert plan.tree is not None
    return Contender(
        name, EventPatternSpec(plan, query.schema, forced=PhysicalPlan(False, ((plan.tree, shape),), 0.0, on_top))
    )


def automaton_of(query: Query) -> Contender:
    plan = query.plan
    assert isinstance(plan.tree, InSequence)
    shapes = ((plan.tree, left_deep(len(plan.tree.places))),)
    return Contender(AUTOMATON, EventPatternSpec(plan, query.schema, forced=PhysicalPlan(True, shapes, 0.0)))


def chosen_of(query: Query) -> Contender:
    return Contender(CHOSEN, EventPatternSpec(query.plan, query.schema))


def shown(query: Query, physical: PhysicalPlan) -> str:
    """A plan as the paper writes it: [[IBM; Sun]; Oracle]."""
    plan = query.plan
    assert isinstance(plan.tree, InSequence)
    if physical.automaton:
        return AUTOMATON
    names = [" | ".join(variables_of(place)) for place in plan.tree.places]

    def text(shape: Shape) -> str:
        return names[shape] if isinstance(shape, int) else f"[{text(shape[0])}; {text(shape[1])}]"

    return text(physical.shapes[-1][1])


def estimated(contender: Contender, statistics: Statistics) -> float:
    """The cost of a contender's plan by the cost model, per window."""
    assert contender.physical is not None
    return cost_of(contender.spec.plan, statistics, contender.physical)


# ---- running ---------------------------------------------------------------------------------------------


def run(contender: Contender, tables: Sequence[pa.Table]) -> Measured:
    """Feed the tables one after the other."""
    batches = batches_of(contender.spec, tables)
    matcher, parts, matches = contender.spec.open(), [], 0
    gc.collect()
    with _clocked() as clock:
        for batch, until in feeds_of(batches):
            begin = time.process_time()
            for _, found in matcher.matches_in(batch, until):
                matches += len(found)
            parts.append(time.process_time() - begin)
    return Measured(tuple(parts), tuple(map(len, batches)), matches, clock.seconds[PREPARE], matcher)


@contextmanager
def _clocked() -> Iterator[Clock]:
    """A clock for the preparing of batches."""
    clock, kept = Clock.of(PREPARE), event_pattern.prepare_events
    event_pattern.prepare_events = clock.timed(PREPARE, kept)
    try:
        yield clock
    finally:
        event_pattern.prepare_events = kept


def side_by_side(
    contenders: Sequence[Contender], tables: Sequence[pa.Table], runs: int, setting: str, few: int | None = None
) -> dict[str, Measured]:
    """Every contender once without counting, then all in turns. All must find as many matches.

    few: the automaton, which is slower, gets only so many events of each table.
    """
    cut = [table.slice(0, few) for table in tables]
    feeds = {one.name: cut if one.name == AUTOMATON else tables for one in contenders}
    expected = {id(tables): run(contenders[0], tables).matches, id(cut): run(contenders[0], cut).matches}
    taken: dict[str, list[Measured]] = {one.name: [] for one in contenders}
    for turn in range(runs + 1):
        for one in contenders:
            measured = run(one, feeds[one.name])
            if measured.matches != expected[id(feeds[one.name])]:
                wanted = expected[id(feeds[one.name])]
                raise SystemExit(f"{setting}: {contenders[0].name} {wanted:,} matches, {one.name} {measured.matches:,}")
            if turn:
                taken[one.name].append(measured)
    return told_medians(setting, taken, _medians)


def _medians(several: list[Measured]) -> Measured:
    preparing = median([one.preparing for one in several])
    return replace(several[-1], parts=median_parts(several), preparing=preparing)


# ---- memory ----------------------------------------------------------------------------------------------


def peak_memory(contender: Contender, tables: Sequence[pa.Table]) -> int:
    """Bytes by which a process grows at the most while it matches; in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_grow, args=(contender, tables, sending))
    process.start()
    size = receiving.recv()
    process.join()
    return size


def _grow(contender: Contender, tables: Sequence[pa.Table], sending) -> None:  # type: ignore[no-untyped-def]
    run(contender, [table.slice(0, 200) for table in tables[:1]])
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed memory that is kept for later would hide what is needed
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = _status("VmRSS")
    run(contender, tables)
    sending.send(max(0, _status("VmHWM") - before))


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
