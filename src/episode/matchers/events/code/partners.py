"""Pairs of events that are near each other, as machine code: a sample for the statistics of conditions."""

from __future__ import annotations

from episode.matchers.events.code.arrays import WINDOW
from episode.matchers.time_code import first_at_least, search_place, window_end, window_start
from episode.matchers.times import EVER
from episode.native.builder import Program
from episode.native.ir import Value
from episode.native.scope import ArrayTypes, Scope, entry_scope
from episode.native.types import F64, I64

_TYPES: ArrayTypes = {
    "chosen": (I64, False), "others": (I64, False), "from_": (I64, False), "end": (I64, False), "dice": (F64, False),
    "settings": (I64, False), "beside": (I64, True),
}  # fmt: skip


def partners_program() -> Program:
    """beside: for each of the rows `chosen`, one of the rows `others` of its partition within a window of it; -1: none.

    Partition g has rows from_[g]:from_[g + 1], sorted by end; dice in [0, 1) say which of the others it is.
    """
    s = entry_scope("partners", _TYPES)
    f, window = s.f, s.settings[WINDOW]
    with f.loop(0, s.chosen.length) as number:
        row = s.chosen[number]
        group = first_at_least(s, "from_", 0, s.from_.length, row + 1) - 1
        low = f.variable("low", first_at_least(s, "others", 0, s.others.length, s.from_[group]))
        stop = f.variable("stop", first_at_least(s, "others", low, s.others.length, s.from_[group + 1]))
        with f.when(window < EVER):
            oldest, after = window_start(f, s.end[row], window), window_end(f, s.end[row], window + 1)
            low.set(s.call("first_in_time", _first_in_time, low, stop, oldest))
            stop.set(s.call("first_in_time", _first_in_time, low, stop, after))
        s.beside[number] = -1
        with f.when(low < stop):
            place = low + (s.dice[number] * (stop - low).to(F64)).to(I64)
            s.beside[number] = s.others[place]
    f.give(0)
    return s.program


def _first_in_time(s: Scope, first: Value, stop: Value, wanted: Value) -> None:
    """The first place from `first` to `stop` whose row does not end before `wanted`."""
    s.f.give(search_place(s.f, first, stop, lambda at: s.end[s.others[at]] < wanted))
