"""Emits joins of event buffers: the operators of tree plans.

A join lists pairs of a left and a right record, by the end of the later one, and then writes the records that these
make. It joins left records l_lo[g]:l_hi[g] with right ones r_lo[g]:r_hi[g] of each partition g; there may be more
records in the arrays around them. Records are sorted by their end.

Left records may be kept from call to call (`stores`): those before l_entered[g] are in l_values and the hash table
already. Of a conjunction both sides are kept, and pairs with a record from l_new[g] or r_new[g] on are listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from episode.matchers.code.expressions import COMPARE, CodeConstants
from episode.matchers.code.searching import first_at_least, search_place, window_end, window_start
from episode.matchers.events.code.arrays import LIMIT, ROWS, TYPES, WINDOW
from episode.matchers.events.code.between import FINE, FULL, TOO_MANY, KeptVariables, advance, scanning
from episode.matchers.events.code.conditions import (
    LEFT,
    RIGHT,
    GatheredValues,
    PairTests,
    RecordTests,
    compared_values,
    hashed_values,
    load_event,
)
from episode.matchers.times import EVER, NEVER
from episode.native.builder import ArrayTypes, Function, Program, Scope, entry_scope, subroutine
from episode.native.ir import BOOL, F64, I32, I64, U64, Array, Operand, Value, Variable

NEAR = 8
"""Records that are tested one by one before a place is searched for."""
KEPT = {"range": "group right low high last before count tried", "hash": "group right entered count tried",
        "together": "group left right l_low r_low count tried", "met": "group left right count tried"}  # fmt: skip
"""Variables of a join between two calls, by its kind (met: together, by a hash table). right: -1 until a partition
begins."""
_BEGINS = {**dict.fromkeys(("low", "high", "last", "l_low"), "l_lo"), "r_low": "r_lo", "entered": "l_entered",
           "left": "l_new", "right": "r_new"}  # fmt: skip
"""The records that variables are at when a partition begins."""
COUNT, TRIED = -2, -1
"""Their last places: pairs that were found, and tried."""
_MIXER = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class JoinShape:
    """The part of a join that is compiled in.

    kind: `range` and `hash` list left records that end before right ones begin, `together` records in any order.
    lasting: may a left record begin before it ends? barred: (left, right): are there bounds on the times of the other
    side? distinct: no event may be in both.
    """

    kind: str
    tests: RecordTests
    lasting: bool = True
    barred: tuple[bool, bool] = (False, False)
    distinct: bool = False

    @property
    def is_hashed(self) -> bool:
        """Are pairs looked up by equal values?"""
        return self.kind == "hash" or (self.kind == "together" and bool(hashed_values(self.tests)))

    @property
    def kept(self) -> str:
        return KEPT["met" if self.kind == "together" and self.is_hashed else self.kind]


def join_program(join: JoinShape) -> tuple[Program, CodeConstants]:
    """The program that lists pairs, and the constants that it reads."""
    program, constants = Program(f"{join.kind}_join"), CodeConstants()
    emit: Callable[[Scope, JoinShape, CodeConstants], None] = {
        "range": _range_join, "hash": _hash_join,
        "together": _meet_together if join.is_hashed else _join_together,
    }[join.kind]  # fmt: skip
    emit(Scope(program.function("run"), TYPES), join, constants)
    return program, constants


@contextmanager
def _each_group(
    s: Scope, kept: str, at: KeptVariables, begin: Callable[[Value], None] = lambda group: None
) -> Iterator[Value]:
    """Run the code built inside for the partitions, from the one at work on; then return. begin: builds the code that
    begins a partition."""
    f, groups = s.f, s.done.length
    with f.during(lambda: at.group < groups):
        group = at.group.value
        with f.when(at.right < 0):
            for name in kept.split():
                if name in _BEGINS:
                    getattr(at, name).set(s.array(_BEGINS[name])[group])
            begin(group)
        yield group
        s.out_from[group + 1] = at.count
        at.right.set(-1)
        at.group.set(group + 1)
    at.leave(FINE)


# ---- left records that end before right ones begin -----------------------------------------------------------------


def _range_join(s: Scope, join: JoinShape, constants: CodeConstants) -> None:
    """List the left records that fit each right one: first by the comparisons that read no events."""
    f = s.f
    values = compared_values(join.tests)
    tests = PairTests(s, join.tests if values is None else join.tests.without(values.condition), constants)
    at = KeptVariables(s, join.kept)
    limit, window = s.settings[LIMIT], s.settings[WINDOW]

    def begin(group: Value) -> None:
        if values is not None:
            _gather(s, join.tests, LEFT, (values,), s.l_entered[group], s.l_hi[group])
            _gather(s, join.tests, RIGHT, (values,), s.r_new[group], s.r_hi[group])
            s.l_entered[group] = s.l_hi[group]
        with f.when(s.r_new[group] < s.r_hi[group]):
            ends = s.r_end[s.r_new[group]]
            at.low.set(first_at_least(s, "l_end", s.l_lo[group], s.l_hi[group], window_start(f, ends, window)))
            at.high.set(first_at_least(s, "l_end", at.low, s.l_hi[group], ends))
            at.last.set(at.low)

    with _each_group(s, join.kept, at, begin) as group:
        stop, done, r_stop = s.l_hi[group], s.done[group], s.r_hi[group]
        with f.during(lambda: at.right < r_stop):
            right = at.right.value
            ends = s.r_end[right]
            with f.when((at.low < stop) & (ends > done)):
                oldest = window_start(f, ends, window)
                first = _first_left(s, join, at, stop, ends, oldest)
                _last_left(s, join, at, right)
                with f.when(at.last > first):
                    _make_room(s, at, at.last - first)
                    at.tried.set(at.tried + (at.last - first))
                    fit = _list_fitting(s, join, values, at, right, first, oldest)
                    _list_tested(s, tests, at, right, fit)
                    with f.when(at.count > limit):
                        at.leave(TOO_MANY)
            at.right.set(right + 1)
        at.before.set(NEVER)


def _first_left(s: Scope, join: JoinShape, at: KeptVariables, stop: Value, ends: Value, oldest: Value) -> Value:
    """The first left record that does not end too early; moves `low` and `high` around those in the window."""
    f = s.f
    advance(f, at.low, stop, lambda left: s.l_end[left] < oldest)
    advance(f, at.high, stop, lambda left: s.l_end[left] < ends)
    first = f.variable("first", at.low)
    if join.barred[1]:
        low = s.r_low[at.right]
        with f.when(low > oldest):
            first.set(first_at_least(s, "l_end", at.low, at.high, low))
    return first.value


def _last_left(s: Scope, join: JoinShape, at: KeptVariables, right: Value) -> None:
    """Move `last` behind the last left record that ends early enough.

    Right records with one end begin one after the other: most often it is near the last one.
    """
    f = s.f
    bound = s.r_start[right]
    if join.barred[1]:
        bound = f.least(bound, s.r_high[right])
    at.last.set(f.greatest(at.low, f.select(bound >= at.before, at.last, at.low)))
    at.before.set(bound)
    near = f.least(at.high, at.last + NEAR)
    advance(f, at.last, near, lambda left: s.l_end[left] < bound)
    with f.when(at.last.equals(near)):
        at.last.set(first_at_least(s, "l_end", at.last, at.high, bound))


def _list_fitting(
    s: Scope,
    join: JoinShape,
    values: GatheredValues | None,
    at: KeptVariables,
    right: Value,
    first: Value,
    oldest: Value,
) -> Value:
    """List left records from `first` to `last` by comparisons without branches; return their end."""
    f = s.f
    value = None if values is None else s.r_values[right]
    begins = s.r_start[right] if join.barred[0] else None
    fit = f.variable("fit", at.count)
    with f.loop(first, at.last) as left:
        s.lefts[fit] = left.to(I32)
        fits = f.value(True)
        if join.lasting:
            fits = fits & (s.l_start[left] >= oldest)
        if begins is not None:
            fits = fits & (s.l_low[left] < begins) & (begins <= s.l_high[left])
        if values is not None and value is not None:
            fits = fits & COMPARE[values.operation](s.l_values[left], value)
        fit.set(fit + fits.to(I64))
    return fit.value


def _list_tested(s: Scope, tests: PairTests, at: KeptVariables, right: Value, fit: Value) -> None:
    """Keep the listed left records for which the tests hold, with the right record of each."""
    f = s.f
    begin = at.count.value
    if tests.tests.conditions:
        with f.loop(begin, fit) as place:
            left = s.lefts[place].to(I64)
            with tests.holding(left, right):
                s.lefts[at.count] = left.to(I32)
                at.count.set(at.count + 1)
    else:
        at.count.set(fit)
    with f.loop(begin, at.count) as place:
        s.rights[place] = right.to(I32)


def _make_room(s: Scope, at: KeptVariables, number: Value) -> None:
    """Leave if `number` more pairs do not fit; they are tried again then."""
    with s.f.when(at.count + number > s.lefts.length):
        at.leave(FULL)


# ---- values that are compared --------------------------------------------------------------------------------------


def _gather(
    s: Scope, tests: RecordTests, side: str, values: tuple[GatheredValues, ...], begin: Value, stop: Value
) -> None:  # fmt: skip
    """Gather the values of a side's records, next to each other."""
    gathered = s.array(f"{side}_values")
    with s.f.loop(begin, stop) as record:
        gathered[record] = _value(s, tests, side, values, record)


def _value(s: Scope, tests: RecordTests, side: str, values: tuple[GatheredValues, ...], record: Value) -> Value:
    """The value of a record, or a hash of its values."""
    found: Value | None = None
    for one in values:
        is_float, place, column = one.left if side == LEFT else one.right
        cell = s.settings[ROWS] * place + load_event(s, tests, side, record, column)
        value = _image(s.f, s.floats[cell]) if is_float else s.ints[cell]
        found = value if found is None else (_mix(s.f, found) + value.bits_as(U64)).bits_as(I64)
    assert found is not None
    return found


def _image(f: Function, value: Value) -> Value:
    """A whole number in the order of the floating point numbers, NaN last, zeros alike."""
    bits = (value + 0.0).bits_as(I64)
    return f.select(value.differs(value), EVER, bits ^ ((bits >> 63) & EVER))


# ---- left records by a hash table ----------------------------------------------------------------------------------


def _hash_join(s: Scope, join: JoinShape, constants: CodeConstants) -> None:
    """List pairs like `_range_join`, but of records with equal values (which the tests also compare).

    Left records enter a hash table as time passes.
    """
    f = s.f
    tests, table = PairTests(s, join.tests, constants), _HashTable(s, join.tests, LEFT)
    at = KeptVariables(s, join.kept)
    limit, window = s.settings[LIMIT], s.settings[WINDOW]

    def begin(group: Value) -> None:
        _gather(s, join.tests, RIGHT, table.values, s.r_new[group], s.r_hi[group])

    with _each_group(s, join.kept, at, begin) as group:
        stop, r_stop, done = s.l_hi[group], s.r_hi[group], s.done[group]
        with f.during(lambda: at.right < r_stop):
            right = at.right.value
            ends = s.r_end[right]
            with f.when(ends > done):
                _enter(s, table, at.entered, group, stop, ends)
                with f.when(at.entered > s.l_lo[group]):
                    head = table.head(group, s.r_values[right])
                    _follow_chain(s, join, tests, at, right, window_start(f, ends, window), head)
                with f.when(at.count > limit):
                    at.leave(TOO_MANY)
            at.right.set(right + 1)
        s.l_entered[group] = at.entered


class _HashTable:
    """Emits the hash table of a side: the records of a bucket are chained from the latest back."""

    def __init__(self, s: Scope, tests: RecordTests, side: str) -> None:
        self.s, self.tests, self.side = s, tests, side
        self.values = hashed_values(tests)

    def array(self, name: str) -> Array:
        return self.s.array(f"{self.side}_{name}")

    def _bucket(self, group: Value, value: Value) -> Value:
        f = self.s.f
        mixed = (_mix(f, value) >> f.constant(20, U64)).to(I64)
        return self.array("buckets")[group] + (mixed & self.array("mask")[group])

    def head(self, group: Value, value: Value) -> Value:
        """The latest record in the bucket of a value; -1 if there is none."""
        return self.array("heads")[self._bucket(group, value)]

    def enter(self, group: Value, record: Value) -> None:
        value = _value(self.s, self.tests, self.side, self.values, record)
        bucket = self._bucket(group, value)
        self.array("values")[record] = value
        self.array("chain")[record] = self.array("heads")[bucket]
        self.array("heads")[bucket] = record


def _enter(s: Scope, table: _HashTable, entered: Variable, group: Value, stop: Value, ends: Value) -> None:
    """Enter left records that end before a right one into the table."""

    def enter(left: Value) -> Value:
        earlier = s.l_end[left] < ends
        with s.f.when(earlier):
            table.enter(group, left)
        return earlier

    advance(s.f, entered, stop, enter)


def _follow_chain(
    s: Scope, join: JoinShape, tests: PairTests, at: KeptVariables, right: Value, oldest: Value, head: Value
) -> None:  # fmt: skip
    f = s.f
    value, before, low = s.r_values[right], s.r_start[right], oldest
    if join.barred[1]:
        before, low = f.least(before, s.r_high[right]), f.greatest(oldest, s.r_low[right])
    count, tried = at.count.value, at.tried.value
    left = f.variable("left", head)
    with scanning(f, left, lambda now: now >= 0, lambda now: s.l_end[now] >= low, step=None) as (now, _):
        at.tried.set(at.tried + 1)
        fits = s.l_values[now].equals(value) & (s.l_end[now] < before)
        if join.lasting:
            fits = fits & (s.l_start[now] >= oldest)
        if join.barred[0]:
            begins = s.r_start[right]
            fits = fits & (s.l_low[now] < begins) & (begins <= s.l_high[now])
        with f.when(fits), tests.holding(now, right):
            with f.when(at.count.equals(s.lefts.length)):  # this right record is tried again
                at.count.set(count)
                at.tried.set(tried)
                at.leave(FULL)
            _put_pair(s, at, now, right)
        left.set(s.l_chain[now])


def _mix(f: Function, value: Value) -> Value:
    return value.bits_as(U64) * f.constant(_MIXER, U64)


def _put_pair(s: Scope, at: KeptVariables, left: Value, right: Value) -> None:
    s.lefts[at.count] = left.to(I32)
    s.rights[at.count] = right.to(I32)
    at.count.set(at.count + 1)


# ---- records in any order ------------------------------------------------------------------------------------------


def _join_together(s: Scope, join: JoinShape, constants: CodeConstants) -> None:
    """List pairs of left and right records in any order, within the window."""
    f = s.f
    at = KeptVariables(s, join.kept)
    limit, window = s.settings[LIMIT], s.settings[WINDOW]

    def begin(group: Value) -> None:
        for side, low, own, other in ((LEFT, at.l_low, at.left, RIGHT), (RIGHT, at.r_low, at.right, LEFT)):
            first = s.array(f"{other}_new")[group]
            with f.when((first < s.array(f"{other}_hi")[group]) & (low < own)):
                oldest = window_start(f, s.array(f"{other}_end")[first], window)
                low.set(first_at_least(s, f"{side}_end", low, own, oldest))

    with _each_group(s, join.kept, at, begin) as group:
        l_stop, r_stop, done = s.l_hi[group], s.r_hi[group], s.done[group]
        with f.during(lambda: (at.left < l_stop) | (at.right < r_stop)):
            with f.either(_is_right_next(s, at, l_stop, r_stop)) as otherwise:
                _pair_up(s, join, constants, at, RIGHT, done, window)
                otherwise()
                _pair_up(s, join, constants, at, LEFT, done, window)
            with f.when(at.count > limit):
                at.leave(TOO_MANY)


def _is_right_next(s: Scope, at: KeptVariables, l_stop: Value, r_stop: Value) -> Value:
    """Does the next right record end before the next left one?"""
    f = s.f
    is_right = f.variable("is_right", at.left.equals(l_stop))
    with f.when((at.left < l_stop) & (at.right < r_stop)):
        is_right.set(s.r_end[at.right] < s.l_end[at.left])
    return is_right.value


def _pair_up(
    s: Scope, join: JoinShape, constants: CodeConstants, at: KeptVariables, side: str, done: Value, window: Value
) -> None:
    """Pair the next record of a side with those of the other side that came before it."""
    f, other = s.f, LEFT if side == RIGHT else RIGHT
    own, others = (at.left, at.right) if side == LEFT else (at.right, at.left)
    low = at.r_low if side == LEFT else at.l_low
    now = own.value
    ends, oldest = s.array(f"{side}_end")[now], window_start(f, s.array(f"{side}_end")[now], window)
    for name, place, stop in ((LEFT, at.l_low, at.left.value), (RIGHT, at.r_low, at.right.value)):
        advance(f, place, stop, lambda record, name=name: s.array(f"{name}_end")[record] < oldest)  # type: ignore[misc]
    wanted = ((ends > done) | done.equals(NEVER)) & (s.array(f"{side}_start")[now] >= oldest)
    with f.when(wanted):
        _make_room(s, at, others - low)
        at.tried.set(at.tried + (others - low))
        with f.loop(low, others) as record:
            left, right = (now, record) if side == LEFT else (record, now)
            with f.when(s.array(f"{other}_start")[record] >= oldest):
                with f.when(_fit(join, constants, s, left, right)):
                    _put_pair(s, at, left, right)
    own.set(now + 1)


def _meet_together(s: Scope, join: JoinShape, constants: CodeConstants) -> None:
    """List pairs like `_join_together`, but of records with equal values: each meets those that came before it in the
    hash table of the other side."""
    f = s.f
    tables = {side: _HashTable(s, join.tests, side) for side in (LEFT, RIGHT)}
    at = KeptVariables(s, join.kept)
    limit, window = s.settings[LIMIT], s.settings[WINDOW]

    def begin(group: Value) -> None:
        for side, table in tables.items():
            with f.loop(table.array("entered")[group], s.array(f"{side}_new")[group]) as record:
                table.enter(group, record)

    with _each_group(s, join.kept, at, begin) as group:
        l_stop, r_stop, done = s.l_hi[group], s.r_hi[group], s.done[group]
        with f.during(lambda: (at.left < l_stop) | (at.right < r_stop)):
            with f.either(_is_right_next(s, at, l_stop, r_stop)) as otherwise:
                _meet(s, join, constants, at, tables, RIGHT, group, done, window)
                otherwise()
                _meet(s, join, constants, at, tables, LEFT, group, done, window)
            with f.when(at.count > limit):
                at.leave(TOO_MANY)
        s.l_entered[group], s.r_entered[group] = l_stop, r_stop


def _meet(
    s: Scope, join: JoinShape, constants: CodeConstants, at: KeptVariables, tables: dict[str, _HashTable], side: str,
    group: Value, done: Value, window: Value,
) -> None:  # fmt: skip
    """Pair the next record of a side with those in the table of the other one, and enter it into its own."""
    f = s.f
    other = LEFT if side == RIGHT else RIGHT
    mine, its, own = tables[side], tables[other], at.left if side == LEFT else at.right
    now = own.value
    ends = s.array(f"{side}_end")[now]
    oldest = window_start(f, ends, window)
    wanted = ((ends > done) | done.equals(NEVER)) & (s.array(f"{side}_start")[now] >= oldest)
    with f.when(wanted & (s.array(f"{other}_lo")[group] < s.array(f"{other}_hi")[group])):
        value = _value(s, join.tests, side, mine.values, now)
        count, tried = at.count.value, at.tried.value
        record = f.variable("record", its.head(group, value))
        in_time = scanning(
            f, record, lambda one: one >= 0, lambda one: s.array(f"{other}_end")[one] >= oldest, step=None
        )
        with in_time as (met, _):
            at.tried.set(at.tried + 1)
            left, right = (now, met) if side == LEFT else (met, now)
            with f.when(its.array("values")[met].equals(value) & (s.array(f"{other}_start")[met] >= oldest)):
                with f.when(_fit(join, constants, s, left, right)):
                    with f.when(at.count.equals(s.lefts.length)):  # this record is tried again
                        at.count.set(count)
                        at.tried.set(tried)
                        at.leave(FULL)
                    _put_pair(s, at, left, right)
            record.set(its.array("chain")[met])
    mine.enter(group, now)
    own.set(now + 1)


@subroutine(BOOL)
def _fit(join: JoinShape, constants: CodeConstants, s: Scope, left: Value, right: Value) -> Operand:
    """Do a left and a right record make a record?"""
    f = s.f
    tests = PairTests(s, join.tests, constants)
    if join.distinct:
        f.give_if(tests.share(left, right), False)
    with tests.holding(left, right):
        f.give(True)
    return False


# ---- the records of pairs ------------------------------------------------------------------------------------------


def writing_program(left_width: int, right_width: int, timed: bool, together: bool) -> Program:
    """Write out_rows, and if `timed` out_start and out_end, of pairs."""
    s = entry_scope("write", TYPES)
    f, width = s.f, left_width + right_width
    with f.loop(0, f.scalar("pairs")) as pair:
        left, right = s.lefts[pair].to(I64), s.rights[pair].to(I64)
        for column in range(left_width):
            s.out_rows[pair * width + column] = s.l_rows[left * left_width + column]
        for column in range(right_width):
            s.out_rows[pair * width + left_width + column] = s.r_rows[right * right_width + column]
        if timed:
            start, end = s.l_start[left], s.r_end[right]
            if together:
                start, end = f.least(start, s.r_start[right]), f.greatest(end, s.l_end[left])
            s.out_start[pair], s.out_end[pair] = start, end
    f.give(0)
    return s.program


# Pairs of events that are near each other: a sample for the statistics of conditions.


_TYPES: ArrayTypes = {
    "chosen": (I64, False), "others": (I64, False), "from_": (I64, False), "end": (I64, False), "dice": (F64, False),
    "settings": (I64, False), "beside": (I64, True),
}  # fmt: skip


def partners_program() -> Program:
    """`beside`: for each of the rows `chosen`, one of the rows `others` of its partition within a window; -1: none.

    Partition g has rows from_[g]:from_[g + 1], sorted by end; dice in [0, 1) choose one of the others.
    """
    s = entry_scope("partners", _TYPES)
    f, window = s.f, s.settings[WINDOW]
    with f.loop(0, s.chosen.length) as number:
        row = s.chosen[number]
        group = first_at_least(s, "from_", 0, s.from_.length, row + 1) - 1
        low = f.variable("low", first_at_least(s, "others", 0, s.others.length, s.from_[group]))
        stop = f.variable("stop", first_at_least(s, "others", low, s.others.length, s.from_[group + 1]))
        with f.when(window < EVER):
            oldest, after = window_start(f, s.end[row], window), window_end(f, s.end[row], window + 1)
            low.set(_first_in_time(s, low, stop, oldest))
            stop.set(_first_in_time(s, low, stop, after))
        s.beside[number] = -1
        with f.when(low < stop):
            place = low + (s.dice[number] * (stop - low).to(F64)).to(I64)
            s.beside[number] = s.others[place]
    f.give(0)
    return s.program


@subroutine()
def _first_in_time(s: Scope, first: Value, stop: Value, wanted: Value) -> Value:
    """The first place from `first` to `stop` whose row does not end before `wanted`."""
    return search_place(s.f, first, stop, lambda at: s.end[s.others[at]] < wanted)
