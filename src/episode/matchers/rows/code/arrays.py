"""The arrays that the code of a row pattern works on, by name: those of `matchers.rows.arrays`, row after row.

Numbers that differ from query to query or from feed to feed, and are not a part of the code, are in `settings`.
"""

from __future__ import annotations

from episode.native.scope import ArrayTypes
from episode.native.types import F64, I32, I64, U8, U64, Type

(UNTIL, WITHIN, LOOKAHEAD, BUDGET, PATIENCE, REACH, LOOKBACK, ROWS, AGGREGATE_ROWS, ALLOWED, MOST_SIFTED) = range(11)
"""Places of `settings`: rows up to this time are all here; the numbers of `Rules` and `Frames`; how many rows a lane
(ints, floats, valid) has, and how many columns a running aggregate (agg_i, agg_f, agg_m, agg_n) has; the steps that all
start rows together may take beyond those that rows account for; the rows that sieves may look through."""
SETTINGS = 11

_READ: dict[str, Type] = {
    # the batch; lanes of the same number of rows
    "bits": U64, "time": I64, "key": I64, "ints": I64, "floats": F64, "valid": U8, "const_i": I64, "const_f": F64,
    # the query
    "settings": I64, "code": I64, "label_of": I64, "required": U64, "loop_from": I64, "loop_ids": I32,
    # partitions
    "key_lo": I64, "key_hi": I64, "at_start": U8,
}  # fmt: skip

_WRITTEN: dict[str, Type] = {
    # partitions
    "next_start": I64, "numbers": I64, "covered": I64, "explored_start": I64, "explored_to": I64,
    # attempts and ways that wait: opened[field, partition], marks[mark, partition], sought[required, partition],
    # ways[way, field], way_values[way, field], turns[turn, 3]
    "opened": I64, "marks": I64, "sought": I64, "ways": I64, "way_values": F64, "turns": I64,
    # matches
    "out_kind": U8, "out_start": I64, "out_length": I64, "out_number": I64, "out_path_from": I64, "out_path": I32,
    # the search; agg_*[aggregate, column], counts[instruction, again, rows that came or failed]
    "cursor": I64, "stack_pc": I32, "stack_row": I64, "stack_low": I64, "path": I32, "best": I32, "previous": I64,
    "memo": I64, "seen_end": I64, "end_taken": I64, "pending": I64, "agg_i": I64, "agg_f": F64, "agg_m": F64,
    "agg_n": I64, "counts": I64,
    # of one call: last_row, first_row by label and loop_rows by loop, if they are handed to a function; the others have
    # places by name in the modules that use them
    "last_row": I64, "first_row": I64, "loop_rows": I64,
    "rare": I64, "seek": I64, "frame_place": I64, "arrived": I64, "arrival_loops": I64, "ordered": I64,
    "copied": I32,
}  # fmt: skip

TYPES: ArrayTypes = {name: (type_, False) for name, type_ in _READ.items()} | {
    name: (type_, True) for name, type_ in _WRITTEN.items()
}
