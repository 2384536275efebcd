"""Emits the program of a situation pattern: deriving up to an instant, searching there, and so on until all is done."""

from __future__ import annotations

from episode.matchers.situations.code.arrays import (
    CANDIDATES,
    COUNT,
    DERIVING,
    DONE,
    ENDED,
    ENDED_SEEN,
    FIRST,
    FULL,
    GROUP,
    JUST_ENDED,
    KIND,
    KINDS,
    LASTED,
    LASTS,
    OLDEST,
    OPEN,
    PAUSE,
    REPLAN,
    ROW,
    SEARCHING,
    SEEN,
    SMOOTHING,
    SOFT_LIMIT,
    STAGE,
    STARTED,
    STEP,
    SUSPENDED,
    THRESHOLD,
    TYPES,
    SituationShape,
    each_bit,
    is_in,
)
from episode.matchers.situations.code.deriving import Deriving, leave_window
from episode.matchers.situations.code.relations import ALL
from episode.matchers.situations.code.searching import SituationSearch
from episode.native.builder import Program, Scope
from episode.native.ir import BOOL, F64, TRAILING_ZEROS, Value

FEW = 1.0
"""Less than this number of situations that fit another one is as good as none, however the number moves."""


def detection_program(shape: SituationShape) -> Program:
    """Continue through the rows; returns one of DONE … NO_ROOM. It is called again, unless all is done."""
    program = Program("situations", most_inlined=40)
    s = Scope(program.function("run"), TYPES)
    f, place = s.f, s.place
    with f.during(lambda: f.constant(True, BOOL)):
        with f.when(place[STAGE].equals(DERIVING)):
            useful = s.call("derive", lambda s: Deriving(s, shape).build())
            f.give_if(useful.equals(0), DONE)
            s.call("begin_search", lambda s: begin_search(shape, s))
            place[STAGE] = SEARCHING
        status = s.call("search_new", lambda s: search_new(shape, s))
        f.give_if(status.differs(0), status)
        place[STAGE] = DERIVING
        status = s.call("end_search", lambda s: end_search(shape, s))
        f.give_if(status.differs(DONE), status)
    f.give(DONE)
    return program


def begin_search(shape: SituationShape, s: Scope) -> None:
    """Collect what takes part in the searches at an instant: new situations do so from their own turn on."""
    f, place = s.f, s.place
    ended = s.items[ENDED]
    if shape.eager:
        ended = ended | s.items[0] | s.items[ENDED_SEEN]
    with f.loop(0, shape.symbols) as symbol:
        if shape.has_window:
            leave_window(s, symbol, place[OLDEST])
        s.top[symbol] = f.greatest(s.lo[symbol], s.hi[symbol] - ((ended >> symbol) & 1))
    place[FIRST], place[KIND] = place[COUNT], (0 if shape.eager else ENDED)
    if shape.eager:
        candidates = f.variable("candidates", 0)
        with each_bit(f, place[OPEN] & place[SEEN] & ~s.items[STARTED]) as (symbol, bit):
            candidates.set(candidates | f.select(s.starts[s.hi[symbol]] >= place[OLDEST], bit, 0))
        place[CANDIDATES], place[JUST_ENDED] = candidates, 0
    f.give(0)


def search_new(shape: SituationShape, s: Scope) -> None:
    """All searches at an instant, from where they were suspended. Returns 0, or why they are."""
    f, place = s.f, s.place
    end = KINDS if shape.eager else ENDED + 1
    kind = f.variable("kind", place[KIND])
    with f.during(lambda: kind < end):
        with f.during(lambda: s.items[kind].differs(0)):
            left = s.items[kind]
            symbol, bit = f.unary(TRAILING_ZEROS, left), left & -left
            is_start = kind.equals(STARTED)
            slot = s.hi[symbol] - (f.select(is_start, 0, 1) if shape.eager else 1)
            with f.when(s.starts[slot] >= place[OLDEST]):
                with f.when(is_in(symbol, s.triggers[kind])):
                    with f.when(place[STAGE].differs(SUSPENDED)):
                        s.searches[symbol] = s.searches[symbol] + 1
                        s.chosen[symbol], place[STEP] = slot, 1
                        if shape.eager:
                            place[LASTS] = f.select(is_start, bit, 0)
                            place[LASTED] = f.select(kind.equals(ENDED), 0, bit)
                    status = s.call("search", lambda *given: SituationSearch(shape, *given).build(),
                                    symbol, kind.equals(ENDED_SEEN))  # fmt: skip
                    with f.when(status.differs(0)):
                        place[KIND] = kind
                        f.give(status)
                take_part(shape, s, kind.value, symbol, bit)
            s.items[kind] = left & (left - 1)
        kind.set(kind + 1)
    f.give(0)


def take_part(shape: SituationShape, s: Scope, kind: Value, symbol: Value, bit: Value) -> None:
    """From now on, a new situation takes part in the searches of others."""
    f, place = s.f, s.place
    if not shape.eager:
        s.top[symbol] = s.hi[symbol]
        return
    with f.either(kind.equals(STARTED)) as otherwise:
        place[CANDIDATES] = place[CANDIDATES] | bit
        otherwise()
        s.top[symbol] = s.hi[symbol]
        place[JUST_ENDED] = place[JUST_ENDED] | f.select(kind.equals(ENDED), 0, bit)


def end_search(shape: SituationShape, s: Scope) -> None:
    """Note where matches were found, and how large buffers are. Returns DONE, FULL or REPLAN."""
    f, place = s.f, s.place
    count = place[COUNT]
    with f.loop(place[FIRST], count) as number:
        s.found_row[number * 2], s.found_row[number * 2 + 1] = place[ROW] - 1, place[GROUP]
    seen = s.sizes_seen[0] + 1
    s.sizes_seen[0] = seen
    weight = f.greatest(s.rates[SMOOTHING], f.constant(1.0, F64).divide(seen.to(F64)))
    with f.loop(0, shape.symbols) as symbol:
        average = s.size[symbol]
        s.size[symbol] = average + weight * ((s.hi[symbol] - s.lo[symbol]).to(F64) - average)
    f.give_if(count >= s.settings[SOFT_LIMIT], FULL)
    if shape.adapts:
        with f.when(seen >= s.look_at[0]):
            s.look_at[0] = s.look_at[0] + s.settings[PAUSE]
            f.give(s.call("look_at_plan", lambda s: look_at_plan(shape, s)))
    f.give(DONE)


def look_at_plan(shape: SituationShape, s: Scope) -> None:
    """REPLAN if the number of situations that fit another one differs from what the plan was made for, else DONE."""
    f = s.f
    with f.loop(0, shape.symbols) as symbol:
        with f.loop(0, shape.symbols) as other:
            pair = symbol * shape.symbols + other
            with f.when(symbol.differs(other) & s.masks[pair].differs(ALL)):
                now = s.size[symbol] * s.selectivity[pair]
                then = s.size_then[symbol] * s.selectivity_then[pair]
                f.give_if(f.unary("abs", now - then) > s.rates[THRESHOLD] * f.greatest(then, FEW), REPLAN)
    f.give(DONE)
