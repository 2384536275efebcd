"""Emits aggregates: how a value is folded into the state of an aggregate, and what the state amounts to.

A state is up to four numbers: `count` of values; `whole`, of the int lane: a sum or an extreme; `real`, of the float
lane: a sum, an extreme or a mean; and `more`: the overflow of a whole sum, the squared distances of a variance, the row
of MIN_BY and MAX_BY. All are 0 at first. A function uses some of these fields.

Sums are exact: a whole sum is whole + more * 2**64, however its values come and go, and it is null if that is not a
bigint. `more` counts rows at most, so that it is exact as a float. Sums of floats and averages add up doubles in the
order of the rows, as Spark does. Of decimals of two words, `whole` is the low word, and `real` and `more` are the
halves of the high one, which are exact as floats; a sum of more than 38 digits is OVERFLOW, and remains so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from episode.matchers import codes as oc
from episode.matchers.code.expressions import (
    COMPARE,
    MOST_WIDE,
    Emitted,
    divide_magnitudes,
    magnitude,
    wide_sum,
    with_sign,
)
from episode.native.builder import Function, Scope
from episode.native.ir import F64, I64, I128, U64, U128, Operand, Type, Value

OVERFLOW = -(2**127)
"""In place of a decimal of two words that has more than 38 digits."""

FIELDS: dict[str, Type] = {"count": I64, "whole": I64, "real": F64, "more": F64}
_COUNTS = (oc.COUNT, oc.COUNT_IF)
_VARIANCES = (oc.VAR_SAMP, oc.VAR_POP, oc.STDDEV_SAMP, oc.STDDEV_POP)
_ROWS = (oc.MIN_BY, oc.MAX_BY)
_LEAST = (oc.MIN, oc.MIN_BY, oc.MIN_WIDE)
_WIDE_EXTREMES = (oc.MIN_WIDE, oc.MAX_WIDE)


@dataclass(frozen=True)
class AggregateState:
    """The numbers of a state: values, or None if the function does not use the field."""

    count: Value
    whole: Any = None
    real: Any = None
    more: Any = None


class UserFunctions(Protocol):
    """The emitters of a user's aggregate; hashable.

    words: which of whole, real and more its state uses. `step` gets the state before, of which all words mean nothing
    if the count is 0, and returns whole, real and more; `finish` is asked only for a state that has a value.
    """

    words: tuple[str, ...]

    def step(
        self, f: Function, state: AggregateState, value: Value
    ) -> tuple[Value | None, Value | None, Value | None]: ...

    def finish(self, f: Function, state: AggregateState) -> Emitted: ...


@dataclass(frozen=True)
class AggregateShape:
    """A function with the lane of its values.

    function: COUNT … of `matchers.codes`; floating: are values in the float lane? wide: does it come to a value of two
    words (I128)? user: what emits a user's aggregate; the function does not matter then.
    """

    function: int
    floating: bool = False
    wide: bool = False
    user: UserFunctions | None = None

    def __post_init__(self) -> None:
        if self.user is None and not oc.COUNT <= self.function <= oc.LAST_WIDE:
            raise ValueError(f"{self.function} is not a function, and no emitters of a user are given.")

    @property
    def takes_words(self) -> bool:
        """Whether the values are decimals of two words (I128)."""
        return self.user is None and oc.SUM_WIDE <= self.function <= oc.LAST_WIDE

    @property
    def keeps_row(self) -> bool:
        """Whether the row of the extreme is kept, in `more`."""
        return self.user is None and self.function in _ROWS

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a state, in the order of FIELDS."""
        if self.user is not None:
            return ("count", *self.user.words)
        if self.function in _COUNTS:
            return ("count",)
        if self.takes_words:
            return tuple(FIELDS)
        if self.function in _VARIANCES:
            return "count", "real", "more"
        if self.floating or self.function == oc.AVG:
            return ("count", "real", "more") if self.keeps_row else ("count", "real")
        if self.keeps_row or self.function in (oc.SUM, oc.AVG_WHOLE):
            return "count", "whole", "more"
        return "count", "whole"

    def empty(self, f: Function) -> AggregateState:
        """Return the state before the first value."""
        return AggregateState(**{name: f.constant(0, FIELDS[name]) for name in self.fields})

    # ---- one more value ----------------------------------------------------------------------------------

    def fold(self, f: Function, state: AggregateState, value: Value | None, row: Operand = 0) -> AggregateState:
        """Return the state with one more value, of a row. COUNT needs no value."""
        count = state.count + 1
        if self.user is not None:
            assert value is not None
            return AggregateState(count, *self.user.step(f, state, value))
        if self.function == oc.COUNT:
            return AggregateState(count)
        assert value is not None
        if self.function == oc.COUNT_IF:
            return AggregateState(state.count + value.differs(0).to(I64))
        if self.takes_words:
            return self._fold_words(f, state, count, value)
        if self.function in _VARIANCES:
            return AggregateState(count, None, *add_squares(count, state.real, state.more, value))
        if self.function not in (oc.SUM, oc.AVG, oc.AVG_WHOLE):
            return self._choose_extreme(f, state, count, value, row)
        if state.real is not None:
            return AggregateState(count, None, state.real + value)
        whole, more = add_whole(f, state.whole, state.more, value)
        return AggregateState(count, whole, None, more)

    def _choose_extreme(
        self, f: Function, state: AggregateState, count: Value, value: Value, row: Operand
    ) -> AggregateState:
        before = state.real if self.floating else state.whole
        is_new = replaces(self.function, state.count, before, value)
        chosen = f.select(is_new, value, before)
        more = None if state.more is None else f.select(is_new, f.value(row, I64).to(F64), state.more)
        return AggregateState(count, None, chosen, more) if self.floating else AggregateState(count, chosen, None, more)

    def _fold_words(self, f: Function, state: AggregateState, count: Value, value: Value) -> AggregateState:
        before = _words_of(state)
        if self.function in _WIDE_EXTREMES:
            is_new = value < before if self.function in _LEAST else value > before
            after = f.select(is_new, value, before)
        else:
            total, excess = wide_sum(f, before, value)
            overflow = f.constant(OVERFLOW, I128)
            assert excess is not None
            after = f.select(before.equals(overflow) | excess, overflow, total)
        after = f.select(state.count.equals(0), value, after)
        high = (after >> 64).to(I64)
        return AggregateState(count, after.to(I64), (high >> 32).to(F64), (high & 0xFFFFFFFF).to(F64))

    # ---- results -----------------------------------------------------------------------------------------

    def finish(self, f: Function, state: AggregateState) -> Emitted:
        """Return the value of a state, and whether it is null."""
        if self.user is None and self.function in _COUNTS:
            return state.count, None
        is_empty = state.count.equals(0)
        if self.user is not None:
            value, null = self.user.finish(f, state)
            return value, is_empty if null is None else is_empty | null
        if self.wide:
            value = self._finish_words(f, state)
            return value, is_empty | value.equals(f.constant(OVERFLOW, I128))
        if self.function == oc.SUM and state.more is not None:
            return state.whole, is_empty | state.more.differs(0.0)
        if self.function == oc.AVG:
            return state.real.divide(state.count.to(F64)), is_empty
        if self.function in _VARIANCES:
            return self._finish_variance(f, state)
        return state.real if self.floating else state.whole, is_empty

    def _finish_variance(self, f: Function, state: AggregateState) -> Emitted:
        of_sample = self.function in (oc.VAR_SAMP, oc.STDDEV_SAMP)
        variance = state.more.divide((state.count - 1 if of_sample else state.count).to(F64))
        value = f.unary("sqrt", variance) if self.function >= oc.STDDEV_SAMP else variance
        return value, state.count <= int(of_sample)

    def _finish_words(self, f: Function, state: AggregateState) -> Value:
        if self.takes_words:
            total = _words_of(state)
        else:
            total = (state.more.to(I64).to(I128) << 64) + state.whole.to(I128)
        if self.function != oc.AVG_WHOLE and self.function < oc.AVG_WIDE:
            return total
        digits = 4 if self.function == oc.AVG_WHOLE else self.function - oc.AVG_WIDE
        return divide_sum(f, total, state.count, digits)


def choose_state(f: Function, condition: Value, yes: AggregateState, no: AggregateState) -> AggregateState:
    """Select one of two states of an aggregate."""
    used = (name for name in FIELDS if getattr(yes, name) is not None)
    return AggregateState(**{name: f.select(condition, getattr(yes, name), getattr(no, name)) for name in used})


def add_whole(f: Function, whole: Value, more: Value, value: Value) -> tuple[Value, Value]:
    """Add a value to a whole sum (whole, more)."""
    total = whole + value
    carry = f.select(value < 0, -1.0, 1.0)
    return total, f.select(f.binary("add_overflows", whole, value), more + carry, more)


def add_squares(count: Value, mean: Value, squares: Value, value: Value) -> tuple[Value, Value]:
    """Update mean and sum of squared distances with one more value, the count-th, by Welford's method."""
    delta = value - mean
    next_mean = mean + delta.divide(count.to(F64))
    return next_mean, squares + delta * (value - next_mean)


def replaces(function: int, count: Value, before: Value, value: Value) -> Value:
    """Whether a value is the new extreme of MIN, MAX, MIN_BY or MAX_BY. Of equal ones the later. count: of values
    before."""
    return count.equals(0) | COMPARE["le" if function in _LEAST else "ge"](value, before)


def divide_sum(f: Function, total: Value, count: Value, digits: int) -> Value:
    """Divide a sum of decimals (I128) by a count, with `digits` (at most 4) more digits, rounded half away from zero.

    OVERFLOW for a sum or an average of more than 38 digits. A count of 0 does no harm.
    """

    def build(s: Scope, total: Value, count: Value) -> None:
        f = s.f
        overflow = f.constant(OVERFLOW, I128)
        f.give_if(total.equals(overflow), overflow)
        factor = 10**digits
        by = f.greatest(count, 1).to(U64)
        dividend = magnitude(f, total)
        quotient, rest = f.variable("quotient", f.constant(0, U128)), f.variable("rest", f.constant(0, U64))
        with f.either(dividend < f.constant(2**64, U128)) as otherwise:
            word = dividend.to(U64)
            quotient.set(word.divide(by).to(U128))
            rest.set(word.remainder(by))
            otherwise()
            whole, left = divide_magnitudes(f, dividend, by.to(U128))
            quotient.set(whole)
            rest.set(left.to(U64))
        last = (rest * (2 * factor) + by).divide(by * 2).to(U128)
        f.give_if(quotient > f.constant(MOST_WIDE // factor, U128), overflow)
        result = quotient * f.constant(factor, U128) + last
        f.give_if(result > f.constant(MOST_WIDE, U128), overflow)
        f.give(with_sign(f, result, total < 0))

    return Scope(f, {}).call(f"divide_sum_{digits}", build, total, count, result=I128)


def _words_of(state: AggregateState) -> Value:
    """Return the number of two words that a state holds."""
    high = state.real.to(I64) << 32 | state.more.to(I64)
    return high.to(I128) << 64 | state.whole.bits_as(U64).to(I128)
