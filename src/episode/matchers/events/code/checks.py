"""Emits the tests of events that are taken one by one, along the transitions of an automaton.

The events taken are a path: `path`, `trans`, `earlier` and the running aggregates by depth, `last_depth` and `taken` by
variable (see `arrays`). Emitters add events with `take`, and remove the last one with `drop`. All functions here are
called with a depth: the last event of the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from episode.matchers.code.aggregates import AggregateShape, AggregateState, choose_state
from episode.matchers.code.expressions import CodeConstants, Emitted
from episode.matchers.events.code.between import advance, scanning
from episode.matchers.events.code.conditions import ConditionColumns, EventConditions, only_label
from episode.native.builder import Function, Scope, subroutine
from episode.native.ir import BOOL, I128, U64, Operand, Value, Variable
from episode.plan.events.automaton import AutomatonPlan
from episode.plan.expressions import Navigated, Running, walk

_ARRAYS = {"count": "agg_n", "whole": "agg_i", "real": "agg_f", "more": "agg_m"}
"""The arrays of the fields of an aggregate's state."""
REACHES_CURRENT = "current"


@dataclass(frozen=True)
class PathShape:
    """The part of an automaton that is compiled in. variables: of the plan; the number of one is its bit.

    arguments: (is float, row in its lane, row of validity) of the argument of each running aggregate.
    """

    automaton: AutomatonPlan
    variables: tuple[str, ...]
    columns: ConditionColumns
    runnings: tuple[Running, ...]
    aggregates: tuple[AggregateShape, ...]
    arguments: tuple[tuple[bool, int, int], ...]


def runnings_of(automaton: AutomatonPlan) -> tuple[Running, ...]:
    """The running aggregates that the checks of an automaton read."""
    nodes = (node for check in automaton.checks for node in walk(check.expression))
    return tuple(dict.fromkeys(node for node in nodes if isinstance(node, Running)))


class Checks:
    """Emits the checks of an automaton in a program. constants: their constants in it."""

    def __init__(self, shape: PathShape, constants: CodeConstants | None = None) -> None:
        self.shape, self.automaton = shape, shape.automaton
        self.constants = CodeConstants() if constants is None else constants

    @cached_property
    def bit(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.shape.variables)}

    # ---- the path --------------------------------------------------------------------------------------------------

    def take(self, s: Scope, depth: Operand, row: Operand, transition: Operand, variable: Operand) -> None:
        """Put an event on the path at `depth`, and into the running aggregates."""
        s.path[depth], s.trans[depth] = row, transition
        s.earlier[depth] = s.last_depth[variable]
        s.last_depth[variable] = depth
        s.taken[variable] = s.taken[variable] + 1
        if self.shape.runnings:
            self._add_event(s, depth, row, variable)

    def drop(self, s: Scope, depth: Variable) -> None:
        """Take the last event off the path."""
        last = depth.value
        variable = s.t_variable[s.trans[last]]
        s.last_depth[variable] = s.earlier[last]
        s.taken[variable] = s.taken[variable] - 1
        depth.set(last - 1)

    def advance_option(self, s: Scope, option: Variable, end: Value, bits: Value) -> None:
        """Move to the next of the transitions before `end` that can take an event with these bits."""
        advance(s.f, option, end, lambda one: ~has_bit(s.f, bits, s.t_variable[one]))

    def is_accepting(self, s: Scope, state: Value) -> Value:
        return is_one_of(s.f, state, [at for at, accepts in enumerate(self.automaton.accepting) if accepts])

    @subroutine()
    def _add_event(self, s: Scope, depth: Value, row: Value, variable: Value) -> None:
        """Add one more event to the running aggregates."""
        f, begins = s.f, depth.equals(0)
        emitter = self._conditions(s, row, row, depth)
        for number, (running, aggregate) in enumerate(zip(self.shape.runnings, self.shape.aggregates)):
            before = choose_state(f, begins, aggregate.empty(f), self.state_at(s, number, f.greatest(depth - 1, 0)))
            value, null = self._argument(emitter, number, row)
            after = aggregate.fold(f, before, value, row)
            is_of = variable.equals(self.bit[only_label(running)])
            state = choose_state(f, is_of if null is None else is_of & ~null, after, before)
            for field in aggregate.fields:
                s.array(_ARRAYS[field])[depth * len(self.shape.runnings) + number] = getattr(state, field)

    def state_at(self, s: Scope, number: int, depth: Value) -> AggregateState:
        """The state of a running aggregate at a depth."""
        place = depth * len(self.shape.runnings) + number
        fields = self.shape.aggregates[number].fields
        return AggregateState(**{field: s.array(_ARRAYS[field])[place] for field in fields})

    def _argument(self, emitter: EventConditions, number: int, row: Value) -> tuple[Value | None, Value | None]:
        """The argument of an aggregate at an event, and whether it is null; COUNT needs no value."""
        running, aggregate = self.shape.runnings[number], self.shape.aggregates[number]
        if running.argument is None:
            return None, None
        column = self.shape.arguments[number]
        if running.function == "count":
            return None, emitter.null_of(column, row)
        value, null = emitter.value_of(column, row)
        if aggregate.takes_words:
            is_float, place, check = column
            high, _ = emitter.value_of((is_float, place + 1, check), row)
            value = high.to(I128) << 64 | value.bits_as(U64).to(I128)
        return value, null

    # ---- conditions ------------------------------------------------------------------------------------------------

    def fit(self, s: Scope, transition: Value, depth: Value) -> Value:
        """Do the checks of a transition hold, that has taken the last event?"""
        lists = [one.checks for one in self.automaton.transitions]
        return self._all_hold("fit", lists, s, transition, depth) if any(lists) else s.f.value(True)

    def are_complete(self, s: Scope, state: Value, depth: Value) -> Value:
        """Do the checks hold that are tested at the end, in an accepting state?"""
        lists = self.automaton.end_checks
        return self._all_hold("at_the_end", lists, s, state, depth) if any(lists) else s.f.value(True)

    @subroutine(BOOL)
    def _all_hold(self, _name: str, lists: Sequence[tuple[int, ...]], s: Scope, which: Value, depth: Value) -> Operand:
        """Do the checks of one of the lists hold?"""
        f = s.f
        passed = f.block("passed")
        blocks = {checks: f.block("checks") if checks else passed for checks in lists}
        f.switch(which, {number: blocks[checks] for number, checks in enumerate(lists)})
        for checks, block in blocks.items():
            if checks:
                f.at(block)
                for check in checks:
                    f.give_if(~self.holds(s, check, depth), False)
                f.jump(passed)
        f.at(passed)
        return True

    def holds(self, s: Scope, number: int, depth: Value) -> Value:
        """Does a check hold, once for the last event or for each of the events that it is about?"""
        f, check = s.f, self.automaton.checks[number]
        if check.each:
            return self._holds_for_each(number, s, depth)
        if check.loop is None:
            return self.holds_for(number, s, depth, s.path[depth], depth)
        holds = f.variable("holds", True)
        with f.when(s.taken[self.bit[check.loop]] > check.back):
            holds.set(self.holds_for(number, s, depth, s.path[depth], depth))
        return holds.value

    @subroutine(BOOL)
    def _holds_for_each(self, number: int, s: Scope, depth: Value) -> Operand:
        f, check = s.f, self.automaton.checks[number]
        assert check.loop is not None
        variable = self.bit[check.loop]
        at, left = f.variable("at", s.last_depth[variable]), f.variable("left", s.taken[variable])
        with scanning(f, at, lambda now: now >= 0, lambda _: left > check.back, step=None) as (now, _):
            f.give_if(~self.holds_for(number, s, now, s.path[now], depth), False)
            at.set(s.earlier[now])
            left.set(left - 1)
        return True

    @subroutine(BOOL)
    def holds_for(self, number: int, s: Scope, at: Value, current: Value, depth: Value) -> Value:
        """Does a check hold with `current` as current row, which is the event at depth `at` of the path (-1: none)?"""
        return self._conditions(s, at, current, depth).holds(self.automaton.checks[number].expression)

    def _conditions(self, s: Scope, at: Value, current: Value, depth: Value) -> EventConditions:
        def find(event: Navigated) -> tuple[Value, Value | None]:
            return self._find(s, event, at, current)

        def running(aggregate: Running) -> Emitted:
            return self._finish(s, aggregate, at, depth)

        conditions = EventConditions(s, self.shape.columns, self.constants, find, running)
        conditions.begin(current)
        return conditions

    def _finish(self, s: Scope, running: Running, at: Value, depth: Value) -> Emitted:
        """The value of a running aggregate: of all events, or up to the current one, with or without it."""
        f, number = s.f, self.shape.runnings.index(running)
        covered = depth
        if running.reach != "all":
            last = at if running.reach == REACHES_CURRENT else f.greatest(at - 1, 0)
            covered = f.select(at < 0, depth, last)
        return self.shape.aggregates[number].finish(f, self.state_at(s, number, covered))

    def _find(self, s: Scope, event: Navigated, at: Value, current: Value) -> tuple[Value, Value | None]:
        """The row of an event of the path, and whether it exists (otherwise any row that can be read)."""
        f = s.f
        if event.labels is None:
            return s.path[0], None
        variable, offset = self.bit[only_label(event)], event.offset
        depth = s.last_depth[variable]
        if event.first:
            after = s.taken[variable] - (offset + 1)
            depth = f.select(after < 0, -1, _step_back(s, depth, after))
        elif offset > 0:
            depth = _step_back(s, at, offset)
        there = depth >= 0
        return f.select(there, s.path[f.select(there, depth, 0)], current), there


@subroutine()
def _step_back(s: Scope, depth: Value, steps: Value) -> Value:
    """The depth of the event of the same variable `steps` steps before one; -1 without such an event."""
    f = s.f
    at, left = f.variable("at", depth), f.variable("left", steps)
    with f.during(lambda: (left > 0) & (at >= 0)):
        at.set(s.earlier[at])
        left.set(left - 1)
    return at


@subroutine(BOOL)
def is_on_path(s: Scope, depth: Value, row: Value) -> Operand:
    """Is an event on the path?"""
    with s.f.loop(0, depth + 1) as at:
        s.f.give_if(s.path[at].equals(row), True)
    return False


def is_one_of(f: Function, value: Value, numbers: Sequence[int]) -> Value:
    """Is a value one of some numbers?"""
    found = f.value(False)
    for number in numbers:
        found = found | value.equals(number)
    return found


def has_bit(f: Function, bits: Value, number: Value) -> Value:
    """Is a bit of a word set?"""
    return (bits >> number.bits_as(U64) & f.constant(1, U64)).differs(0)
