"""The attempt that a search is in, for emitters of conditions."""

from __future__ import annotations

from dataclasses import dataclass, field

from episode.native.ir import Value, Variable


@dataclass
class RunningMatch:
    """The running match, in values and variables of the function that is being built.

    start, row: its first row, and the row under trial, which is its last one. The instruction that took a row r is
    path[r - origin], from the row `known_from` on; that of the row under trial is written before its condition is
    asked for. lo, hi: the rows of the partition. number: of the last match before this one.
    last_row, first_row: of each label that navigations name, the last and the first row in the match, the row under
    trial included; -1 in last_row: there is none.
    """

    start: Value
    row: Value
    origin: Value
    lo: Value
    hi: Value
    number: Value
    known_from: Value
    last_row: dict[int, Variable] = field(default_factory=dict)
    first_row: dict[int, Variable] = field(default_factory=dict)
