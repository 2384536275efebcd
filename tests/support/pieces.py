"""Feeding a Matcher piece by piece, without Spark: what event patterns and situation patterns share."""

from __future__ import annotations

import pyarrow as pa

from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import MatcherSpec, StateChunk


def outputs_of_pieces(spec: MatcherSpec, pieces: list[tuple[pa.Table, int]], restore: bool) -> list[pa.Table]:
    """What the matcher puts out for each piece and at the end; restore: its state is written and read between them.

    A piece: its rows, and the time up to which they are complete.
    """
    matcher, coder = spec.open(), KeyCoder(spec.input_order.keys)
    state: dict[str, StateChunk] = {}
    outputs = []
    for number, (rows, until) in enumerate(pieces):
        table = rows.select(list(spec.input_columns))
        if table.num_rows:
            outputs.append(matcher.feed(events_of(table, spec.input_order, coder), until))
        if restore and number < len(pieces) - 1:
            matcher.snapshot().apply(state)
            matcher = spec.open()
            matcher.restore(list(state.values()))
    return [*outputs, matcher.finish()]
