"""Counts choices: the number of final matches of an intermediate match, without making any of them.

Closures are one after the other between two single events. A choice takes events of each, in order: every event begins
after the one before it has ended. Choices are counted by dynamic programming over the events of one intermediate match,
as event trend aggregation does: the number of choices that end with an event is the sum over the events that may be
chosen right before it. Conditions between successive events make it a sum over some of those: from a Fenwick tree if
one value is compared, else from a table of pairs.

Numbers are three words: `high` and `low` (uint64), exact modulo 2**128, and `near` (float64), their approximate size;
they are only added and multiplied, so that `near` is off by rounding alone. All of them are in one memory, whose parts
begin at the places that `settings` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from episode.matchers.code.searching import first_at_least
from episode.matchers.codes import AT_LEAST, AT_MOST, EQUAL, GREATER
from episode.matchers.events.code.between import nodes_above, nodes_below
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope, subroutine
from episode.native.ir import F64, I64, U8, U64, U128, Operand, Value
from episode.native.running import compiled_for

ALL, TREE, PAIRS = 0, 1, 2
"""Relations of an event to the one chosen before it: none, one comparison, a table."""
NEEDED, LEAST, MOST, MAY_BE_EMPTY, RELATION, COMPARE = range(6)
"""Columns of closures. NEEDED: bits of the conditions that some event must satisfy; MOST: -1 for any number."""
_COLUMNS = 6
MATCHES, SUMS, FIRST, OWN, BEFORE, NOW = range(6)
"""Places of `settings`: the number of matches, then the parts of the memory, after one number for each match: the
complete choices up to and with each event, summed up over the events of its closure; of the closure at work: the ways
in which an event may be its first, the choices that end with an event by state, and those that may come before an event
by state (in the tree also by rank), in total and for the current one."""

_TYPES: ArrayTypes = {
    "settings": (I64, False), "closures": (I64, False), "from_": (I64, False), "start": (I64, False),
    "end": (I64, False), "order": (I64, False), "first_ok": (U8, False), "last_ok": (U8, False),
    "flags": (I64, False), "value": (I64, False), "value_before": (I64, False), "pair_from": (I64, False),
    "pairs": (U8, False), "low": (U64, True), "high": (U64, True), "near": (F64, True),
}  # fmt: skip


@dataclass(frozen=True)
class ClosureShape:
    """The part of a closure that is compiled in. one_state: neither the number of events nor a condition on some event
    counts."""

    relation: int
    compare: int
    may_be_empty: bool
    bounded: bool
    one_state: bool


@dataclass(frozen=True)
class ClosureChoices:
    """Events of closures between two single events, of many matches.

    from_ int64[closures, matches + 1]: where the events of each closure and match are in the other arrays, sorted by
    end; order int64: the same events, sorted by start. first_ok, last_ok uint8: may an event be the first, the last of
    its closure? flags int64: the needed conditions that it satisfies. value, value_before int64: ranks of the values
    compared with the event chosen before it, and by the one chosen after it, among all of both in the match (-1: null).
    closures int64[closures, 6], in columns NEEDED …; pairs uint8[pair_from[closure, match] + before * events + event].
    """

    from_: np.ndarray
    start: np.ndarray
    end: np.ndarray
    order: np.ndarray
    first_ok: np.ndarray
    last_ok: np.ndarray
    flags: np.ndarray
    value: np.ndarray
    value_before: np.ndarray
    closures: np.ndarray
    pair_from: np.ndarray
    pairs: np.ndarray

    @property
    def shapes(self) -> tuple[ClosureShape, ...]:
        return tuple(_shape_of(*closure) for closure in self.closures.tolist())

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the code."""
        closures = self.closures
        longest = np.diff(self.from_, axis=1).max(axis=1, initial=0)
        states = np.maximum(1, np.where(closures[:, MOST] >= 0, closures[:, MOST], closures[:, LEAST]))
        states *= closures[:, NEEDED] + 1
        before = np.where(closures[:, RELATION] == TREE, 2 * longest + 1, 1) * states
        matches = self.from_.shape[1] - 1
        sizes = (matches, len(self.end), longest.max(), (longest * states).max(), before.max(), states.max())
        ends = np.cumsum(sizes, dtype=np.int64)
        numbers = {name: np.zeros(ends[-1], type_.dtype) for name, (type_, written) in _TYPES.items() if written}
        given = {name: array.reshape(-1) for name, array in vars(self).items()}
        return {**given, **numbers, "settings": np.concatenate([[matches], ends[:-1]])}

    def count(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(high, low, near) per match: the number of ways to choose events."""
        arrays, matches = self.arrays(), self.from_.shape[1] - 1
        compiled_for(choices_program, self.shapes).run(arrays)
        return arrays["high"][:matches], arrays["low"][:matches], arrays["near"][:matches]


def _shape_of(needed: int, least: int, most: int, may_be_empty: int, relation: int, compare: int) -> ClosureShape:
    compare = compare if relation == TREE else EQUAL
    return ClosureShape(relation, compare, bool(may_be_empty), most >= 0, needed == 0 and most < 0 and least <= 1)


def choices_program(shapes: Sequence[ClosureShape]) -> Program:
    s = entry_scope("choices", _TYPES)
    with s.f.loop(0, s.settings[MATCHES]) as match:
        for number in range(len(shapes)):
            _count_closure(shapes, number, s, match)
        _add_before(s, shapes, len(shapes) - 1, match, None, match)
    s.f.give(0)
    return s.program


# ---- numbers ---------------------------------------------------------------------------------------------


@subroutine()
def _clear(s: Scope, first: Value, count: Value) -> None:
    with s.f.loop(first, first + count) as at:
        s.low[at] = s.high[at] = 0
        s.near[at] = 0.0


def _number(s: Scope, at: Value) -> Value:
    return s.high[at].to(U128) << 64 | s.low[at].to(U128)


def _put(s: Scope, at: Value, number: Value) -> None:
    s.low[at] = number.to(U64)
    s.high[at] = (number >> 64).to(U64)


@subroutine()
def _add(s: Scope, at: Value, other: Value) -> None:
    """Add the number at one place to that at another."""
    _put(s, at, _number(s, at) + _number(s, other))
    s.near[at] = s.near[at] + s.near[other]


def _add_states(s: Scope, at: Value, step: Operand, other: Value, other_step: Operand, states: Value) -> None:
    """Add the numbers of all states to others."""
    with s.f.loop(0, states) as state:
        _add(s, at + state * step, other + state * other_step)


# ---- closures --------------------------------------------------------------------------------------------


def _events(s: Scope, number: int, match: Value) -> tuple[Value, Value]:
    """The begin and the end of the events of a closure in a match."""
    at = (s.settings[MATCHES] + 1) * number + match
    return s.from_[at], s.from_[at + 1]


def _add_before(
    s: Scope, shapes: Sequence[ClosureShape], last: int, match: Value, time: Value | None, at: Value
) -> None:  # fmt: skip
    """Add the choices of the closures up to number `last` whose events have all ended before a time (None: at all)."""
    f = s.f
    for number in range(last, -1, -1):
        begin, stop = _events(s, number, match)
        before = stop if time is None else first_at_least(s, "end", begin, stop, time)
        with f.when(before > begin):
            _add(s, at, s.settings[SUMS] + before - 1)
        if not shapes[number].may_be_empty:
            return
    _put(s, at, _number(s, at) + 1)
    s.near[at] = s.near[at] + 1.0


@subroutine()
def _count_closure(shapes: Sequence[ClosureShape], number: int, s: Scope, match: Value) -> None:
    """Sum up the complete choices of one closure in one match."""
    f, closure = s.f, _ClosureEvents(s, shapes[number], number, match)
    begin, count = closure.begin, closure.count
    _clear(s, s.settings[FIRST], count)
    with f.loop(0, count) as event:
        _add_before(s, shapes, number - 1, match, s.start[begin + event], s.settings[FIRST] + event)
    _clear(s, s.settings[OWN], count * closure.states)
    _clear(s, s.settings[BEFORE], closure.states * closure.nodes if closure.shape.relation == TREE else closure.states)
    seen = f.variable("seen", 0)
    with f.loop(0, f.select(closure.is_possible, count, 0)) as turn:
        event = s.order[begin + turn]
        with f.during(lambda: (seen < count) & (s.end[begin + f.least(seen, count - 1)] < s.start[event])):
            closure.note(seen.value)
            seen.set(seen + 1)
        own = s.settings[OWN] + (event - begin) * closure.states
        closure.take(event, own, closure.sum_before(event, seen.value))
        with f.when(s.first_ok[event].differs(0)):
            _add(s, own + s.flags[event], s.settings[FIRST] + (event - begin))
    closure.sum_up()


class _ClosureEvents:
    """The events of a closure in a match, and the states of its choices: the number of their events, as far as it
    counts, and the conditions that some of them satisfy."""

    def __init__(self, s: Scope, shape: ClosureShape, number: int, match: Value) -> None:
        f = s.f
        self.s, self.shape, self.number, self.match = s, shape, number, match
        self.begin, stop = _events(s, number, match)
        self.count = stop - self.begin
        self.nodes = self.count * 2 + 1
        needed, least, most = (s.closures[number * _COLUMNS + column] for column in (NEEDED, LEAST, MOST))
        if shape.one_state:
            self.needed, self.least, self.levels = f.value(0), f.value(1), f.value(1)
        else:
            self.needed, self.least = needed, f.greatest(least, 1)
            self.levels = f.greatest(most if shape.bounded else least, 1)
        self.is_possible = (most > 0) & (least <= most) if shape.bounded else f.value(True)
        self.width = self.needed + 1
        self.states = self.levels * self.width

    def note(self, event: Value) -> None:
        """Make an event available as one before others."""
        s, shape = self.s, self.shape
        own, before = s.settings[OWN] + event * self.states, s.settings[BEFORE]
        if shape.relation == ALL:
            _add_states(s, before, 1, own, 1, self.states)
        elif shape.relation == TREE:
            rank = s.value_before[self.begin + event]

            def add(node: Value) -> None:
                _add_states(s, before + node, self.nodes, own, 1, self.states)

            with s.f.when(rank >= 0):
                if shape.compare == EQUAL:
                    add(rank)
                else:
                    nodes_above(s.f, _nodes_before(shape.compare, rank, self.nodes) + 1, self.nodes, add)

    def sum_before(self, event: Value, seen: Value) -> Value:
        """The place of the choices, by state, that may come before an event."""
        s, f, shape = self.s, self.s.f, self.shape
        before, now = s.settings[BEFORE], s.settings[NOW]
        if shape.relation == ALL:
            return before
        _clear(s, now, self.states)
        if shape.relation == TREE:
            rank = s.value[event]

            def add(node: Value) -> None:
                _add_states(s, now, 1, before + node, self.nodes, self.states)

            with f.when(rank >= 0):
                if shape.compare == EQUAL:
                    add(rank)
                else:
                    last = _nodes_before(shape.compare, rank, self.nodes)
                    nodes_below(f, last + 1 if shape.compare in (AT_LEAST, AT_MOST) else last, add)
            return now
        table = s.pair_from[s.settings[MATCHES] * self.number + self.match] + (event - self.begin)
        with f.loop(0, seen) as other:
            with f.when(s.pairs[table + other * self.count].differs(0)):
                _add_states(s, now, 1, s.settings[OWN] + other * self.states, 1, self.states)
        return now

    def take(self, event: Value, own: Value, now: Value) -> None:
        """Continue the choices that may come before an event with it."""
        s, f, bounded = self.s, self.s.f, self.shape.bounded
        if self.shape.one_state:
            _add(s, own, now)
            return
        with f.loop(0, self.levels - 1 if bounded else self.levels) as level:
            following = level + 1 if bounded else f.least(level + 1, self.levels - 1)
            with f.loop(0, self.width) as mask:
                _add(s, own + following * self.width + (mask | s.flags[event]), now + level * self.width + mask)

    def sum_up(self) -> None:
        """Sum up the complete choices that end with an event or one before it."""
        s, f = self.s, self.s.f
        sums, own = s.settings[SUMS] + self.begin, s.settings[OWN]
        _clear(s, sums, self.count)
        with f.loop(0, self.count) as event:
            with f.when(event > 0):
                for words in (s.low, s.high, s.near):
                    words[sums + event] = words[sums + event - 1]
            with f.when(s.last_ok[self.begin + event].differs(0)):
                with f.loop(self.least - 1, self.levels) as level:
                    _add(s, sums + event, own + event * self.states + level * self.width + self.needed)


def _nodes_before(compare: int, rank: Value, width: Value) -> Value:
    """The number of nodes of the tree before that of a rank: from the least rank on, or from the greatest on."""
    return rank if compare in (GREATER, AT_LEAST) else width - 2 - rank
