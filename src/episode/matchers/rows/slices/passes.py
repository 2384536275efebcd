"""Row patterns whose matches are a chain, in slices of time: two passes.

1. The first pass follows the chain through a slice as if it entered at the first row of it: the slice's own chain. Then
   it follows the chain from every other place at which it may enter (where a match from before may leave off), until it
   joins the slice's own chain: mostly at once, and rarely beyond a few rows. This is the summary of the slice.
2. The second pass goes from summary to summary, so that it knows where the true chain enters its slice, and how many
   matches come before. The slice's own matches from the place of joining on are the true ones. The few before it are
   matched again, from rows that the first pass has handed on: the head of the slice.

Why it is exact: what is found from a start row does not depend on the chain (`overlap`), so that two chains which come
to one row are one from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from episode.matchers.columns import concat, from_bytes
from episode.matchers.rows.slices.found import events_of_key
from episode.matchers.rows.slices.own_chain import OwnChain
from episode.matchers.rows.slices.summary import Summary
from episode.matchers.rows.slices.true_chain import TrueChain
from episode.matchers.slicing import FAILURES, HEAD, RESULTS, Entry, SliceBounds, SlicePart

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec

_OUTPUT_ROWS = 1 << 16


def first_pass(spec: RowPatternSpec, tables: Iterable[pa.Table], bounds: SliceBounds) -> Iterator[SlicePart]:
    """What `Chained` says."""
    given = [table for table in tables if table.num_rows]
    if not given:
        return
    table = concat(given)
    given.clear()
    chain = OwnChain(spec, events_of_key(spec, table), bounds)
    del table
    for order, (kind, part) in enumerate(chain.parts()):
        yield SlicePart(kind, order, part)


def second_pass(spec: RowPatternSpec, parts: Iterable[SlicePart], entry: Entry) -> Iterator[pa.RecordBatch]:
    """What `Chained` says."""
    rest = iter(parts)
    summary = Summary.from_bytes(next(rest).blob)
    if entry.place >= summary.places:
        return
    chain = TrueChain(spec, summary, entry)
    head: list[SlicePart] = []
    for part in rest:
        if part.kind == RESULTS:
            yield from chain.corrected(from_bytes(part.blob)).to_batches(max_chunksize=_OUTPUT_ROWS)
        elif part.kind == HEAD and chain.joins > entry.place:
            head.append(part)
        elif part.kind == FAILURES:
            chain.check(from_bytes(part.blob))
    if head:
        rows = concat([from_bytes(part.blob) for part in sorted(head, key=lambda part: part.order)])
        for found in chain.first_matches(rows):
            yield from found.to_batches(max_chunksize=_OUTPUT_ROWS)
