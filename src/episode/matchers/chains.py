"""Chains: events of several classes that follow each other within a window, by time alone.

Shapes: bits uint64[rows], the classes of each row; masks uint64[places], those of each place of the chain, in order;
from_ int64[partitions + 1]; start, end, time int64[rows], ascending by end within a partition.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from episode.matchers.code.searching import window_end, window_start
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import BOOL, I64, U8, U64, Value
from episode.native.running import compiled_for

_TYPES: ArrayTypes = {
    "bits": (U64, False), "masks": (U64, False), "from_": (I64, False), "start": (I64, False), "end": (I64, False),
    "time": (I64, False), "out": (U64, True), "best": (I64, True), "some": (U8, True), "kept": (U8, True),
}  # fmt: skip


def viable(
    bits: np.ndarray, masks: np.ndarray, from_: np.ndarray, start: np.ndarray, end: np.ndarray, window: int, whole: bool
) -> np.ndarray:  # fmt: skip
    """Clear the bits of events that cannot be in a match, by time alone.

    masks: the variables of each place that every match must fill, in order. An event stays in a place if events of all
    earlier places come before it and of all later places after it, and the tightest such chain fits the window. (Ties
    pass; the joins are exact.) Unless `whole`, later places are not required: their events may still come.
    """
    out = np.empty(len(bits), np.uint64)
    room = (np.zeros(len(masks), np.int64), np.zeros(len(masks), np.uint8))
    compiled_for(viable_program)([bits, masks, from_, start, end, out, *room], window, whole)
    return out


def near_chains(
    bits: np.ndarray, in_chain: int, others: int, from_: np.ndarray, time: np.ndarray, window: int
) -> np.ndarray:
    """Return the rows (bool[rows]) that may matter to matches: those of a chain, and those of other classes within the
    window of one.

    in_chain, others: bits of the chain's classes, and of the others.
    """
    kept = np.zeros(len(bits), np.uint8)
    compiled_for(near_program)([bits, from_, time, kept], window, int(in_chain), int(others))
    return kept.view(np.bool_)


def viable_program() -> Program:
    s = entry_scope("viable", _TYPES, "bits", "masks", "from_", "start", "end", "out", "best", "some")
    f = s.f
    window, whole = f.scalar("window"), f.scalar("whole", BOOL)
    everything = f.variable("everything", f.constant(0, U64))
    with f.loop(0, s.masks.length) as place:
        everything.set(everything | s.masks[place])
    of_chain = everything.value
    with f.loop(0, s.from_.length - 1) as group:
        low, high = s.from_[group], s.from_[group + 1]
        s.call("forget", _emit_forget)
        with f.loop(low, high) as row:
            s.out[row] = s.bits[row]
            with f.when((s.bits[row] & of_chain).differs(0)):
                s.call("follow", partial(_emit_clear, ahead=True), row, window)
        with f.when(whole):
            s.call("forget", _emit_forget)
            with f.loop(0, high - low) as back:
                row = high - 1 - back
                with f.when((s.out[row] & of_chain).differs(0)):
                    s.call("precede", partial(_emit_clear, ahead=False), row, window)
    f.give(0)
    return s.program


def _emit_forget(s: Scope) -> None:
    with s.f.loop(0, s.some.length) as place:
        s.some[place] = 0
    s.f.give(0)


def _emit_clear(s: Scope, row: Value, window: Value, ahead: bool) -> None:
    """Clear the places of a row that no earlier event precedes (ahead), or no later event follows. best: the latest
    start of a chain up to each place, or the earliest end of a chain from it on."""
    f = s.f
    limit = window_start(f, s.end[row], window) if ahead else window_end(f, s.start[row], window)
    gone, own = f.variable("gone", f.constant(0, U64)), s.bits[row] if ahead else s.out[row]
    final = s.masks.length - 1
    with f.loop(0, s.masks.length) as step:
        place = final - step if ahead else step
        with f.when((own & s.masks[place]).differs(0)):
            is_edge = place.equals(0 if ahead else final)
            beside = f.select(is_edge, place, place - 1 if ahead else place + 1)
            reached = f.select(is_edge, s.start[row] if ahead else s.end[row], s.best[beside])
            missing = ~is_edge & s.some[beside].equals(0)
            with f.either(missing | (reached < limit if ahead else reached > limit)) as otherwise:
                gone.set(gone | s.masks[place])
                otherwise()
                is_better = reached > s.best[place] if ahead else reached < s.best[place]
                with f.when(s.some[place].equals(0) | is_better):
                    s.best[place] = reached
                    s.some[place] = 1
    s.out[row] = own & ~gone.value
    f.give(0)


def near_program() -> Program:
    s = entry_scope("near_chains", _TYPES, "bits", "from_", "time", "kept")
    f = s.f
    window, in_chain, others = f.scalar("window"), f.scalar("in_chain", U64), f.scalar("others", U64)
    with f.loop(0, s.from_.length - 1) as group:
        low, high = s.from_[group], s.from_[group + 1]
        for ahead in (True, False):
            some, last = f.variable("some", False), f.variable("last", 0)
            with f.loop(0, high - low) as step:
                row = low + step if ahead else high - 1 - step
                time = s.time[row]
                with f.either((s.bits[row] & in_chain).differs(0)) as otherwise:
                    s.kept[row] = 1
                    some.set(True)
                    last.set(time)
                    otherwise()
                    with f.when((s.bits[row] & others).differs(0) & some):
                        if ahead:
                            near = window_start(f, time, window) <= last
                        else:
                            near = window_end(f, time, window) >= last
                        with f.when(near):
                            s.kept[row] = 1
    f.give(0)
    return s.program
