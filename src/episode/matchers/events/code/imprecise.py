"""The automaton over imprecise time: every match with a confidence, depth first from every event that may be its first.

As in `runs`, a path of taken events is extended by one transition at a time, and conditions are tested when an event is
taken. The differences: any event whose interval allows it may come next, whether its row is earlier or later; each
depth keeps the frontier of `confidence`, so that an event costs its own points and not those before it; and a path
whose confidence is below the threshold is given up, as no longer one has a higher confidence (SASE++, section 5.3).

Events of a closure that is a set are taken in the order of (lo, hi, arrival), every choice of them once.

The code returns when the output is full, or an array too small; `resume` then has its place, and the other arrays its
path, and it continues there if it is called again.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.code.expressions import CodeConstants
from episode.matchers.code.searching import search_place, window_end, window_start
from episode.matchers.events.code.arrays import BUDGET, LIMIT, TYPES, UNTIL, WINDOW
from episode.matchers.events.code.between import FINE, FULL, scanning
from episode.matchers.events.code.checks import Checks, PathShape, has_bit, is_on_path, is_one_of
from episode.matchers.events.code.confidence import CLOCK, FRONTIERS, ConfidenceCode, total_mass
from episode.matchers.events.code.runs import BUDGET_SPENT, put_match
from episode.matchers.times import EVER, NEVER
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope, subroutine
from episode.native.ir import F64, I64, Operand, Value, Variable

SMALL = 4
"""A status in addition to FULL (the output) and those of `runs`: frontiers need more room."""
TOLERANCE = 1e-12
"""A confidence counts as reaching the threshold if it is below it by no more than this."""

(STATE, AT, NEXT_AT, NEXT_OPTION, BEGIN, END, BASE, BASE_END, SET, FIRST_LO, FIRST_HI, LAST_LO, LAST_HI, IN_FIRST,
 SET_LO, POINTS) = range(16)  # fmt: skip
"""State at a depth: the state of the automaton; the place of its event in the order, and the next place and option to
try; its frontier, and in a set the one before the set; the depth of the set's first event (-1: none); of the first
block, the earliest lo and hi; of all events, the latest lo and hi; whether it is of the first block; of the set, the
latest lo; and the points of all events so far."""
FACTS = 16
GROUP, ORIGIN, ALTERNATIVE, OPTION, STEPS, DEPTH, PUSHED, PLACE, MATCHES, NEEDED, ROW = range(11)
"""Places of `resume`: the partition, the place of the start, the number of the alternative; see `BEGIN_OF_WALK`; then
the results of a call: matches, the room that frontiers need, and the start event."""
BEGIN_OF_WALK = {OPTION: -1, STEPS: 0, DEPTH: -1, PUSHED: -1, PLACE: 0}
"""The next option of the alternative, steps so far, the depth; the transition and the place of an event that did not
have the room to be taken (-1: none)."""
RESUME = 11

_TYPES: ArrayTypes = {
    **TYPES, **CLOCK, **FRONTIERS, "facts": (I64, True), "resume": (I64, True),
    "confidence": (F64, True), "order": (I64, False), "ahead": (I64, False), "threshold": (F64, False),
}  # fmt: skip
"""order: rows that qualify for something, each partition's (from_) by (lo, hi, arrival). ahead[state, place]: from each
place on, the next one of an event that a state can take."""


@dataclass(frozen=True)
class ImpreciseShape:
    """The parts that are compiled in. sets: by variable, is it a closure that is a set? given: are probabilities?"""

    path_shape: PathShape
    sets: tuple[bool, ...]
    given: bool
    windowed: bool


def imprecise_program(shape: ImpreciseShape) -> tuple[Program, CodeConstants]:
    """Matches of all start events: their events, and the confidence of each. A match is decided at its latest hi."""
    s = entry_scope("imprecise", _TYPES)
    f, walk = s.f, _Walk(shape)
    s.resume[MATCHES] = 0
    with f.loop(s.resume[GROUP], s.from_.length - 1) as group:
        widest, new_lo = _survey(s, group)
        with f.loop(f.greatest(s.resume[ORIGIN], s.from_[group]), s.from_[group + 1]) as origin:
            bits = s.bits[s.order[origin]]
            for number, root in enumerate(shape.path_shape.automaton.starts):
                mine = (bits & s.state_mask[root]).differs(0) & (s.resume[ALTERNATIVE] <= number)
                with f.when(mine):
                    with f.when(s.resume[OPTION] < 0):
                        s.resume[OPTION] = s.state_from[root]
                    s.resume[GROUP], s.resume[ORIGIN], s.resume[ALTERNATIVE] = group, origin, number
                    status = walk.emit(s, group, origin, root, widest, new_lo)
                    f.give_if(status.differs(FINE), status)
                    for place, begin in BEGIN_OF_WALK.items():
                        s.resume[place] = begin
            s.resume[ALTERNATIVE] = 0
    f.give(FINE)
    return s.program, walk.checks.constants


def _survey(s: Scope, group: Value) -> tuple[Value, Value]:
    """The widest interval of a partition, and the earliest time of undecided events."""
    f = s.f
    widest, new_lo = f.variable("widest", 0), f.variable("new_lo", EVER)
    with f.loop(s.from_[group], s.from_[group + 1]) as place:
        row = s.order[place]
        lo, hi = s.lo[row], s.hi[row]
        widest.set(f.greatest(widest, hi - lo))
        with f.when(_is_new(s, hi, group)):
            new_lo.set(f.least(new_lo, lo))
    return widest.value, new_lo.value


def _is_new(s: Scope, decided: Value, group: Value) -> Value:
    return (decided > s.done[group]) | s.done[group].equals(NEVER)


def _fact(s: Scope, depth: Value, which: int) -> Value:
    return s.facts[depth * FACTS + which]


def _put_fact(s: Scope, depth: Value, which: int, value: Value | int) -> None:
    s.facts[depth * FACTS + which] = value


class _Walk:
    """Emits the walk through the matches of one start event in one alternative."""

    def __init__(self, shape: ImpreciseShape) -> None:
        self.shape, self.automaton = shape, shape.path_shape.automaton
        self.has_sets = any(shape.sets)
        self.checks, self.confidence = Checks(shape.path_shape), ConfidenceCode(shape.given, self.has_sets)
        self.sets = [number for number, is_set in enumerate(shape.sets) if is_set]

    @subroutine()
    def emit(self, s: Scope, group: Value, origin: Value, root: Value, widest: Value, new_lo: Value) -> None:
        f = s.f
        self.group, self.origin, self.widest, self.new_lo = group, origin, widest, new_lo
        self.low, self.stop, self.window = s.from_[group], s.from_[group + 1], s.settings[WINDOW]
        self.kept = [f.variable("kept", s.resume[place]) for place in BEGIN_OF_WALK]
        self.option, self.steps, self.depth, self.pushed, self.place = self.kept
        self.next, take = f.block("next"), f.block("take")
        f.branch(self.pushed < 0, self.next, take)
        f.at(self.next)
        self.pushed.set(-1)
        self.place.set(origin)
        with f.either(self.depth < 0) as otherwise:
            self._find_first(s, root)
            otherwise()
            self._find_next(s)
        f.jump(take)
        f.at(take)
        self._take(s)
        self._accept(s)
        f.jump(self.next)

    def _find_first(self, s: Scope, root: Value) -> None:
        f, end = s.f, s.state_from[root + 1]
        self.checks.advance_option(s, self.option, end, s.bits[s.order[self.origin]])
        f.give_if(self.option >= end, FINE)
        self.pushed.set(self.option)
        self.option.set(self.option + 1)

    def _leave(self, s: Scope, status: int) -> None:
        """Return, to continue at this place."""
        for place, variable in zip(BEGIN_OF_WALK, self.kept):
            s.resume[place] = variable
        s.f.give(status)

    def _go_back(self, s: Scope) -> None:
        """Drop the last event and continue."""
        self.checks.drop(s, self.depth)
        s.f.jump(self.next)

    # ---- the next event --------------------------------------------------------------------------------------------

    def _find_next(self, s: Scope) -> None:
        """The next event that may come after the last one, and the transition that takes it."""
        f, depth = s.f, self.depth.value
        state = _fact(s, depth, STATE)
        newest = window_end(f, _fact(s, depth, FIRST_HI), self.window)
        after = self._earliest(s, depth)
        member = self._earliest_member(s, depth) if self.has_sets else after
        first, end = s.state_from[state], s.state_from[state + 1]
        option = f.variable("next_option", _fact(s, depth, NEXT_OPTION))
        ahead = s.order.length * state
        self.place.set(_fact(s, depth, NEXT_AT))
        with scanning(f, self.place, lambda now: now < self.stop, step=None) as (place, done):
            following = s.ahead[ahead + place]
            with f.either(following > place) as otherwise:
                self.place.set(following)
                option.set(first)
                otherwise()
                self.steps.set(self.steps + 1)
                row = s.order[place]
                f.jump_if(s.lo[row] > newest, done)
                with f.when(s.hi[row] > member):
                    self._choose(s, depth, place, row, after, option, end)
                    with f.when(option < end):
                        self.pushed.set(option)
                        _put_fact(s, depth, NEXT_AT, place)
                        _put_fact(s, depth, NEXT_OPTION, option + 1)
                        f.jump(done)
                self.place.set(place + 1)
                option.set(first)
        with f.when(self.steps > s.settings[BUDGET]):
            s.resume[ROW] = s.order[self.origin]
            f.give(BUDGET_SPENT)
        with f.when(self.pushed < 0):
            self._go_back(s)

    def _choose(
        self, s: Scope, depth: Value, place: Value, row: Value, after: Value, option: Variable, end: Value
    ) -> None:
        """Move an option to the first one that can take the event."""
        f, bits = s.f, s.bits[row]
        with scanning(f, option, lambda now: now < end) as (now, done):
            variable = s.t_variable[now]
            with f.when(has_bit(f, bits, variable)):
                fits = s.hi[row] > after
                if self.has_sets:
                    of_set = (_fact(s, depth, SET) >= 0) & variable.equals(s.t_variable[s.trans[depth]])
                    fits = f.select(of_set, place > _fact(s, depth, AT), fits)
                with f.when(fits):
                    f.jump_if(~is_on_path(s, depth, row), done)

    @subroutine()
    def _earliest(self, s: Scope, depth: Value) -> Operand:
        """The time that the next block must be able to come after."""
        f = s.f
        if self.has_sets:
            with f.when(_fact(s, depth, SET) >= 0):
                f.give(f.greatest(self._earliest_member(s, depth), _fact(s, depth, SET_LO)))
        return s.times[_fact(s, depth, BEGIN)]

    @subroutine()
    def _earliest_member(self, s: Scope, depth: Value) -> Operand:
        """The time that a further event of the set must be able to come after; outside a set, the time for the next
        block."""
        f = s.f
        with f.when(_fact(s, depth, SET) < 0):
            f.give(s.times[_fact(s, depth, BEGIN)])
        with f.loop(_fact(s, depth, BEGIN), _fact(s, depth, END)) as at, f.when(s.mass[at] > 0.0):
            f.give(s.times[at])
        return EVER

    # ---- take it ---------------------------------------------------------------------------------------------------

    def _take(self, s: Scope) -> None:
        """Take the event, if all conditions hold and the confidence is high enough."""
        f = s.f
        row, pushed = s.order[self.place], self.pushed.value
        variable = s.t_variable[pushed]
        before = self.depth.value
        points = self.confidence.points(s, row)
        through, free = f.variable("through", points), f.variable("free", 1)
        with f.when(before >= 0):
            through.set(through + _fact(s, before, POINTS))
            free.set(_fact(s, before, END))
        needed = free + through * 4 + 16
        with f.when(needed > s.times.length):
            s.resume[NEEDED] = needed
            self._leave(s, SMALL)
        continues = f.value(False)
        if self.has_sets:
            last = f.greatest(before, 0)
            continues = (before >= 0) & (_fact(s, last, SET) >= 0) & variable.equals(s.t_variable[s.trans[last]])
        self.depth.set(before + 1)
        depth = self.depth.value
        _put_fact(s, depth, STATE, s.t_target[pushed])
        _put_fact(s, depth, AT, self.place.value)
        _put_fact(s, depth, POINTS, through.value)
        self.checks.take(s, depth, row, pushed, variable)
        confidence = self.weight = f.variable("confidence", 0.0)
        fits = f.variable("fits", s.hi[row] <= s.settings[UNTIL])
        with f.when(fits):
            fits.set(self.checks.fit(s, pushed, depth))
        with f.when(fits):
            of_set = is_one_of(f, variable, self.sets)
            confidence.set(self._place(s, depth, row, of_set, continues))
            self._weigh(s, depth, points, confidence)
        with f.when((confidence <= 0.0) | (confidence + TOLERANCE < s.threshold[0])):
            self._go_back(s)
        self._look_from(s, depth)

    def _weigh(self, s: Scope, depth: Value, points: Value, confidence: Variable) -> None:
        """Weigh the path: no confidence outside the window or if it was emitted before; in an open window, that of
        being in it."""
        f = s.f
        self.steps.set(self.steps + (points >> 6))
        last_hi = _fact(s, depth, LAST_HI)
        newest = window_end(f, _fact(s, depth, FIRST_HI), self.window)
        is_out = ~_is_new(s, last_hi, self.group) & (newest < self.new_lo)
        with f.either((_fact(s, depth, LAST_LO) > newest) | is_out) as otherwise:
            confidence.set(0.0)
            otherwise()
            if self.shape.windowed:
                reaches = (confidence > 0.0) & (confidence + TOLERANCE >= s.threshold[0])
                ends = window_end(f, _fact(s, depth, FIRST_LO), self.window)
                with f.when(reaches & (last_hi > ends)):
                    self.steps.set(self.steps + (points * points >> 6))
                    self._note_sets(s, depth)
                    free = _fact(s, depth, END)
                    confidence.set(self.confidence.in_window(s, depth + 1, self.window, last_hi, free))

    def _note_sets(self, s: Scope, depth: Value) -> None:
        """Note the ends of the sets of the path."""
        if not self.has_sets:
            return
        f = s.f
        with f.loop(0, depth + 2) as at:
            s.set_stop[at] = 0
        with f.loop(0, depth + 1) as at:
            first = _fact(s, at, SET)
            with f.when(first >= 0):
                s.set_stop[first] = at + 1

    def _look_from(self, s: Scope, depth: Value) -> None:
        """Set the place where the search for the next event begins."""
        f = s.f
        place = _first_after(s, self.low, self.stop, window_start(f, self._earliest(s, depth), self.widest))
        if self.has_sets:
            place = f.select(_fact(s, depth, SET) >= 0, f.least(place, self.place + 1), place)
        _put_fact(s, depth, NEXT_AT, place)
        _put_fact(s, depth, NEXT_OPTION, s.state_from[_fact(s, depth, STATE)])

    @subroutine(F64)
    def _place(self, s: Scope, depth: Value, row: Value, of_set: Value, continues: Value) -> Operand:
        """Store the state of an event newly at `depth`, and its frontier. of_set: it is in a set, which it continues or
        begins. Returns the probability that all events so far are in order."""
        f = s.f
        lo, hi, before = s.lo[row], s.hi[row], f.greatest(depth - 1, 0)
        is_first = depth.equals(0)
        fact = {which: _fact(s, before, which) for which in range(FACTS)}
        own_set = f.select(continues, fact[SET], depth)
        _put_fact(s, depth, SET, f.select(of_set, own_set, -1) if self.has_sets else f.value(-1))
        _put_fact(s, depth, SET_LO, f.select(continues, f.greatest(lo, fact[SET_LO]), lo))
        in_first = f.select(is_first, of_set, continues & fact[IN_FIRST].differs(0))
        _put_fact(s, depth, IN_FIRST, in_first.to(I64))
        for which, time in ((FIRST_LO, lo), (FIRST_HI, hi)):
            least = f.select(in_first, f.least(time, fact[which]), fact[which])
            _put_fact(s, depth, which, f.select(is_first, time, least))
        for which, time in ((LAST_LO, lo), (LAST_HI, hi)):
            _put_fact(s, depth, which, f.select(is_first, time, f.greatest(time, fact[which])))
        begin, end = f.variable("begin", f.select(is_first, 0, fact[BEGIN])), f.variable("end", fact[END])
        end.set(f.select(is_first, 1, end))
        at, finish = f.variable("at", end), f.variable("finish", 0)
        if self.has_sets:
            self._add_event(s, depth, row, of_set, continues, fact, begin, end, at, finish)
        else:
            finish.set(self.confidence.following(s, depth, depth, row, EVER, False, begin, end, begin, at))
        _put_fact(s, depth, BEGIN, at.value)
        _put_fact(s, depth, END, finish.value)
        return total_mass(s, at.value, finish.value)

    def _add_event(
        self, s: Scope, depth: Value, row: Value, of_set: Value, continues: Value, fact: dict[int, Value],
        begin: Variable, end: Variable, at: Variable, finish: Variable,
    ) -> None:  # fmt: skip
        """Write the frontier of an event: in a set, after a set, or after a single event."""
        f, confidence = s.f, self.confidence
        closes = (depth > 0) & ~continues & (fact[SET] >= 0)
        base, base_end = f.variable("base", fact[BASE]), f.variable("base_end", fact[BASE_END])
        with f.when(of_set & ~continues & closes):
            begin.set(at)
            at.set(confidence.last_of_set(s, fact[SET], depth, False, base, base_end, at))
            end.set(at)
        with f.either(of_set) as otherwise:
            _put_fact(s, depth, BASE, f.select(continues, base, begin))
            _put_fact(s, depth, BASE_END, f.select(continues, base_end, end))
            finish.set(confidence.outlasting(s, row, begin, end, at))
            otherwise()
            first = f.select(closes, fact[SET], depth)
            from_, to = f.select(closes, base, begin), f.select(closes, base_end, end)
            finish.set(confidence.following(s, first, depth, row, EVER, False, from_, to, begin, at))

    # ---- is it a match? --------------------------------------------------------------------------------------------

    def _accept(self, s: Scope) -> None:
        f, depth = s.f, self.depth.value
        state = _fact(s, depth, STATE)
        with f.when(self.checks.is_accepting(s, state) & _is_new(s, _fact(s, depth, LAST_HI), self.group)):
            with f.when(self.checks.are_complete(s, state, depth)):
                number = s.resume[MATCHES]
                put_match(s, number, depth)
                s.confidence[number] = f.least(1.0, self.weight)
                s.resume[MATCHES] = number + 1
                with f.when(s.offsets[number + 1] >= s.settings[LIMIT]):
                    self.pushed.set(-1)
                    self._leave(s, FULL)


@subroutine()
def _first_after(s: Scope, first: Value, stop: Value, time: Value) -> Value:
    """The first place of an event that begins later than `time`."""
    return search_place(s.f, first, stop, lambda at: s.lo[s.order[at]] <= time)
