"""Emits aggregates over the events of situations so far.

The asked-for (first row, last row) of a symbol come in order, those of one situation together: each continues from the
one before it, so that a situation's rows are read once however often it is asked for. opened: if a situation began in
an earlier batch, the number of what it had then, else -1. A last row before the first asks for just that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from episode.matchers import codes as oc
from episode.matchers.code.aggregates import FIELDS, AggregateShape, AggregateState
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import F64, I64, I128, U8, U64, Type, Value, Variable
from episode.native.running import compiled_for

FOLD, SUM_WORDS, FIND = "fold", "sum_words", "find"
"""Values kept of situations: the state of an aggregate; a sum of decimals of two words; the place of an extreme."""


@dataclass(frozen=True)
class ValuesShape:
    """Traits of values that are compiled in. may_be_null: are some values null?"""

    keeps: str
    aggregate: AggregateShape
    may_be_null: bool

    @property
    def outputs(self) -> dict[str, Type]:
        """The arrays that are written, one element for each that is asked for."""
        if self.keeps == SUM_WORDS:
            return {"count": I64, "low": U64, "high": I64}
        return {"place": I64} if self.keeps == FIND else {name: FIELDS[name] for name in self.aggregate.fields}

    @property
    def types(self) -> ArrayTypes:
        read: dict[str, Type] = {"first": I64, "last": I64, "opened": I64, "valid": U8, "ints": I64, "floats": F64}
        read |= {"low_words": U64, "high_words": I64, "shift": I64}
        read |= {f"before_{name}": type_ for name, type_ in self.outputs.items()}
        written = {f"out_{name}": (type_, True) for name, type_ in self.outputs.items()}
        return {name: (type_, False) for name, type_ in read.items()} | written


def accumulate(shape: ValuesShape, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The values of what is asked for, by the outputs of the shape."""
    out = {f"out_{name}": np.empty(len(arrays["last"]), type_.dtype) for name, type_ in shape.outputs.items()}
    compiled_for(accumulation_program, shape).run({**arrays, **out})
    return list(out.values())


def accumulation_program(shape: ValuesShape) -> Program:
    s = entry_scope("values", shape.types)
    f = s.f
    state = _Kept(s, shape)
    at, first, opened = f.variable("at", 0), f.variable("first", -1), f.variable("opened", -1)
    with f.loop(0, s.last.length) as number:
        its_first, its_opened, last = s.first[number], s.opened[number], s.last[number]
        with f.when(its_first.differs(first) | its_opened.differs(opened)):
            state.begin(its_opened)
            at.set(its_first)
            first.set(its_first)
            opened.set(its_opened)
        with f.during(lambda: at <= last):
            state.take(at.value)
            at.set(at + 1)
        state.write(number)
    f.give(0)
    return s.program


class _Kept:
    """The state of the situation at hand, in variables."""

    def __init__(self, s: Scope, shape: ValuesShape) -> None:
        self.s, self.f, self.shape = s, s.f, shape
        self.fields: dict[str, Variable] = {
            name: s.f.variable(name, s.f.constant(0, FIELDS[name])) for name in shape.aggregate.fields
        }

    def set(self, state: AggregateState) -> None:
        for name, variable in self.fields.items():
            value = getattr(state, name)
            assert value is not None
            variable.set(value)

    def begin(self, opened: Value) -> None:
        """A situation that began in this batch, or what one had before."""
        f, aggregate = self.f, self.shape.aggregate
        self.set(aggregate.empty(f))
        with f.when(opened >= 0):
            if self.shape.keeps == FIND:
                self.fold(opened)
            else:
                self.set(self.known_before(opened))

    def known_before(self, opened: Value) -> AggregateState:
        s = self.s
        if self.shape.keeps == SUM_WORDS:
            high = s.before_high[opened]
            halves = (high >> 32).to(F64), (high & 0xFFFFFFFF).to(F64)
            return AggregateState(s.before_count[opened], s.before_low[opened].bits_as(I64), *halves)
        return AggregateState(**{name: s.array(f"before_{name}")[opened] for name in self.fields})

    def take(self, row: Value) -> None:
        """One more row. The values of earlier batches come before those of rows if an extreme is looked for."""
        self.fold(row + self.s.shift[0] if self.shape.keeps == FIND else row)

    def fold(self, place: Value) -> None:
        f, s = self.f, self.s
        if not self.shape.may_be_null:
            self.set(self.shape.aggregate.fold(f, self.state, self.value_at(place), place))
            return
        with f.when(s.valid[place].differs(0)):
            self.set(self.shape.aggregate.fold(f, self.state, self.value_at(place), place))

    @property
    def state(self) -> AggregateState:
        return AggregateState(**{name: variable.value for name, variable in self.fields.items()})

    def value_at(self, place: Value) -> Value | None:
        s, aggregate = self.s, self.shape.aggregate
        if aggregate.function == oc.COUNT:
            return None
        if self.shape.keeps == SUM_WORDS:
            low, high = s.low_words[place].to(I128), s.high_words[place].to(I128)
            return high << 64 | low
        return s.floats[place] if aggregate.floating else s.ints[place]

    def write(self, number: Value) -> None:
        f, s, state = self.f, self.s, self.state
        if self.shape.keeps == FIND:
            assert state.more is not None
            s.out_place[number] = f.select(state.count.equals(0), -1, state.more.to(I64))
        elif self.shape.keeps == SUM_WORDS:
            assert state.whole is not None
            assert state.real is not None
            assert state.more is not None
            s.out_count[number], s.out_low[number] = state.count, state.whole.bits_as(U64)
            s.out_high[number] = state.real.to(I64) << 32 | state.more.to(I64)
        else:
            for name in self.fields:
                s.array(f"out_{name}")[number] = getattr(state, name)
