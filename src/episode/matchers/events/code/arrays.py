"""The arrays that the code of event patterns works on, by name, matrices row after row; and functions of this code.

Numbers that differ from query to query or from round to round, and are not part of the code, are in `settings`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from episode.native.builder import ArrayTypes
from episode.native.ir import F64, I32, I64, U8, U64, Type

(ROWS, WINDOW, LIMIT, BUDGET, UNTIL, NTH, MOST, LEVELS) = range(8)
"""Places of `settings`: the number of rows of a lane (ints, floats, valid); the window; the most records and steps; the
time up to which matches are certain; the number of the record that is looked for, and the most events (see `between`);
the levels of a term (see `bound_terms`)."""
SETTINGS = 8

_READ: dict[str, Type] = {
    # the batch: lanes of the same number of rows, times and variables of rows
    "key": I64, "ints": I64, "floats": F64, "valid": U8, "const_i": I64, "const_f": F64,
    "bits": U64, "start": I64, "end": I64,
    "settings": I64,
    # records of the left and the right side: those of partition g are l_lo[g]:l_hi[g], sorted by end
    "l_lo": I64, "l_hi": I64, "l_start": I64, "l_end": I64, "l_rows": I32,
    "r_lo": I64, "r_hi": I64, "r_start": I64, "r_end": I64, "r_rows": I32,
    # those from l_new[g] on are new; where the buckets of partition g begin, and how many there are but one
    "l_new": I64, "r_new": I64, "l_buckets": I64, "l_mask": I64, "r_buckets": I64, "r_mask": I64,
    # what negations and closures between them demand: low and high times by record
    "l_low": I64, "l_high": I64, "r_low": I64, "r_high": I64, "done": I64,
    # transitions of an automaton, by state and by number: see `negations`
    "state_from": I64, "t_variable": I64, "t_target": I64, "state_mask": U64,
    # the partition of each left record, and the event that others follow; the rows of partitions, and whether they may
    # start a match
    "group": I64, "first": I64, "from_": I64, "starts": U8,
}  # fmt: skip

_WRITTEN: dict[str, Type] = {
    # the events taken, by depth: their rows, the transitions that took them, the event of their variable before them;
    # by variable: the depth of its last event, and how many there are; agg_*[depth, aggregate]
    "path": I64, "trans": I64, "earlier": I64, "last_depth": I64, "taken": I64,
    "agg_n": I64, "agg_i": I64, "agg_f": F64, "agg_m": F64,
    # the search for a negated pattern, by depth: its state, the row and the transition that come next; its steps
    "n_state": I64, "n_row": I64, "n_option": I64, "spent": I64,
    # joins: values of records that are compared, buckets of a hash table and the record before one in its bucket, of
    # records before l_entered[g]; pairs of records, and what is made of them; kept: variables between two calls
    "kept": I64, "l_entered": I64, "r_entered": I64,
    "l_values": I64, "r_values": I64, "l_heads": I64, "r_heads": I64, "l_chain": I64, "r_chain": I64, "lefts": I32,
    "rights": I32,
    "out_from": I64, "out_start": I64, "out_end": I64, "out_rows": I32,
    # by record: a time that was found, and whether something holds
    "found": I64, "held": U8,
    # matches that were found by an automaton: where the events of each begin, in out_rows too, and their variables
    "offsets": I64, "out_variables": I32,
    # `runs` by depth: the state of the automaton, the row and the option of its transitions to be tried next, and the
    # row that was taken after it (-1: none yet)
    "at_state": I64, "next_row": I64, "next_option": I64, "took": I64,
    # `subsets` by depth: the place of the event among the members, and the member to be tried next (-1: the first);
    # next_option and next_member at depth + 1
    "at_member": I64, "next_member": I64,
}  # fmt: skip
BY_DEPTH = ("path", "trans", "earlier", "n_state", "n_row", "n_option", "at_state", "next_row", "next_option", "took",
            "at_member", "next_member")  # fmt: skip
"""Arrays with one number for each event taken."""

TYPES: ArrayTypes = {name: (type_, False) for name, type_ in _READ.items()} | {
    name: (type_, True) for name, type_ in _WRITTEN.items()
}


def settings_of(numbers: Mapping[int, int]) -> np.ndarray:
    """`settings` with numbers at these places."""
    settings = np.zeros(SETTINGS, np.int64)
    for place, number in numbers.items():
        settings[place] = number
    return settings
