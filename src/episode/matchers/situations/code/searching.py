"""Emits the search for the other situations of a match, once one situation is given (TPStream, section 5).

The steps of a search are in `paths`: the symbol whose situation is new, then the others. At each step, the ranges of
the symbol's buffer that fit all situations chosen so far are found; their slots are tried one by one, then the
situation that lasts.
"""

from __future__ import annotations

from episode.matchers.situations.code.arrays import (
    CANDIDATES,
    COUNT,
    JUST_ENDED,
    LASTED,
    LASTS,
    MOST,
    NO_ROOM,
    SEARCHING,
    SHARE_SMOOTHING,
    STAGE,
    STEP,
    SUSPENDED,
    TOO_MANY,
    SituationShape,
    each_bit,
    is_in,
)
from episode.matchers.situations.code.relations import (
    ALL,
    Situation,
    find_allowed,
    is_undecided,
    relation_of_lasting,
)
from episode.native.builder import Scope
from episode.native.ir import BOOL, F64, Value


class SituationSearch:
    """The function under construction: all matches with a situation of the symbol `pinned`, which is chosen already.

    check_new: leave out what was certain before this instant. A search that finds no room for a match is suspended: it
    resumes with that match.
    """

    def __init__(self, shape: SituationShape, s: Scope, pinned: Value, check_new: Value) -> None:
        self.shape, self.s, self.f = shape, s, s.f
        f, place = s.f, s.place
        self.check_new = check_new
        self.count, self.step = f.variable("count", place[COUNT]), f.variable("step", place[STEP])
        self.path, self.first_partial = pinned * shape.symbols, pinned * shape.symbols - 1
        if shape.eager:
            self.lasts, self.lasted = f.variable("lasts", place[LASTS]), f.variable("lasted", place[LASTED])
        self.enter, self.choose, self.advance, self.back, self.record = (
            f.block(name) for name in ("enter", "choose", "advance", "back", "record")
        )

    def build(self) -> None:
        """Returns 0: all matches are found; otherwise NO_ROOM or TOO_MANY."""
        f, s = self.f, self.s
        resumed = s.place[STAGE].equals(SUSPENDED)
        s.place[STAGE] = SEARCHING
        f.branch(resumed, self.record, self.enter)
        f.at(self.enter)
        self.build_enter()
        f.at(self.choose)
        self.build_choose()
        f.at(self.advance)
        step = self.step.value
        s.partial[self.first_partial + step] = s.partial[self.first_partial + step] + 1
        self.step.set(step + 1)
        f.jump(self.enter)
        f.at(self.back)
        self.step.set(self.step - 1)
        with f.when(self.step.equals(0)):
            self.leave(0)
        f.jump(self.choose)
        f.at(self.record)
        self.build_record()

    def leave(self, status: int) -> None:
        place = self.s.place
        place[COUNT] = self.count
        if status == NO_ROOM:
            place[STEP], place[STAGE] = self.step, SUSPENDED
            if self.shape.eager:
                place[LASTS], place[LASTED] = self.lasts, self.lasted
        self.f.give(status)

    def build_enter(self) -> None:
        """A step begins: find the ranges that fit."""
        f, s, symbols = self.f, self.s, self.shape.symbols
        step = self.step.value
        f.jump_if(step.equals(symbols), self.record)
        symbol = s.paths[self.path + step]
        first, stop = s.lo[symbol], s.top[symbol]
        at = step * (2 * self.shape.ranges)
        s.ranges[at], s.ranges[at + 1] = first, stop
        count = f.variable("count", f.select(first < stop, 1, 0))
        with f.loop(0, step) as before:
            other = s.paths[self.path + before]
            mask = s.masks[symbol * symbols + other]
            with f.when(mask.differs(ALL) & (count > 0)):
                lasts = is_in(other, self.lasts) if self.shape.eager else f.constant(False, BOOL)
                count.set(s.call("narrow", lambda *given: narrow(self.shape, *given), symbol, other, at, count, lasts))
        s.range_count[step], s.range_at[step] = count, 0
        s.slot_at[step] = s.ranges[at]
        f.jump(self.choose)

    def build_choose(self) -> None:
        """The next situation of a step: finished ones range by range, then the one that lasts."""
        f, s, shape = self.f, self.s, self.shape
        step = self.step.value
        symbol, number = s.paths[self.path + step], s.range_at[step]
        with f.when(number < s.range_count[step]):
            slot = s.slot_at[step]
            s.chosen[symbol], s.slot_at[step] = slot, slot + 1
            if shape.eager:
                bit = f.constant(1, slot.type) << symbol
                just_ended = is_in(symbol, s.place[JUST_ENDED]) & slot.equals(s.hi[symbol] - 1)
                self.lasts.set(self.lasts & ~bit)
                self.lasted.set(f.select(just_ended, self.lasted | bit, self.lasted & ~bit))
            at = step * (2 * shape.ranges) + number * 2
            with f.when((slot + 1).equals(s.ranges[at + 1])):
                s.range_at[step] = number + 1
                s.slot_at[step] = s.ranges[at + 2]
            f.jump(self.advance)
        if shape.eager:
            with f.when(number.equals(s.range_count[step])):
                s.range_at[step] = number + 1
                with f.when(is_in(symbol, s.place[CANDIDATES])):
                    self.choose_lasting(step, symbol)
        f.jump(self.back)

    def choose_lasting(self, step: Value, symbol: Value) -> None:
        """Take the situation that lasts, if it fits."""
        f, s = self.f, self.s
        slot = s.hi[symbol]
        start = s.starts[slot]
        with f.loop(0, step) as before:
            other = s.paths[self.path + before]
            mask, its = s.masks[symbol * self.shape.symbols + other], s.chosen[other]
            undecided = is_undecided(f, mask, start, s.starts[its])
            wrong = (mask & relation_of_lasting(f, start, s.starts[its], s.ends[its])).equals(0)
            f.jump_if(f.select(is_in(other, self.lasts), undecided, wrong), self.back)
        bit = f.constant(1, slot.type) << symbol
        s.chosen[symbol] = slot
        self.lasts.set(self.lasts | bit)
        self.lasted.set(self.lasted | bit)
        f.jump(self.advance)

    def build_record(self) -> None:
        """Write a match down."""
        f, s, symbols = self.f, self.s, self.shape.symbols
        if self.shape.eager:
            with f.when(self.check_new):
                certain = s.call(
                    "was_certain", lambda *given: was_certain(self.shape, *given), self.lasted, result=BOOL
                )
                f.jump_if(certain, self.back)
        count = self.count.value
        at = count * (symbols + 1)
        with f.when(at >= s.found.length):
            self.leave(NO_ROOM)
        with f.loop(0, symbols) as symbol:
            s.found[at + symbol] = s.chosen[symbol]
        s.found[at + symbols] = self.lasts if self.shape.eager else 0
        self.count.set(count + 1)
        with f.when(count + 1 >= s.settings[MOST]):
            self.leave(TOO_MANY)
        f.jump(self.back)


def narrow(shape: SituationShape, s: Scope, symbol: Value, other: Value, at: Value, count: Value, lasts: Value) -> None:
    """Leave of the ranges of a step, `count` from `at` on, what fits the situation chosen of another symbol.

    Returns how many ranges there are."""
    f, slot = s.f, s.chosen[other]
    first, stop = s.lo[symbol], s.top[symbol]
    mask = s.masks[symbol * shape.symbols + other]
    other_situation = Situation(s.starts[slot], s.ends[slot], lasts if shape.eager else None)
    is_alone = shape.symbols == 2
    to = at if is_alone else f.value(0)  # the first row of `ranges` belongs to no step
    fitting, kept = find_allowed(s, mask, first, stop, other_situation, to)
    note_share(shape, s, symbol, other, kept.to(F64).divide((stop - first).to(F64)))
    f.give(fitting if is_alone else intersect(shape, s, at, count, fitting))


def intersect(shape: SituationShape, s: Scope, at: Value, count: Value, fitting: Value) -> Value:
    """Leave of the ranges from `at` on what is in the first row as well; the last row is for what is in both."""
    f, ranges = s.f, s.ranges
    last_row = shape.symbols * 2 * shape.ranges
    end, left, right = f.variable("end", last_row), f.variable("left", at), f.variable("right", 0)
    left_end, right_end = at + count * 2, fitting * 2
    with f.during(lambda: (left < left_end) & (right < right_end)):
        low = f.greatest(ranges[left], ranges[right])
        mine, its = ranges[left + 1], ranges[right + 1]
        high = f.least(mine, its)
        with f.when(low < high):
            ranges[end], ranges[end + 1] = low, high
            end.set(end + 2)
        is_first = mine < its
        left.set(left + f.select(is_first, 2, 0))
        right.set(right + f.select(is_first, 0, 2))
    with f.loop(last_row, end) as number:
        ranges[at + (number - last_row)] = ranges[number]
    return (end - last_row) >> 1


def note_share(shape: SituationShape, s: Scope, symbol: Value, other: Value, share: Value) -> None:
    """Keep the moving average of the share of a buffer that fits a situation of another symbol."""
    f = s.f
    mine, its = symbol * shape.symbols + other, other * shape.symbols + symbol
    seen = s.shares_seen[mine] + 1
    s.shares_seen[mine], s.shares_seen[its] = seen, s.shares_seen[its] + 1
    weight = f.greatest(s.rates[SHARE_SMOOTHING], f.constant(1.0, F64).divide(seen.to(F64)))
    average = s.selectivity[mine]
    average = average + weight * (share - average)
    s.selectivity[mine], s.selectivity[its] = average, average


def was_certain(shape: SituationShape, s: Scope, lasted: Value) -> None:
    """Was the match certain before this instant? Of each pair, one had ended, or the mask has all it could become."""
    f = s.f
    with each_bit(f, lasted) as (symbol, bit):
        start = s.starts[s.chosen[symbol]]
        with each_bit(f, lasted & -(bit + bit)) as (other, _):
            mask = s.masks[symbol * shape.symbols + other]
            f.give_if(is_undecided(f, mask, start, s.starts[s.chosen[other]]), False)
    f.give(True)
