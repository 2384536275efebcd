"""Emits negations of an automaton: is there a forbidden event, or a match of a negated pattern?

All functions concern the path up to a depth (see `checks`). Steps of a search are added to `spent[0]`; the caller
compares them with its budget.
"""

from __future__ import annotations

import numpy as np

from episode.matchers.code.searching import first_at_least, window_start
from episode.matchers.events.code.arrays import BUDGET, WINDOW
from episode.matchers.events.code.between import scanning
from episode.matchers.events.code.checks import Checks, is_on_path, is_one_of
from episode.matchers.times import EVER, NEVER
from episode.native.builder import Scope, subroutine
from episode.native.ir import BOOL, U64, Operand, Value, Variable
from episode.plan.events.automaton import FIRST, MIDDLE, AutomatonPlan

NOT_THERE, REFUSED, DROPPED = 0, 1, 2
"""Results of a negation that is tested at the end: nothing was found; something before the last event; after it."""
LOOKED_AT = -2


def transition_arrays(automaton: AutomatonPlan, variables: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Transitions of state s: state_from[s]:state_from[s + 1], each takes t_variable and leads to t_target; state_mask:
    bits of their variables."""
    transitions = automaton.transitions
    bit = {name: number for number, name in enumerate(variables)}
    masks = np.zeros(automaton.states, np.uint64)
    for one in transitions:
        masks[one.source] |= np.uint64(1 << bit[one.variable])
    from_ = np.searchsorted([one.source for one in transitions], np.arange(automaton.states + 1))
    return {
        "state_from": from_.astype(np.int64),
        "t_variable": np.array([bit[one.variable] for one in transitions], np.int64),
        "t_target": np.array([one.target for one in transitions], np.int64),
        "state_mask": masks,
    }


class Negations:
    """Emits the negations of an automaton in a program."""

    def __init__(self, checks: Checks) -> None:
        self.checks, self.automaton = checks, checks.automaton

    @property
    def are_searched(self) -> bool:
        """Is there a negated pattern of several events, which takes steps?"""
        return any(one.start is not None for one in self.automaton.negations)

    @property
    def are_crossed(self) -> bool:
        """Is a negation tested as soon as the event after it is taken?"""
        return any(now for one in self.automaton.transitions for _, now in one.crosses)

    @subroutine(BOOL)
    def is_crossed(self, s: Scope, transition: Value, depth: Value) -> Operand:
        """Is something forbidden between the last event, which a transition has taken, and the one before it?

        Only negations that are tested now. The last event is not the first one.
        """
        f = s.f
        row, before = s.path[depth], s.path[depth - 1]
        low, high = s.end[before] + 1, s.start[row] - 1
        for number in range(len(self.automaton.negations)):
            crossing = self._crossing(number, now=True)
            if crossing:
                with f.when(is_one_of(f, transition, crossing)):
                    f.give_if(self.forbids(number, s, low, high, before + 1, row, depth), True)
        return False

    def _crossing(self, number: int, now: bool) -> list[int]:
        """The transitions between whose event and the one before it a negation lies."""
        return [at for at, one in enumerate(self.automaton.transitions) if (number, now) in one.crosses]

    # ---- in the end ------------------------------------------------------------------------------------------------

    @subroutine()
    def late(self, s: Scope, state: Value, depth: Value, first: Value, stop: Value, newest: Value) -> Operand:
        """Test negations of an accepting state at the end: NOT_THERE, or bits REFUSED and DROPPED.

        first:stop are the rows of the partition; newest: the end of the window that begins with the match.
        """
        f = s.f
        found = f.variable("found", NOT_THERE)
        for number in sorted({one for negations in self.automaton.late for one in negations}):
            states = [at for at, negations in enumerate(self.automaton.late) if number in negations]
            with f.when(is_one_of(f, state, states) & (found & REFUSED).equals(0)):
                found.set(found | self._late_one(number, s, depth, first, stop, newest))
        return found

    @subroutine()
    def _late_one(self, number: int, s: Scope, depth: Value, first: Value, stop: Value, newest: Value) -> Operand:
        """NOT_THERE, REFUSED or DROPPED."""
        f, negation = s.f, self.automaton.negations[number]
        begins, ends = s.start[s.path[0]], s.end[s.path[depth]]
        before = f.variable("before", 0 if negation.place == FIRST else -1)
        if negation.place == MIDDLE:
            later, now = self._crossing(number, now=False), self._crossing(number, now=True)
            with f.loop(0, depth + 1) as at:
                before.set(f.select(is_one_of(f, s.trans[at], later), at, before))
                before.set(f.select(is_one_of(f, s.trans[at], now), LOOKED_AT, before))

        def give_if_there(place: int, low: Value, high: Value, first_row: Value, stop_row: Value) -> None:
            there = self.forbids(number, s, low, high, first_row, stop_row, depth)
            f.give(f.select(there, place, NOT_THERE))

        with f.when(before > 0):
            one, other = s.path[before - 1], s.path[before]
            give_if_there(REFUSED, s.end[one] + 1, s.start[other] - 1, one + 1, other)
        with f.when(before.equals(0) & begins.differs(NEVER)):
            low = window_start(f, ends, s.settings[WINDOW])
            origin = s.path[0]
            give_if_there(REFUSED, low, begins - 1, first_at_least(s, "end", first, origin, low), origin)
        with f.when(before.equals(-1) & ends.differs(EVER)):
            give_if_there(DROPPED, ends + 1, newest, s.path[depth] + 1, stop)
        return NOT_THERE

    # ---- one event, or a match of a pattern ------------------------------------------------------------------------

    def forbids(self, number: int, s: Scope, *where: Value) -> Value:
        """Does a negation find a forbidden event in low .. high, both included, among rows first_row:stop_row?

        where: low, high, first_row, stop_row, and the depth of the path."""
        find = self._has_event if self.automaton.negations[number].start is None else self._occurs
        return find(number, s, *where)

    @subroutine(BOOL)
    def _has_event(
        self, number: int, s: Scope, low: Value, high: Value, first_row: Value, stop_row: Value, depth: Value
    ) -> Operand:
        """Does an event of a negation exist, apart from those of the path?"""
        f, negation = s.f, self.automaton.negations[number]
        mask = f.constant(1 << self.checks.bit[negation.variables[0]], U64)
        row = f.variable("row", first_row)
        with scanning(f, row, lambda now: now < stop_row, lambda now: s.end[now] <= high) as (now, _):
            candidate = (s.bits[now] & mask).differs(0) & (s.start[now] >= low)
            with f.when(candidate), f.when(~is_on_path(s, depth, now)):
                failed = f.block("failed")
                for check in negation.checks:
                    f.jump_if(~self.checks.holds_for(check, s, -1, now, depth), failed)
                f.give(True)
                f.at(failed)
        return False

    @subroutine(BOOL)
    def _occurs(
        self, number: int, s: Scope, low: Value, high: Value, first_row: Value, stop_row: Value, base: Value
    ) -> Operand:
        """Does a match of a negated pattern exist? Depth first, up to the first one.

        Its events are taken onto the path of the match around it, above the depth `base`, so that conditions find the
        events of both; at the end they are dropped again.
        """
        f, budget = s.f, s.settings[BUDGET]
        start = self.automaton.negations[number].start
        assert start is not None
        accepting = [one for one in self._states(number) if self.automaton.accepting[one]]
        s.n_state[base] = start
        row, option, depth = f.variable("row", first_row), f.variable("option", 0), f.variable("depth", base)
        steps, found = f.variable("steps", 0), f.variable("found", False)
        with f.during(lambda: ~found.value & (steps <= budget)) as done:
            pushed = self._next_event(s, low, high, stop_row, base, depth, row, option, steps)
            fits = f.variable("fits", False)
            with f.when(pushed >= 0):
                state = self._push(s, pushed, depth, row, option)
                fits.set(self.checks.fit(s, pushed, depth.value))
                with f.when(fits):
                    complete = f.variable("complete", is_one_of(f, state, accepting))
                    with f.when(complete):
                        complete.set(self.checks.are_complete(s, state, depth.value))
                    with f.when(complete):
                        lifted = self._is_lifted(number, s, state, low, high, first_row, stop_row, base, depth.value)
                        found.set(~lifted)
                    row.set(row + 1)
                    option.set(0)
            with f.when(~fits):
                f.jump_if(depth.equals(base), done)
                self.checks.drop(s, depth)
                row.set(s.n_row[depth])
                option.set(s.n_option[depth])
        with f.during(lambda: depth > base):
            self.checks.drop(s, depth)
        s.spent[0] = s.spent[0] + steps
        return found

    def _next_event(
        self, s: Scope, low: Value, high: Value, stop_row: Value, base: Value, depth: Variable, row: Variable,
        option: Variable, steps: Variable,
    ) -> Value:  # fmt: skip
        """The transition that takes an event next, from `row` and `option` on; -1: none."""
        f = s.f
        at = depth.value
        state = s.n_state[at]
        mask, first, stop = s.state_mask[state], s.state_from[state], s.state_from[state + 1]
        earliest = f.select(at.equals(base), low, s.end[s.path[at]] + 1)
        is_open = at.equals(base) | s.end[s.path[at]].differs(EVER)
        pushed = f.variable("pushed", -1)
        with scanning(f, row, lambda now: now < stop_row, lambda now: s.end[now] <= high) as (now, after):
            steps.set(steps + 1)
            bits = s.bits[now]
            with f.when((bits & mask).differs(0) & is_open & (s.start[now] >= earliest)):
                transition = f.variable("transition", first + option)
                self.checks.advance_option(s, transition, stop, bits)
                with f.when(transition < stop), f.when(~is_on_path(s, base, now)):
                    pushed.set(transition)
                    f.jump(after)
            option.set(0)
        return pushed.value

    def _push(self, s: Scope, pushed: Value, depth: Variable, row: Variable, option: Variable) -> Value:
        """Take an event of the negated pattern; return the state after it."""
        state = s.n_state[depth]
        s.n_row[depth] = row
        s.n_option[depth] = pushed + 1 - s.state_from[state]
        depth.set(depth + 1)
        target = s.t_target[pushed]
        s.n_state[depth] = target
        self.checks.take(s, depth.value, row.value, pushed, s.t_variable[pushed])
        return target

    def _states(self, number: int) -> set[int]:
        """The states of a negated pattern."""
        start = self.automaton.negations[number].start
        assert start is not None
        reached = [start]
        for source in reached:
            targets = (one.target for one in self.automaton.transitions if one.source == source)
            reached += [one for one in dict.fromkeys(targets) if one not in reached]
        return set(reached)

    @subroutine(BOOL)
    def _is_lifted(
        self, number: int, s: Scope, state: Value, low: Value, high: Value, first_row: Value, stop_row: Value,
        base: Value, depth: Value,
    ) -> Operand:  # fmt: skip
        """Does a negation inside the negated pattern find an event, so that its match does not count?

        All of them are tested here, where all events are known: between events, from `low` or to `high` at the edges.
        """
        f, states = s.f, self._states(number)
        inner = {one for at in self.automaton.transitions if at.source in states for one, _ in at.crosses}
        for one in sorted(inner):
            crossing = [*self._crossing(one, now=True), *self._crossing(one, now=False)]
            with f.loop(base + 1, depth + 1) as at, f.when(is_one_of(f, s.trans[at], crossing)):
                after = f.select(at.equals(base + 1), low, s.end[s.path[at - 1]] + 1)
                before = s.start[s.path[at]] - 1
                f.give_if(self._has_event(one, s, after, before, first_row, stop_row, depth), True)
        begins, ends = s.start[s.path[base + 1]], s.end[s.path[depth]]
        for one in sorted({one for at in states for one in self.automaton.late[at]}):
            place = self.automaton.negations[one].place
            if place == MIDDLE:
                continue
            after, before = (low, begins - 1) if place == FIRST else (ends + 1, high)
            there = begins.differs(NEVER) if place == FIRST else ends.differs(EVER)
            those = [at for at in states if one in self.automaton.late[at]]
            with f.when(is_one_of(f, state, sorted(those)) & there):
                f.give_if(self._has_event(one, s, after, before, first_row, stop_row, depth), True)
        return False
