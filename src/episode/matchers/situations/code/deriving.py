"""Emits deriving: situations begin and end along the rows, up to an instant that may make a match certain."""

from __future__ import annotations

from functools import partial

import numpy as np

from episode.matchers.code.searching import is_as_long_as, window_end, window_start
from episode.matchers.situations.code import arrays
from episode.matchers.situations.code.arrays import SituationShape, each_bit
from episode.matchers.situations.code.relations import is_undecided
from episode.matchers.times import EVER, NEVER
from episode.native.builder import Program, Scope
from episode.native.ir import BOOL, I64, U64, Operand, Value
from episode.native.running import compiled_for


class Deriving:
    """The function under construction, with what changes in it.

    open: symbols whose situation lasts. Those that are visible, and those that may become so, are asked for only if the
    pattern is eager.
    """

    def __init__(self, s: Scope, shape: SituationShape) -> None:
        self.s, self.f, self.shape = s, s.f, shape
        f, place = s.f, s.place
        self.group, self.row = f.variable("group", place[arrays.GROUP]), f.variable("row", place[arrays.ROW])
        self.open = f.variable("open", place[arrays.OPEN])
        self.ended = f.variable("ended", 0)
        if shape.eager:
            self.seen, self.unseen = f.variable("seen", place[arrays.SEEN]), f.variable("unseen", 0)

    def build(self) -> None:
        """Returns 0: all rows are done; 1: at an instant that is worth a search."""
        s, f, shape = self.s, self.f, self.shape
        groups = s.until_row.length
        with f.during(lambda: self.group < groups):
            group = self.group.value
            begin, stop = s.from_[group], s.until_row[group]
            with f.when(s.place[arrays.BEGUN].equals(0)):
                self.begin_group(group, begin)
            if shape.eager:
                self.unseen.set(self.open & ~self.seen & ~s.settings[arrays.NEVER_SEEN])
            with f.during(lambda: self.row < stop) as over:
                self.skip_rows(stop)
                f.jump_if(self.row >= stop, over)
                seen_before = self.seen.value if shape.eager else None
                now = s.time[self.row]
                self.take_instant(begin, stop, now)
                self.return_if_useful(now, seen_before)
            seen = self.seen if shape.eager else 0
            s.call("end_group", partial(end_group, shape), group, self.open, seen, begin, stop)
            self.group.set(group + 1)
            s.place[arrays.BEGUN] = 0
        self.save()
        f.give(0)

    def save(self) -> None:
        place = self.s.place
        place[arrays.GROUP], place[arrays.ROW], place[arrays.OPEN] = self.group, self.row, self.open
        if self.shape.eager:
            place[arrays.SEEN] = self.seen

    def begin_group(self, group: Value, begin: Value) -> None:
        s = self.s
        s.place[arrays.BEGUN] = 1
        self.row.set(begin)
        self.open.set(s.open_before[group])
        if self.shape.eager:
            self.seen.set(s.seen_before[group])
        s.call("take_up", partial(take_up, self.shape), group, self.open)

    def skip_rows(self, stop: Value) -> None:
        """Rows that change nothing: no run begins or ends, and none has lasted long enough to be visible now."""
        s, f = self.s, self.f
        due = f.variable("due", EVER)
        if self.shape.eager:
            with each_bit(f, self.unseen) as (symbol, _):
                due.set(f.least(due, window_end(f, s.starts[s.hi[symbol]], s.at_least[symbol])))
        limit, holds = due.value, self.open.value

        def skip(until_due: bool) -> None:
            with f.during(lambda: self.row < stop) as found:
                changes = s.bits[self.row].to(I64).differs(holds)
                if until_due:
                    changes = changes | (s.time[self.row] >= limit)
                f.jump_if(changes, found)
                self.row.set(self.row + 1)

        if not self.shape.eager:
            skip(until_due=False)
            return
        with f.either(limit.equals(EVER)) as otherwise:
            skip(until_due=False)
            otherwise()
            skip(until_due=True)

    def take_instant(self, begin: Value, stop: Value, now: Value) -> None:
        """All rows of one time: situations end and begin."""
        s, f = self.s, self.f
        self.ended.set(0)
        with f.during(lambda: f.constant(True, BOOL)) as over:
            row, holds = self.row.value, s.bits[self.row].to(I64)
            changed = holds ^ self.open
            with f.when(changed.differs(0)):
                with each_bit(f, changed & self.open) as (symbol, bit):
                    self.end_situation(symbol, bit, begin, row, now)
                with each_bit(f, changed & holds) as (symbol, _):
                    slot = s.hi[symbol]
                    s.starts[slot], s.first[slot] = now, row
                self.open.set(holds)
                if self.shape.eager:
                    self.seen.set(self.seen & ~changed)
                    self.unseen.set((self.unseen & holds) | (changed & holds & ~s.settings[arrays.NEVER_SEEN]))
            self.row.set(row + 1)
            f.jump_if(row + 1 >= stop, over)
            f.jump_if(s.time[row + 1].differs(now), over)

    def end_situation(self, symbol: Value, bit: Value, begin: Value, row: Value, now: Value) -> None:
        s, f = self.s, self.f
        slot = s.hi[symbol]
        start = s.starts[slot]
        counts = start < now
        if self.shape.has_least:
            counts = counts & is_as_long_as(start, now, s.at_least[symbol])
        if self.shape.has_most:
            counts = counts & (start >= window_start(f, now, s.at_most[symbol]))
        with f.when(counts):
            s.ends[slot], s.last[slot] = now, f.select(row > begin, row - 1, -1)
            s.hi[symbol] = slot + 1
            self.ended.set(self.ended | bit)

    def return_if_useful(self, now: Value, seen_before: Value | None) -> None:
        """Note what is new at an instant, and return if it may make a match certain."""
        s, f = self.s, self.f
        ended = self.ended.value
        oldest: Operand = window_start(f, now, s.settings[arrays.WINDOW]) if self.shape.has_window else NEVER
        if seen_before is None:
            new: dict[int, Operand] = {arrays.ENDED: ended}
            useful = ended & s.triggers[arrays.ENDED]
        else:
            visible = ended & seen_before
            decisive = f.variable("decisive", 0)
            with f.when((visible & s.triggers[arrays.ENDED]).differs(0)):
                lasting = self.open & self.seen
                decisive.set(s.call("find_decisive", partial(find_decisive, self.shape), visible, lasting, oldest))
            started = self.find_started(now)
            self.unseen.set(self.unseen & ~started)
            self.seen.set(self.seen | started)
            new = {
                arrays.ENDED_IN_VAIN: visible & ~decisive,
                arrays.ENDED_SEEN: decisive,
                arrays.ENDED: ended & ~visible,
                arrays.STARTED: started,
            }
            useful = started & s.triggers[arrays.STARTED]
            useful = useful | ((decisive | (ended & ~visible)) & s.triggers[arrays.ENDED])
        with f.when(useful.differs(0)):
            self.save()
            s.place[arrays.OLDEST] = oldest
            for kind, symbols in new.items():
                s.items[kind] = symbols
            f.give(1)

    def find_started(self, now: Value) -> Value:
        """Situations that are visible from now on: those that have lasted long enough."""
        s, f = self.s, self.f
        if not self.shape.has_least:
            return self.unseen.value
        started = f.variable("started", 0)
        with each_bit(f, self.unseen) as (symbol, bit):
            lasts = is_as_long_as(s.starts[s.hi[symbol]], now, s.at_least[symbol])
            started.set(started | f.select(lasts, bit, 0))
        return started.value


def find_decisive(shape: SituationShape, s: Scope, visible: Value, lasting: Value, oldest: Value) -> None:
    """Find the visible situations that have ended and were undecided: what their ends make certain may hold the
    others, whose ends come first."""
    f = s.f
    decisive = f.variable("decisive", 0)
    with each_bit(f, visible & s.triggers[arrays.ENDED]) as (symbol, bit):
        start = s.starts[s.hi[symbol] - 1]
        with each_bit(f, (visible | lasting) & ~bit) as (other, its_bit):
            its_start = s.starts[s.hi[other] - f.select((visible & its_bit).differs(0), 1, 0)]
            undecided = is_undecided(f, s.masks[symbol * shape.symbols + other], start, its_start)
            with f.when(undecided & (its_start >= oldest)):
                decisive.set(decisive | bit)
    f.give(decisive)


def take_up(shape: SituationShape, s: Scope, group: Value, lasting: Value) -> None:
    """Situations of a group that earlier batches left."""
    f, groups = s.f, s.until_row.length
    with f.when(s.held_start.length > 0):
        with f.loop(0, shape.symbols) as symbol:
            at = symbol * groups + group
            slot = f.variable("slot", s.hi[symbol])
            with f.loop(s.held_from[at], s.held_to[at]) as held:
                here = slot.value
                s.starts[here], s.ends[here] = s.held_start[held], s.held_end[held]
                s.first[here], s.last[here] = -1, -2 - held
                slot.set(here + 1)
            s.hi[symbol] = slot
    with each_bit(f, lasting) as (symbol, _):
        here = s.hi[symbol]
        s.starts[here], s.first[here] = s.open_start[group * shape.symbols + symbol], -1
    f.give(0)


def end_group(
    shape: SituationShape, s: Scope, group: Value, lasting: Value, seen: Value, begin: Value, stop: Value
) -> None:
    """Note how a group ends; the slots of the next one come after its slots."""
    f = s.f
    with f.loop(0, shape.symbols) as symbol:
        if shape.has_window:
            with f.when(stop > begin):
                leave_window(s, symbol, window_start(f, s.time[stop - 1], s.settings[arrays.WINDOW]))
        at, hi = group * shape.symbols + symbol, s.hi[symbol]
        lasts = (lasting >> symbol) & 1
        s.group_lo[at], s.group_hi[at] = s.lo[symbol], hi
        s.open_slot[at] = f.select(lasts.differs(0), hi, -1)
        s.open_seen[at] = (lasts & (seen >> symbol)).to(s.open_seen.type)
        s.hi[symbol] = hi + lasts
        s.lo[symbol] = hi + lasts
    f.give(0)


def leave_window(s: Scope, symbol: Value, oldest: Value) -> None:
    """Situations at the front that began too early."""
    f = s.f
    lo, hi = f.variable("lo", s.lo[symbol]), s.hi[symbol]
    with f.during(lambda: lo < hi) as done:
        f.jump_if(s.starts[lo] >= oldest, done)
        lo.set(lo + 1)
    s.lo[symbol] = lo


# Counts the situations of a batch, so that there is room for all of them.


def count_starts(bits: np.ndarray, from_: np.ndarray, symbols: int) -> np.ndarray:
    """Count the runs of each symbol that begin in a batch, at the most. bits: of the symbols, and no others."""
    counts = np.zeros(symbols, np.int64)
    compiled_for(counting_program)([bits, from_, counts])
    return counts


def counting_program() -> Program:
    program = Program("count_starts")
    f = program.function("run")
    bits, from_ = f.array("bits", U64), f.array("from_", I64)
    counts = f.array("counts", I64, writable=True)
    with f.loop(0, from_.length - 1) as group:
        before = f.variable("before", 0)
        with f.loop(from_[group], from_[group + 1]) as row:
            holds = bits[row].to(I64)
            with each_bit(f, holds & ~before) as (symbol, _):
                counts[symbol] = counts[symbol] + 1
            before.set(holds)
    f.give(0)
    return program
