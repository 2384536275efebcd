"""Slices of time in the batch runtime: whether an input is sliced, and how tasks match slices.

Units (shards, then slices) are shuffled to tasks by their numbers. If matches depend on earlier matches, there is a
second stage: the first finds the matches of every slice by itself, and a small summary of what depends on where the
slice is entered; the second has all summaries, and corrects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeUnsupportedError
from episode.matchers.columns import float_order, from_bytes, to_bytes
from episode.matchers.envelope import group_shards, unpack
from episode.matchers.ordering import has_lasting_image
from episode.matchers.protocol import MatcherSpec, OrderKey, Screens
from episode.matchers.shard import run_shard
from episode.matchers.slices.keys import Room, Sketch, Slice, SlicedKey, SlicedKeys, choose, largest_slice
from episode.matchers.slices.routing import trim_to_slice
from episode.matchers.slices.slicing import (
    SUMMARY,
    Chained,
    Entry,
    Overlap,
    Sliceable,
    SliceBounds,
    SlicePart,
    SliceSpec,
    Unsliced,
    sections_of,
)
from episode.plan.options import OFF
from episode.spark.packing import Stage
from episode.spark.scan.direct import ParquetScan, Split, reads_of_slices, row_bytes
from episode.spark.startup.workers import prepare_worker, spill_directory
from episode.words import DAY, count_of, exact_duration

LEAST_BYTES = 64 * 2**20
"""Smaller inputs are neither sampled nor sliced."""

PARTS = "to int, place int, unit int, section int, kind int, piece long, blob binary"
"""Output of the first stage for a section of a slice. to: the task of the second stage; place: summaries come first,
for all tasks that match slices of the key. Sorted by PARTS_ORDER."""

PARTS_ORDER = ("place", "unit", "section", "piece")

_PARTS = pa.schema(
    [
        *((name, pa.int32()) for name in ("to", "place", "unit", "section", "kind")),
        ("piece", pa.int64()),
        ("blob", pa.binary()),
    ]
)
_MATCHES = -1
"""The kind of parts that are matches already: those of shards."""
_FOR_ALL, _FOR_ONE = 0, 1
"""Places. The summary of a slice comes twice to the task that has it: among all, and first among its own parts."""
_FIRST_PIECE = -1


@dataclass(frozen=True)
class SlicePlan:
    """The sliced keys, if any. chained: whether there is a second stage. tasks: number of matching tasks. reasons: for
    explain. reads: the row groups of each slice, if slices read their rows themselves."""

    sliced: SlicedKeys | None
    reasons: tuple[str, ...]
    tasks: int = 1
    chained: bool = False
    reads: tuple[tuple[Split, ...], ...] | None = None


@dataclass(frozen=True)
class SliceInput:
    """Facts about an input, and its distribution if it is not sliced.

    sample: looks at some of its rows, or returns a reason why not; direct: without a job of Spark. bytes: of all
    events, about (None: unknown). scan: its files, if they are read directly. budget: bytes of events that a task holds
    at once.
    """

    sample: Callable[[], Sketch | str]
    direct: bool
    bytes: int | None
    scan: ParquetScan | None
    shards: int
    tasks: int
    cores: int
    budget: int


def plan_slices(spec: MatcherSpec, schema: pa.Schema, given: SliceInput, wanted: int | str) -> SlicePlan:
    """Decide whether the keys of an input are sliced. wanted: the option."""
    if wanted == OFF:
        return _none("switched off by Tuning(slices='off')")
    number = wanted if isinstance(wanted, int) else None
    barred = slicing_obstacle(spec, schema)
    if barred is not None:
        if number is not None:
            raise EpisodeUnsupportedError(
                f"Tuning(slices={number}): the rows of a key cannot be cut into slices of time: {barred}.",
                hint="Leave the option out: each key is matched by one task.",
            )
        return _none(barred)
    if number is None:
        if given.bytes is not None and given.bytes < LEAST_BYTES:
            return _none("the input is small")
        if not given.direct:
            ask = "Tuning(slices=8), for example, looks for large keys in a separate job"
            return _none(f"rows through Spark are not sampled unasked; {ask}")
        if given.cores < 2:
            return _none("there is one core")
    found = given.sample()
    if isinstance(found, str):
        return _none(found)
    return _choose_slices(spec, schema, found, given, number)


def slicing_obstacle(spec: MatcherSpec, schema: pa.Schema) -> str | None:
    """The reason why one task must match all rows of a key; None if they can be sliced."""
    if not isinstance(spec, Sliceable):
        return "patterns of this kind are not sliced"
    slicing = spec.slicing
    if isinstance(slicing, Unsliced):
        return slicing.reason
    order = spec.input_order.order
    if not order:
        return "there is no ORDER BY"
    column, kind = order[0].column, schema.field(order[0].column).type
    return None if has_lasting_image(kind) else f"rows are ordered by {column}, of type {kind}, and not by time"


def _choose_slices(
    spec: MatcherSpec, schema: pa.Schema, sketch: Sketch, given: SliceInput, wanted: int | None
) -> SlicePlan:
    assert isinstance(spec, Sliceable)
    slicing = spec.slicing
    assert not isinstance(slicing, Unsliced)
    keys = spec.input_order.keys
    room = Room(max(given.tasks, 2 * given.cores), given.bytes, wanted, given.budget)
    choice = choose(sketch, slicing.overlap, room)
    if not choice.keys:
        return _none(f"{choice.reason}; {sketch.words}")
    sliced = SlicedKeys(choice.keys, slicing.overlap, first=given.shards if keys else 0)
    order = spec.input_order.order[0]
    reasons = slice_words(sliced, order, schema.field(order.column).type, sketch.words)
    if slicing.chained:
        reasons.append("chain: a match may depend on those before it; a second stage follows them from slice to slice")
    size = largest_slice(sketch, choice.keys) * row_bytes(schema)
    if size > given.budget:
        reasons.append(large_slice_words(size, given.budget, slicing.chained))
    if keys:
        return SlicePlan(sliced, tuple(reasons), max(given.tasks, min(sliced.count, room.tasks)), slicing.chained)
    reads, scan = None, given.scan
    counted = slicing.overlap.before_rows or slicing.overlap.after_rows
    if scan is not None and not (counted and isinstance(spec, Screens) and spec.screen is not None):
        with suppress(OSError, ValueError, pa.ArrowException):  # the tasks that pack will report errors of the files
            reads = reads_of_slices(scan, order, sliced)
    if reads is not None:
        reasons.append("reading: files are in order of time; every slice reads its own row groups, none is shuffled")
    return SlicePlan(sliced, tuple(reasons), sliced.count, slicing.chained, reads)


def _none(reason: str) -> SlicePlan:
    return SlicePlan(None, (f"slices: none ({reason})",))


# ---- in the workers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Units:
    """Matching of a task's units. budget: bytes of events that one may hold; together: small shards are matched
    together up to this size. scan, reads: set if slices read their rows themselves."""

    spec: MatcherSpec
    sliced: SlicedKeys
    budget: int
    together: int
    scan: ParquetScan | None = None
    reads: tuple[tuple[Split, ...], ...] | None = None

    def split_units(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Slice | None, Iterator[pa.Table]]]:
        """(unit, slice, events) of each slice, and of groups of shards; each must be read to its end. batches: of
        envelopes, or of numbers of slices that read their rows themselves."""
        if self.reads is not None:
            assert self.scan is not None
            screen = self.spec.screen if isinstance(self.spec, Screens) else None
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                part = self.sliced.slice_of(number)
                assert part is not None
                wanted = self._trim(self.scan.read(self.reads[number]), part)
                yield number, part, wanted if screen is None else map(screen.passing, wanted)
            return
        shards = self.sliced.first - 1
        for unit, envelopes in groupby(unpack(batches), key=lambda envelope: max(envelope[0], shards)):
            part = self.sliced.slice_of(unit)
            if part is None:
                for group in group_shards(envelopes, self.together):
                    yield unit, None, group
            else:
                yield unit, part, self._trim((table for _, table in envelopes), part)

    def _trim(self, tables: Iterable[pa.Table], part: Slice) -> Iterator[pa.Table]:
        return trim_to_slice(tables, self.spec.input_order, part.bounds, self.sliced.overlap, self.budget)

    def sections(self, part: Slice, tables: Iterable[pa.Table]) -> Iterator[tuple[SliceBounds, list[pa.Table]]]:
        """A slice of a chain in parts that fit the budget."""
        order, overlap = self.spec.input_order, self.sliced.overlap
        return sections_of(tables, order, part.bounds, overlap, self.budget, spill_directory=spill_directory())

    def matches(self, part: Slice | None, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        spec = self.spec if part is None else SliceSpec(self.spec, part.bounds)  # type: ignore[arg-type]
        yield from run_shard(spec, tables, self.budget, spill_directory=spill_directory())


def match_units(units: Units) -> Stage:
    """Matches of shards and slices."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for _, part, tables in units.split_units(batches):
            yield from units.matches(part, tables)

    return stage


def match_alone(units: Units, tasks: int) -> Stage:
    """The first stage of a chain: matches of shards, and what slices would match by themselves."""
    spec, sliced = units.spec, units.sliced
    assert isinstance(spec, Chained)
    readers = [sorted({unit % tasks for unit in sliced.units_of(key)}) for key in range(len(sliced.keys))]

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for unit, part, tables in units.split_units(batches):
            to = unit % tasks
            if part is None:
                for piece, matches in enumerate(units.matches(None, tables)):
                    made = SlicePart(_MATCHES, piece, to_bytes(pa.Table.from_batches([matches])))
                    yield _row([to], _FOR_ONE, unit, 0, made)
                continue
            for section, (bounds, some) in enumerate(units.sections(part, tables)):
                for made in spec.first_pass(some, bounds):
                    if made.kind == SUMMARY:
                        yield _row(readers[part.key], _FOR_ALL, unit, section, made)
                        made = made._replace(order=_FIRST_PIECE)
                    yield _row([to], _FOR_ONE, unit, section, made)

    return stage


def _row(to: list[int], place: int, unit: int, section: int, part: SlicePart) -> pa.RecordBatch:
    """A part, once for each task that is to have it."""
    values = [place, unit, section, part.kind, part.order, part.blob]
    columns = [pa.array([value] * len(to), field.type) for value, field in zip(values, list(_PARTS)[1:], strict=True)]
    return pa.RecordBatch.from_arrays([pa.array(to, pa.int32()), *columns], schema=_PARTS)


def follow_chain(units: Units, tasks: int) -> Stage:
    """The second stage: the matches of shards as they are, and those of slices that the chain of matches has."""
    spec, sliced = units.spec, units.sliced
    assert isinstance(spec, Chained)

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        entries: dict[tuple[int, int], Entry] = {}
        for (unit, section), parts in groupby(_parts(batches, units, tasks, entries), key=itemgetter(0)):
            own = (part for _, part in parts)
            if unit < sliced.first:
                for part in own:
                    yield from from_bytes(part.blob).to_batches()
            else:
                yield from spec.second_pass(own, entries.pop((unit, section)))

    return stage


def _parts(
    batches: Iterator[pa.RecordBatch], units: Units, tasks: int, entries: dict[tuple[int, int], Entry]
) -> Iterator[tuple[tuple[int, int], SlicePart]]:
    """(unit and section, part) of what is for this task alone. Summaries for all come before it, key by key and in
    order of time: the chains of all keys are followed from one to the next.

    entries: filled with where chains come into the slices of this task, by unit and section. Of summaries, nothing else
    is kept.
    """
    assert isinstance(units.spec, Chained)
    key, entry = -1, Entry()
    for batch in batches:
        names = ("to", "place", "unit", "section", "kind", "piece")
        numbers = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        for (to, place, unit, section, kind, piece), value in zip(numbers, batch.column("blob"), strict=True):
            blob = value.as_buffer().to_pybytes()
            if place != _FOR_ALL:
                yield (unit, section), SlicePart(kind, piece, blob)
                continue
            part = units.sliced.slice_of(unit)
            assert part is not None
            if part.key != key:
                key, entry = part.key, Entry()
            if unit % tasks == to:
                entries[unit, section] = entry
            entry = units.spec.next_entry(entry, blob)


# Slices of time in words, for explain.

_SHOWN_CUTS, _SHOWN_KEYS = 4, 5
_EPOCH = datetime(1970, 1, 1)


def slice_words(sliced: SlicedKeys, order: OrderKey, kind: pa.DataType, seen: str) -> list[str]:
    """Describe the cut keys, their slices and overlaps, and the source of these facts."""
    lines = [f"slices: {_key_words(key, order, kind)}" for key in sliced.keys[:_SHOWN_KEYS]]
    if len(sliced.keys) > _SHOWN_KEYS:
        lines.append(f"slices: {len(sliced.keys) - _SHOWN_KEYS:,} more keys, {sliced.count:,} slices in all")
    lines.append(f"overlap: {_overlap_words(sliced.overlap, kind)}")
    lines.append(f"sketch: {seen}; by it, keys and cuts were chosen")
    return lines


def large_slice_words(size: float, budget: int, chained: bool) -> str:
    """Describe the treatment of slices that are larger than a task's budget."""
    large, held = f"{size / 2**20:,.3g} MiB", f"{budget / 2**20:,.3g} MiB"
    how = "cut further by its task" if chained else "matched piece by piece"
    return f"memory: a slice has up to {large} of events, a task holds {held} at once: it is spilled, and {how}"


def _key_words(key: SlicedKey, order: OrderKey, kind: pa.DataType) -> str:
    cuts = [time_words(cut, order, kind) for cut in key.cuts]
    shown = cuts if len(cuts) <= _SHOWN_CUTS else [*cuts[: _SHOWN_CUTS - 1], "…", cuts[-1]]
    whole = f"{key.name} (about {key.share:.0%} of the rows)" if key.name else "all rows"
    return f"{whole} in {key.slices:,} slices of time, cut at {', '.join(shown)}"


def _overlap_words(overlap: Overlap, kind: pa.DataType) -> str:
    parts = []
    for time, rows, side in (
        (overlap.before_time, overlap.before_rows, "before"),
        (overlap.after_time, overlap.after_rows, "after"),
    ):
        found = [span_words(time, kind)] if time else []
        found += [count_of(rows, "row")] if rows else []
        if found:
            parts.append(f"{' and '.join(found)} {side} it")
    if not parts:
        return "none: matches of a slice depend on its own rows alone"
    return f"a slice is matched with {', '.join(parts)}: so far its matches may depend on rows of other slices"


def span_words(span: int, kind: pa.DataType) -> str:
    """A length of time; a number, where time is one."""
    if not pa.types.is_temporal(kind):
        return f"{span:,}"
    return exact_duration(span)


def time_words(image: int, order: OrderKey, kind: pa.DataType) -> str:
    """The value of an order column that has this image."""
    value = image if order.ascending else ~image
    if pa.types.is_floating(kind):
        return f"{float_order(np.array([value])).view(np.float64)[0]:g}"
    if pa.types.is_decimal(kind):
        return str(Decimal(value).scaleb(-kind.scale))
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        return str(value)
    try:
        moment = _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return f"{value:,} microseconds"
    if pa.types.is_date32(kind) and value % DAY == 0:
        return str(moment.date())
    return f"{moment}{' UTC' if kind.tz is not None else ''}"
