"""Emits the program of a situation pattern: deriving up to an instant, searching there, and so on until all is done."""

from __future__ import annotations

from functools import partial

from episode.matchers.situations.code import arrays
from episode.matchers.situations.code.arrays import SituationShape, each_bit, is_in
from episode.matchers.situations.code.deriving import Deriving, leave_window
from episode.matchers.situations.code.relations import ALL, Situation, find_allowed, is_undecided, relation_of_lasting
from episode.native.builder import Program, Scope
from episode.native.ir import BOOL, F64, TRAILING_ZEROS, Value

FEW = 1.0
"""Less than this number of situations that fit another one is as good as none, however the number moves."""


def detection_program(shape: SituationShape) -> Program:
    """Continue through the rows; returns one of DONE … NO_ROOM. It is called again, unless all is done."""
    program = Program("situations", most_inlined=40)
    s = Scope(program.function("run"), arrays.TYPES)
    f, place = s.f, s.place
    with f.during(lambda: f.constant(True, BOOL)):
        with f.when(place[arrays.STAGE].equals(arrays.DERIVING)):
            useful = s.call("derive", lambda s: Deriving(s, shape).build())
            f.give_if(useful.equals(0), arrays.DONE)
            s.call("begin_search", partial(begin_search, shape))
            place[arrays.STAGE] = arrays.SEARCHING
        status = s.call("search_new", partial(search_new, shape))
        f.give_if(status.differs(0), status)
        place[arrays.STAGE] = arrays.DERIVING
        status = s.call("end_search", partial(end_search, shape))
        f.give_if(status.differs(arrays.DONE), status)
    f.give(arrays.DONE)
    return program


def begin_search(shape: SituationShape, s: Scope) -> None:
    """Collect what takes part in the searches at an instant: new situations do so from their own turn on."""
    f, place = s.f, s.place
    ended = s.items[arrays.ENDED]
    if shape.eager:
        ended = ended | s.items[0] | s.items[arrays.ENDED_SEEN]
    with f.loop(0, shape.symbols) as symbol:
        if shape.has_window:
            leave_window(s, symbol, place[arrays.OLDEST])
        s.top[symbol] = f.greatest(s.lo[symbol], s.hi[symbol] - ((ended >> symbol) & 1))
    place[arrays.FIRST], place[arrays.KIND] = place[arrays.COUNT], (0 if shape.eager else arrays.ENDED)
    if shape.eager:
        candidates = f.variable("candidates", 0)
        with each_bit(f, place[arrays.OPEN] & place[arrays.SEEN] & ~s.items[arrays.STARTED]) as (symbol, bit):
            candidates.set(candidates | f.select(s.starts[s.hi[symbol]] >= place[arrays.OLDEST], bit, 0))
        place[arrays.CANDIDATES], place[arrays.JUST_ENDED] = candidates, 0
    f.give(0)


def search_new(shape: SituationShape, s: Scope) -> None:
    """All searches at an instant, from where they were suspended. Returns 0, or why they are."""
    f, place = s.f, s.place
    end = arrays.KINDS if shape.eager else arrays.ENDED + 1
    kind = f.variable("kind", place[arrays.KIND])
    with f.during(lambda: kind < end):
        with f.during(lambda: s.items[kind].differs(0)):
            left = s.items[kind]
            symbol, bit = f.unary(TRAILING_ZEROS, left), left & -left
            is_start = kind.equals(arrays.STARTED)
            slot = s.hi[symbol] - (f.select(is_start, 0, 1) if shape.eager else 1)
            with f.when(s.starts[slot] >= place[arrays.OLDEST]):
                with f.when(is_in(symbol, s.triggers[kind])):
                    with f.when(place[arrays.STAGE].differs(arrays.SUSPENDED)):
                        s.searches[symbol] = s.searches[symbol] + 1
                        s.chosen[symbol], place[arrays.STEP] = slot, 1
                        if shape.eager:
                            place[arrays.LASTS] = f.select(is_start, bit, 0)
                            place[arrays.LASTED] = f.select(kind.equals(arrays.ENDED), 0, bit)
                    check_new = kind.equals(arrays.ENDED_SEEN)
                    status = s.call("search", lambda *given: SituationSearch(shape, *given).build(), symbol, check_new)
                    with f.when(status.differs(0)):
                        place[arrays.KIND] = kind
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
    with f.either(kind.equals(arrays.STARTED)) as otherwise:
        place[arrays.CANDIDATES] = place[arrays.CANDIDATES] | bit
        otherwise()
        s.top[symbol] = s.hi[symbol]
        place[arrays.JUST_ENDED] = place[arrays.JUST_ENDED] | f.select(kind.equals(arrays.ENDED), 0, bit)


def end_search(shape: SituationShape, s: Scope) -> None:
    """Note where matches were found, and how large buffers are. Returns DONE, FULL or REPLAN."""
    f, place = s.f, s.place
    count = place[arrays.COUNT]
    with f.loop(place[arrays.FIRST], count) as number:
        s.found_row[number * 2], s.found_row[number * 2 + 1] = place[arrays.ROW] - 1, place[arrays.GROUP]
    seen = s.sizes_seen[0] + 1
    s.sizes_seen[0] = seen
    weight = f.greatest(s.rates[arrays.SMOOTHING], f.constant(1.0, F64).divide(seen.to(F64)))
    with f.loop(0, shape.symbols) as symbol:
        average = s.size[symbol]
        s.size[symbol] = average + weight * ((s.hi[symbol] - s.lo[symbol]).to(F64) - average)
    f.give_if(count >= s.settings[arrays.SOFT_LIMIT], arrays.FULL)
    if shape.adapts:
        with f.when(seen >= s.look_at[0]):
            s.look_at[0] = s.look_at[0] + s.settings[arrays.PAUSE]
            f.give(s.call("look_at_plan", partial(look_at_plan, shape)))
    f.give(arrays.DONE)


def look_at_plan(shape: SituationShape, s: Scope) -> None:
    """REPLAN if the number of situations that fit another one differs from what the plan was made for, else DONE."""
    f = s.f
    with f.loop(0, shape.symbols) as symbol:
        with f.loop(0, shape.symbols) as other:
            pair = symbol * shape.symbols + other
            with f.when(symbol.differs(other) & s.masks[pair].differs(ALL)):
                now = s.size[symbol] * s.selectivity[pair]
                then = s.size_then[symbol] * s.selectivity_then[pair]
                f.give_if(f.unary("abs", now - then) > s.rates[arrays.THRESHOLD] * f.greatest(then, FEW), arrays.REPLAN)
    f.give(arrays.DONE)


# The search for the other situations of a match, once one situation is given (TPStream, section 5).
#
# The steps of a search are in `paths`: the symbol whose situation is new, then the others. At each step, the ranges of
# the symbol's buffer that fit all situations chosen so far are found; their slots are tried one by one, then the
# situation that lasts.


class SituationSearch:
    """The function under construction: all matches with a situation of the symbol `pinned`, which is chosen already.

    check_new: leave out what was certain before this instant. A search that finds no room for a match is suspended: it
    resumes with that match.
    """

    def __init__(self, shape: SituationShape, s: Scope, pinned: Value, check_new: Value) -> None:
        self.shape, self.s, self.f = shape, s, s.f
        f, place = s.f, s.place
        self.check_new = check_new
        self.count, self.step = f.variable("count", place[arrays.COUNT]), f.variable("step", place[arrays.STEP])
        self.path, self.first_partial = pinned * shape.symbols, pinned * shape.symbols - 1
        if shape.eager:
            self.lasts, self.lasted = (
                f.variable("lasts", place[arrays.LASTS]),
                f.variable("lasted", place[arrays.LASTED]),
            )
        self.enter, self.choose, self.advance, self.back, self.record = (
            f.block(name) for name in ("enter", "choose", "advance", "back", "record")
        )

    def build(self) -> None:
        """Returns 0: all matches are found; otherwise NO_ROOM or TOO_MANY."""
        f, s = self.f, self.s
        resumed = s.place[arrays.STAGE].equals(arrays.SUSPENDED)
        s.place[arrays.STAGE] = arrays.SEARCHING
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
        place[arrays.COUNT] = self.count
        if status == arrays.NO_ROOM:
            place[arrays.STEP], place[arrays.STAGE] = self.step, arrays.SUSPENDED
            if self.shape.eager:
                place[arrays.LASTS], place[arrays.LASTED] = self.lasts, self.lasted
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
                count.set(s.call("narrow", partial(narrow, self.shape), symbol, other, at, count, lasts))
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
                just_ended = is_in(symbol, s.place[arrays.JUST_ENDED]) & slot.equals(s.hi[symbol] - 1)
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
                with f.when(is_in(symbol, s.place[arrays.CANDIDATES])):
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
        f, s, symbols = self.f, self.s, self.shape.symbols
        if self.shape.eager:
            with f.when(self.check_new):
                certain = s.call("was_certain", partial(was_certain, self.shape), self.lasted, result=BOOL)
                f.jump_if(certain, self.back)
        count = self.count.value
        at = count * (symbols + 1)
        with f.when(at >= s.found.length):
            self.leave(arrays.NO_ROOM)
        with f.loop(0, symbols) as symbol:
            s.found[at + symbol] = s.chosen[symbol]
        s.found[at + symbols] = self.lasts if self.shape.eager else 0
        self.count.set(count + 1)
        with f.when(count + 1 >= s.settings[arrays.MOST]):
            self.leave(arrays.TOO_MANY)
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
    weight = f.greatest(s.rates[arrays.SHARE_SMOOTHING], f.constant(1.0, F64).divide(seen.to(F64)))
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
