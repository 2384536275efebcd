"""The automaton: runs of an event pattern from every start event, under any selection strategy.

Depth first, without recursion. A run is a path of taken events; a transition takes one event of a variable. Tests when
an event is taken (conditions, absence of negating events) are emitted for each transition, and tests at the end for
each accepting state: see `checks` and `negations`.

The code returns when another match does not fit. It is then called again with more room, and begins anew with the start
event that it was at.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.code.expressions import CodeConstants
from episode.matchers.code.searching import window_end
from episode.matchers.events.code.arrays import BUDGET, LIMIT, TYPES, UNTIL, WINDOW
from episode.matchers.events.code.between import FINE, FULL, TOO_MANY, KeptVariables, scanning
from episode.matchers.events.code.checks import Checks, PathShape, is_one_of
from episode.matchers.events.code.negations import DROPPED, REFUSED, Negations
from episode.matchers.times import NEVER
from episode.native.builder import Program, Scope, entry_scope, subroutine
from episode.native.ir import BOOL, I32, Operand, Value

ANY, NEXT, CONTIGUOUS = 0, 1, 2
BUDGET_SPENT = 3
"""Statuses of the code, in addition to those of `between`."""
ORIGIN, MATCHES = 0, 1
"""Places of `kept`: the start event at work, and the matches so far."""


@dataclass(frozen=True)
class RunsShape:
    """The parts that are compiled in. waits: a match is decided when its window has passed, and not with its last
    event."""

    path_shape: PathShape
    strategy: int
    waits: bool


def runs_program(shape: RunsShape) -> tuple[Program, CodeConstants]:
    """All matches of all start events: offsets, out_rows, out_variables have the events of each, in order.

    bits: variables (and negations) that a row qualifies for; starts: may a match start here? Matches are kept that are
    decided later than `done` of their partition (NEVER: nothing is emitted yet) and not later than UNTIL.
    """
    s = entry_scope("runs", TYPES)
    f, walk = s.f, _Walk(shape)
    kept = KeptVariables(s, "origin matches")
    with f.loop(0, s.from_.length - 1) as group:
        stop = s.from_[group + 1]
        kept.origin.set(f.greatest(kept.origin, s.from_[group]))
        with f.during(lambda: kept.origin < stop):
            with f.when(s.starts[kept.origin].differs(0)):
                found = f.variable("found", kept.matches)
                for root in shape.path_shape.automaton.starts:
                    with f.when((found >= 0) & (s.bits[kept.origin] & s.state_mask[root]).differs(0)):
                        found.set(walk.emit(s, group, kept.origin, root, found))
                for status in (FULL, TOO_MANY, BUDGET_SPENT):
                    with f.when(found.equals(-status)):
                        kept.leave(status)
                kept.matches.set(found)
            kept.origin.set(kept.origin + 1)
    kept.leave(FINE)
    return s.program, walk.checks.constants


class _Walk:
    """Emits the walk through the matches of one start event: returns their number, with those before, or -status."""

    def __init__(self, shape: RunsShape) -> None:
        self.shape, self.automaton = shape, shape.path_shape.automaton
        self.checks = Checks(shape.path_shape)
        self.negations = Negations(self.checks)

    @subroutine()
    def emit(self, s: Scope, group: Value, origin: Value, root: Value, before: Value) -> None:
        f = s.f
        self.group, self.before = group, before
        self.first, self.stop = s.from_[group], s.from_[group + 1]
        self.newest = window_end(f, s.start[origin], s.settings[WINDOW])
        self.matches, self.steps = f.variable("matches", before), f.variable("steps", 0)
        self.depth, self.row, self.pushed = f.variable("depth", -1), f.variable("row", origin), f.variable("pushed", -1)
        if self.negations.are_searched:
            s.spent[0] = 0
        option = f.variable("option", s.state_from[root])
        self.next = f.block("next")
        f.jump(self.next)
        f.at(self.next)
        self.pushed.set(-1)
        with f.either(self.depth < 0) as otherwise:
            self.row.set(origin)
            end = s.state_from[root + 1]
            self.checks.advance_option(s, option, end, s.bits[origin])
            f.give_if(option >= end, self.matches)
            self.pushed.set(option)
            option.set(option + 1)
            otherwise()
            self._find_next(s)
            self._spend(s)
            with f.when(self.pushed < 0):
                self._go_back(s)
        self._take(s)
        self._accept(s)
        f.jump(self.next)

    def _spend(self, s: Scope) -> None:
        """Give up if too many steps were taken."""
        steps = self.steps + s.spent[0] if self.negations.are_searched else self.steps.value
        s.f.give_if(steps > s.settings[BUDGET], -BUDGET_SPENT)

    def _go_back(self, s: Scope) -> None:
        """Drop the last event and continue."""
        self.checks.drop(s, self.depth)
        s.f.jump(self.next)

    def _find_next(self, s: Scope) -> None:
        """The next event after the last one, and the transition that takes it."""
        f, depth = s.f, self.depth.value
        state, last = s.at_state[depth], s.path[depth]
        mask, after = s.state_mask[state], s.end[last]
        first, end = s.state_from[state], s.state_from[state + 1]
        option = f.variable("option", s.next_option[depth] + first)
        stop = f.select(mask.equals(0), 0, self.stop)
        self.row.set(s.next_row[depth])
        with scanning(f, self.row, lambda now: now < stop) as (row, done):
            self.steps.set(self.steps + 1)
            if self.shape.strategy == CONTIGUOUS:
                f.jump_if(row > last + 1, done)
            if self.shape.strategy == NEXT:
                f.jump_if((s.took[depth] >= 0) & (s.took[depth] < row), done)
            f.jump_if(s.end[row] > self.newest, done)
            bits = s.bits[row]
            with f.when((bits & mask).differs(0) & (s.start[row] > after)):
                self.checks.advance_option(s, option, end, bits)
                with f.when(option < end):
                    self.pushed.set(option)
                    s.next_row[depth] = row
                    s.next_option[depth] = option + 1 - first
                    f.jump(done)
            option.set(first)

    def _take(self, s: Scope) -> None:
        """Take the event, if all conditions hold."""
        f = s.f
        self.depth.set(self.depth + 1)
        depth, row, pushed = self.depth.value, self.row.value, self.pushed.value
        variable = s.t_variable[pushed]
        s.at_state[depth] = s.t_target[pushed]
        s.next_row[depth] = row + 1
        s.next_option[depth] = 0
        s.took[depth] = -1
        self.checks.take(s, depth, row, pushed, variable)
        fits = f.variable("fits", s.end[row] <= self.newest)
        with f.when(fits):
            fits.set(self.checks.fit(s, pushed, depth))
        if self.negations.are_crossed:
            with f.when(fits & (depth > 0)):
                fits.set(~self.negations.is_crossed(s, pushed, depth))
                if self.negations.are_searched:
                    self._spend(s)
        with f.when(~fits):
            self._go_back(s)

    def _accept(self, s: Scope) -> None:
        """Emit a match if the path is one, and continue with the next."""
        f, depth, row = s.f, self.depth.value, self.row.value
        state = s.at_state[depth]
        with f.when(~self.checks.is_accepting(s, state)):
            self._note_taken(s, depth, row)
            f.jump(self.next)
        complete = self.checks.are_complete(s, state, depth)
        late = f.variable("late", 0)
        if any(self.automaton.late):
            with f.when(complete):
                late.set(self.negations.late(s, state, depth, self.first, self.stop, self.newest))
                if self.negations.are_searched:
                    self._spend(s)
            if self.shape.strategy == NEXT:  # a later event may do
                last = [at for at, is_last in enumerate(self.automaton.in_last_place) if is_last]
                with f.when((late & REFUSED).differs(0) & is_one_of(f, state, last)):
                    self._go_back(s)
        self._note_taken(s, depth, row)
        f.jump_if(~complete | (late & REFUSED).differs(0), self.next)
        if self.shape.strategy == NEXT:  # this run has ended; those that took the event otherwise continue
            s.next_row[depth] = self.stop
        f.jump_if((late & DROPPED).differs(0), self.next)
        decided, done = self.newest if self.shape.waits else s.end[row], s.done[self.group]
        with f.when(((decided > done) | done.equals(NEVER)) & (decided <= s.settings[UNTIL])):
            number = self.matches.value
            f.give_if(put_match(s, number, depth).differs(FINE), -FULL)
            if self.automaton.repeats:
                f.jump_if(_is_there(s, self.before, number), self.next)
            self.matches.set(number + 1)
            f.give_if(s.offsets[number + 1] > s.settings[LIMIT], -TOO_MANY)

    def _note_taken(self, s: Scope, depth: Value, row: Value) -> None:
        if self.shape.strategy == NEXT:
            with s.f.when(depth > 0):
                s.took[depth - 1] = row


@subroutine()
def put_match(s: Scope, number: Value, depth: Value) -> Operand:
    """Write the path as a match. Returns FULL if it does not fit."""
    f = s.f
    size = s.offsets[number]
    f.give_if((size + depth >= s.out_rows.length) | (number + 2 > s.offsets.length), FULL)
    with f.loop(0, depth + 1) as at:
        s.out_rows[size + at] = s.path[at].to(I32)
        s.out_variables[size + at] = s.t_variable[s.trans[at]].to(I32)
    s.offsets[number + 1] = size + depth + 1
    return FINE


@subroutine(BOOL)
def _is_there(s: Scope, first: Value, last: Value) -> Operand:
    """Is match `last` equal to one of first .. last - 1?"""
    f = s.f
    at, size = s.offsets[last], s.offsets[last + 1] - s.offsets[last]
    with f.loop(first, last) as match:
        begin = s.offsets[match]
        with f.when((s.offsets[match + 1] - begin).equals(size)):
            same = f.variable("same", True)
            with f.loop(0, size) as number:
                one, other = begin + number, at + number
                rows = s.out_rows[one].equals(s.out_rows[other])
                same.set(same & rows & s.out_variables[one].equals(s.out_variables[other]))
            f.give_if(same, True)
    return False
