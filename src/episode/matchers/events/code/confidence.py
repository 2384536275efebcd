"""Probabilities of orders: independent event times, each over points of an interval (SASE++, sections 2.3 and 5.3).

A match is a row of blocks: single events, and sets of events whose order among themselves does not count. All events of
a block are strictly before those of the next. The *frontier* is where the last block ends: times in ascending order,
each with the probability that the blocks so far are in order and their last event is of that time. A block is added to
it with prefix sums over the points of its events; no combination of times is enumerated. No term of a sum is negative,
so a probability is zero only if it must be.

Frontiers are one after the other in two arrays, `times` and `mass`; before the first block there is one time, NEVER, of
probability 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from episode.matchers.code.searching import sort_numbers, window_end
from episode.matchers.times import EVER
from episode.native.builder import ArrayTypes, Program, Scope, subroutine
from episode.native.ir import F64, I64, Operand, Value, Variable
from episode.native.running import compiled_for

CLOCK: ArrayTypes = {
    "lo": (I64, False), "hi": (I64, False), "clock_step": (I64, False), "points_from": (I64, False),
    "exactly": (F64, False), "at_most": (F64, False),
}  # fmt: skip
FRONTIERS: ArrayTypes = {
    "times": (I64, True), "mass": (F64, True), "set_stop": (I64, True),
    "set_times": (I64, True), "first_times": (I64, True),
}  # fmt: skip
"""Frontiers; where the set that begins with an event of the path ends (0: it is a single event); times of sets."""


class EventClock(NamedTuple):
    """Times of events: points lo, lo + step … hi. If probabilities are given, those of event r are exactly[from_[r]:…],
    and at_most has their running sums; else these are empty, and all points of an event are equally probable."""

    lo: np.ndarray
    hi: np.ndarray
    step: int
    from_: np.ndarray
    exactly: np.ndarray
    at_most: np.ndarray

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        step = np.array([self.step], np.int64)
        return dict(zip(CLOCK, (self.lo, self.hi, step, self.from_, self.exactly, self.at_most), strict=True))


def running_sums(given: np.ndarray, from_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that add up to about 1 for every event, as `exactly` and `at_most` of a clock."""
    exactly, at_most = np.empty_like(given), np.empty_like(given)
    compiled_for(sums_program)([given, from_, exactly, at_most])
    return exactly, at_most


def sums_program() -> Program:
    program = Program("running_sums")
    f = program.function("run")
    given, from_ = f.array("given", F64), f.array("from_", I64)
    exactly, at_most = f.array("exactly", F64, writable=True), f.array("at_most", F64, writable=True)
    with f.loop(0, from_.length - 1) as row:
        begin, end = from_[row], from_[row + 1]
        total, running = f.variable("total", 0.0), f.variable("running", 0.0)
        with f.loop(begin, end) as at:
            total.set(total + given[at])
        with f.loop(begin, end) as at:
            running.set(running + given[at])
            exactly[at], at_most[at] = given[at].divide(total), running.divide(total)
    f.give(0)
    return program


class ConfidenceCode:
    """Emits probabilities. given: are those of points given, or are all equally probable? has_sets: are there sets? The
    functions that it builds take rows of events, places of the path, and places of frontiers."""

    def __init__(self, given: bool, has_sets: bool) -> None:
        self.given, self.has_sets = given, has_sets

    # ---- one event -------------------------------------------------------------------------------------------------

    def points(self, s: Scope, row: Value) -> Value:
        """The number of times that an event can have."""
        return (s.hi[row] - s.lo[row]).divide(s.clock_step[0]) + 1

    def up_to(self, s: Scope, row: Value, time: Value) -> Value:
        """The number of an event's times that are not after `time`."""
        f, lo, hi = s.f, s.lo[row], s.hi[row]
        within = f.select(time < lo, lo, f.least(time, hi))
        return f.select(time < lo, 0, (within - lo).divide(s.clock_step[0]) + 1)

    def point(self, s: Scope, row: Value, number: Value) -> Value:
        """The probability of an event's time of this number."""
        if self.given:
            return s.exactly[s.points_from[row] + number]
        return s.f.value(1.0).divide(self.points(s, row).to(F64))

    @subroutine(F64)
    def at(self, s: Scope, row: Value, time: Value) -> Value:
        """The probability that an event is of this very time."""
        f, lo, step = s.f, s.lo[row], s.clock_step[0]
        f.give_if((time < lo) | (time > s.hi[row]), 0.0)
        f.give_if((time - lo).remainder(step).differs(0), 0.0)
        return self.point(s, row, (time - lo).divide(step))

    @subroutine(F64)
    def between(self, s: Scope, row: Value, after: Value, until: Value) -> Value:
        """The probability that an event is after one time, and not after the other."""
        f = s.f
        low, high = self.up_to(s, row, after), self.up_to(s, row, until)
        f.give_if(low >= high, 0.0)
        if not self.given:
            return (high - low).to(F64).divide(self.points(s, row).to(F64))
        first = s.points_from[row]
        before = f.select(low > 0, s.at_most[first + f.greatest(low - 1, 0)], 0.0)
        return s.at_most[first + high - 1] - before

    # ---- sets ------------------------------------------------------------------------------------------------------

    @subroutine(F64)
    def all_between(self, s: Scope, first: Value, stop: Value, after: Value, until: Value, exact: Value) -> Operand:
        """The probability of that for all events path[first:stop]; exact: that the first of them is of `after`."""
        f = s.f
        some, none = f.variable("some", f.select(exact, 0.0, 1.0)), f.variable("none", f.select(exact, 1.0, 0.0))
        with f.loop(first, stop) as at:
            row = s.path[at]
            inside = self.between(s, row, after, until)
            with f.either(exact) as otherwise:
                here = f.variable("here", 0.0)
                with f.when(after <= until):
                    here.set(self.at(s, row, after))
                some.set(some * (inside + here) + none * here)
                none.set(none * inside)
                otherwise()
                some.set(some * inside)
        return some

    @contextmanager
    def each_time(
        self, s: Scope, name: str, first: Operand, stop: Operand, after: Value, until: Operand
    ) -> Iterator[Value]:
        """All times from `after` to `until` that events of the set path[first:stop] can have, in order."""
        f = s.f
        listed = self._list_times(name, s, first, stop, after, until)
        times = s.array(f"{name}_times")
        with f.loop(0, listed) as number:
            time = times[number]
            with f.when(number.equals(0) | times[f.greatest(number - 1, 0)].differs(time)):
                yield time

    @subroutine()
    def _list_times(self, name: str, s: Scope, first: Value, stop: Value, after: Value, until: Value) -> Operand:
        f, times = s.f, s.array(f"{name}_times")
        count = f.variable("count", 0)
        with f.loop(first, stop) as at:
            row = s.path[at]
            with f.loop(self.up_to(s, row, after - 1), self.points(s, row)) as number:
                time = s.lo[row] + number * s.clock_step[0]
                with f.when(time <= until):
                    times[count] = time
                    count.set(count + 1)
        sort_numbers(s, f"{name}_times", count.value)
        return count

    @subroutine()
    def last_of_set(
        self, s: Scope, first: Value, stop: Value, exact: Value, begin: Value, end: Value, at: Value
    ) -> Operand:
        """Write the frontier at `at` of the set path[first:stop] after begin:end, by its last event; return its end."""
        f = s.f
        after, place = f.variable("after", s.lo[s.path[first]]), f.variable("place", at)
        with f.loop(first, stop) as member:
            after.set(f.greatest(after, s.lo[s.path[member]]))
        with self.each_time(s, "set", first, stop, after.value, EVER) as time:
            total = f.variable("total", 0.0)
            with f.loop(begin, end) as number:
                before = s.times[number]
                with f.when((before < time) | (before.equals(time) & exact)):
                    total.set(total + s.mass[number] * self._ends_at(s, first, stop, before, time, exact))
            self._put(s, place, time, total.value)
        return place

    def _put(self, s: Scope, place: Variable, time: Value, mass: Value) -> None:
        """One more time of a frontier, if it has a probability."""
        with s.f.when(mass > 0.0):
            s.times[place], s.mass[place] = time, mass
            place.set(place + 1)

    @subroutine(F64)
    def _ends_at(self, s: Scope, first: Value, stop: Value, after: Value, time: Value, exact: Value) -> Operand:
        """The probability that all events of a set are after `after` and the last is of this time; exact: the first of
        them is of `after`. By whether one is at the beginning, and one at the end, among the events seen."""
        f = s.f
        with f.when(exact & after.equals(time)):
            all_here = f.variable("all_here", 1.0)
            with f.loop(first, stop) as at:
                all_here.set(all_here * self.at(s, s.path[at], time))
            f.give(all_here)
        neither, begun = (
            f.variable("neither", f.select(exact, 1.0, 0.0)),
            f.variable("begun", f.select(exact, 0.0, 1.0)),
        )
        ended, both = f.variable("ended", 0.0), f.variable("both", 0.0)
        with f.loop(first, stop) as at:
            row = s.path[at]
            inside = self.between(s, row, after, time - 1)
            here = f.variable("here", 0.0)
            with f.when(exact):
                here.set(self.at(s, row, after))
            there = self.at(s, row, time)
            both.set(both * (inside + here + there) + begun * there + ended * here)
            ended.set(ended * (inside + there) + neither * there)
            begun.set(begun * (inside + here) + neither * here)
            neither.set(neither * inside)
        return both

    # ---- frontiers -------------------------------------------------------------------------------------------------

    @subroutine()
    def outlasting(self, s: Scope, row: Value, begin: Value, end: Value, at: Value) -> Value:
        """Weigh a frontier by the probability that an event is after it; return its end."""
        with s.f.loop(begin, end) as number:
            place = at + (number - begin)
            time = s.times[number]
            s.mass[place] = s.mass[number] * self.between(s, row, time, EVER)
            s.times[place] = time
        return at + (end - begin)

    @subroutine()
    def following(
        self, s: Scope, first: Value, stop: Value, row: Value, until: Value, exact: Value, begin: Value, end: Value,
        own: Value, at: Value,
    ) -> Operand:  # fmt: skip
        """Write the frontier at `at` of a single event after begin:end and the set path[first:stop]; return its end.

        own: the frontier begin:end weighed by the set's events, which are after it. until: the last time that counts.
        exact: begin:end is one time, and the very first event is of it.
        """
        f, lo, latest = s.f, s.lo[row], s.times[end - 1]
        entangled = f.variable("entangled", False)
        with self._each_member(s, first, stop) as other:
            entangled.set(entangled | ((s.hi[other] >= lo) & (s.lo[other] <= latest)))
        before, total, place = f.variable("before", begin), f.variable("total", 0.0), f.variable("place", at)
        with f.loop(0, self.points(s, row)) as number:
            time = lo + number * s.clock_step[0]
            value = f.variable("value", self.point(s, row, number))
            with f.when((time <= until) & value.differs(0.0)):
                with f.either(exact) as otherwise:
                    value.set(value * self._exactly_before(s, first, stop, begin, time))
                    otherwise()
                    with f.either(entangled) as apart:
                        if self.has_sets:
                            value.set(value * self._weigh_entangled(s, first, stop, begin, end, time))
                        apart()
                        with f.during(lambda: (before < end) & (s.times[f.least(before, end - 1)] < time)):
                            total.set(total + s.mass[own + before - begin])
                            before.set(before + 1)
                        value.set(value * total)
                        with self._each_member(s, first, stop) as other:
                            with f.when((s.hi[other] >= lo) & (value > 0.0)):
                                value.set(value * self.between(s, other, latest, time - 1))
                self._put(s, place, time, value.value)
        return place

    def _exactly_before(self, s: Scope, first: Value, stop: Value, begin: Value, time: Value) -> Value:
        """The probability of the events before a time, if the very first event is of the time at `begin`."""
        f = s.f
        found = f.variable("found", f.select(time.equals(s.times[begin]), 1.0, 0.0))
        if self.has_sets:
            with f.when(first < stop):
                inside = self.all_between(s, first, stop, s.times[begin], time - 1, True)
                found.set(s.mass[begin] * inside)
        return found.value

    @contextmanager
    def _each_member(self, s: Scope, first: Value, stop: Value) -> Iterator[Value]:
        """The events of a set."""
        with s.f.loop(first, stop if self.has_sets else first) as member:
            yield s.path[member]

    def _weigh_entangled(self, s: Scope, first: Value, stop: Value, begin: Value, end: Value, time: Value) -> Value:
        """The probability of a frontier and a set before a time, time by time of the frontier."""
        f = s.f
        total = f.variable("sum", 0.0)
        with f.loop(begin, end) as number:
            before = s.times[number]
            with f.when(before < time):
                inside = self.all_between(s, first, stop, before, time - 1, False)
                total.set(total + s.mass[number] * inside)
        return total.value

    # ---- windows ---------------------------------------------------------------------------------------------------

    @subroutine(F64)
    def in_window(self, s: Scope, count: Value, window: Value, last: Value, at: Value) -> Operand:
        """The probability that the events path[:count] are in order and in a window. last: the latest time of all.

        By the time of the first event: for each of its times from which the window may end too early, and for all
        others together. at: room for the frontiers begins there.
        """
        f = s.f
        stop = f.greatest(s.set_stop[0], 1) if self.has_sets else f.value(1)
        earliest, latest = f.variable("earliest", s.lo[s.path[0]]), f.variable("latest", s.hi[s.path[0]])
        with f.loop(1, stop) as member:
            row = s.path[member]
            earliest.set(f.least(earliest, s.lo[row]))
            latest.set(f.least(latest, s.hi[row]))
        safe, total = last - window, f.variable("total", 0.0)
        with f.when(latest >= safe):
            total.set(total + self._in_order(s, count, safe - 1, EVER, False, at))
            latest.set(safe - 1)
        with self.each_time(s, "first", 0, stop, earliest.value, latest.value) as begin:
            total.set(total + self._in_order(s, count, begin, window_end(f, begin, window), True, at))
        return total

    @subroutine(F64)
    def _in_order(self, s: Scope, count: Value, after: Value, until: Value, exact: Value, at: Value) -> Operand:
        """The probability that events are in order, all after one time (exact: the first of that time), none after the
        other."""
        f = s.f
        s.times[at], s.mass[at] = after, 1.0
        begin, end, block = f.variable("begin", at), f.variable("end", at + 1), f.variable("block", 0)
        is_exact = f.variable("is_exact", exact)
        with f.during(lambda: block < count):
            free, own = f.variable("free", end), f.variable("own", begin)
            if self.has_sets:
                self._add_block(s, count, until, is_exact, begin, end, block, free, own)
            else:
                row = s.path[block]
                end.set(self.following(s, block, block, row, until, is_exact, begin, end, own, free))
                block.set(block + 1)
            begin.set(free)
            is_exact.set(False)
            f.give_if(begin.equals(end), 0.0)
        return total_mass(s, begin.value, end.value)

    def _add_block(
        self, s: Scope, count: Value, until: Value, is_exact: Variable, begin: Variable, end: Variable, block: Variable,
        free: Variable, own: Variable,
    ) -> None:  # fmt: skip
        """Write the frontier at `free` of the next set and the block after it: a set, or a single event."""
        f, first = s.f, block.value
        stop = f.greatest(s.set_stop[first], first)
        with f.when(stop.equals(count)):
            total = f.variable("total", 0.0)
            with f.loop(begin.value, end.value) as number:
                inside = self.all_between(s, first, stop, s.times[number], until, is_exact)
                total.set(total + s.mass[number] * inside)
            f.give(total)
        with f.either(s.set_stop[stop] > 0) as otherwise:
            end.set(self.last_of_set(s, first, stop, is_exact, begin, end, free))
            block.set(stop)
            otherwise()
            with f.when((stop > first) & ~is_exact):
                self._weigh(s, first, stop, begin.value, end.value, free, own)
            end.set(self.following(s, first, stop, s.path[stop], until, is_exact, begin, end, own, free))
            block.set(stop + 1)

    def _weigh(
        self, s: Scope, first: Value, stop: Value, begin: Value, end: Value, free: Variable, own: Variable
    ) -> None:
        """Weigh the frontier begin:end by the events of a set, at `free`, which is then the place after it."""
        f = s.f
        place = free.value
        source = f.variable("source", begin)
        with f.loop(first, stop) as member:
            free.set(self.outlasting(s, s.path[member], source, source + (end - begin), place))
            source.set(place)
        own.set(place)


def total_mass(s: Scope, begin: Value, end: Value) -> Operand:
    """The sum over a frontier."""
    total = s.f.variable("total", 0.0)
    with s.f.loop(begin, end) as number:
        total.set(total + s.mass[number])
    return total
