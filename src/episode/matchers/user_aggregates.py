"""Aggregates of users: Python functions that are traced once, when they are registered (see `native.tracing`).

Workers receive the trace, which is plain data. The state of an aggregate is one to three numbers. They are held in the
words `whole`, `real` and `more` of a state (`code.aggregates`), the first number in the first word and so on: as it is
if the word has its type, otherwise as the same bits.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from episode.errors import EpisodeUnsupportedError
from episode.matchers.code.aggregates import FIELDS, AggregateState
from episode.matchers.code.expressions import Emitted
from episode.native.builder import Function
from episode.native.ir import BOOL, I64, Value
from episode.native.traced import BOOLEAN, REAL, WHOLE, describe
from episode.native.traced_code import TYPES, emit_trace
from episode.native.tracing import NotTraced, Recording, Trace

WORDS = ("whole", "real", "more")
KINDS = {"double": REAL, "bigint": WHOLE}
SQL_TYPES = {BOOLEAN: "boolean", WHOLE: "bigint", REAL: "double"}
EXAMPLE = "Write for example episode.aggregate('extent', initial=(inf, -inf), step=f, finish=g)."


@dataclass(frozen=True)
class TracedAggregate:
    """The functions of an aggregate as traces.

    takes: the kind of the values. numbers: the kinds of the state's numbers. begin: gives the initial state. following:
    gives the next state of the state and a value. ending: gives the result of the state, and whether it is null.
    """

    takes: str
    numbers: tuple[str, ...]
    begin: Trace
    following: Trace
    ending: Trace

    @property
    def words(self) -> tuple[str, ...]:
        """The fields of a state that are used."""
        return WORDS[: len(self.numbers)]

    def step(self, f: Function, state: AggregateState, value: Value) -> tuple[Value | None, Value | None, Value | None]:
        """Return the words of a state (whole, real and more) with one more value; without values they are ignored."""
        is_first = state.count.equals(0)
        pairs = zip(emit_trace(f, self.begin, ()), self._unpack(state), strict=True)
        before = [f.select(is_first, initial, number) for initial, number in pairs]
        after = emit_trace(f, self.following, [*before, value])
        packed = [number.bits_as(FIELDS[word]) for word, number in zip(self.words, after, strict=True)]
        words: list[Value | None] = [*packed, None, None]
        return words[0], words[1], words[2]

    def finish(self, f: Function, state: AggregateState) -> Emitted:
        """Return the result of a state that has a value, and whether it is null; truth values are whole numbers."""
        value, null = emit_trace(f, self.ending, self._unpack(state))
        never = null.op == "constant" and not null.args[0]
        return value.to(I64) if value.type is BOOL else value, None if never else null

    def _unpack(self, state: AggregateState) -> list[Value]:
        words = [getattr(state, word) for word in self.words]
        return [word.bits_as(TYPES[kind]) for word, kind in zip(words, self.numbers, strict=True)]


class _Unusable(Exception):
    """Raised for functions that cannot be an aggregate; the message explains why."""


def trace_aggregate(
    name: str, initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None, takes: str
) -> tuple[TracedAggregate, str]:
    """Return the functions as traces, and the SQL type of the result; or raise an error that explains why not."""
    try:
        return _trace(initial, step, finish, KINDS[takes])
    except _Unusable as reason:
        raise EpisodeUnsupportedError(f"The aggregate {name} cannot be used: {reason}.", hint=EXAMPLE) from None
    except NotTraced as reason:
        place = reason.place
        found = "" if place is None or not os.path.isfile(place.file) else f", in {os.path.basename(place.file)}"
        raise EpisodeUnsupportedError(
            f"The aggregate {name} cannot be used: {reason.message}{found}.",
            source=None if place is None else place.source,
            position=None if place is None else place.position,
            length=1 if place is None else place.length,
            hint=reason.hint,
        ) from reason.__cause__


def _trace(
    initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None, takes: str
) -> tuple[TracedAggregate, str]:
    is_plain = not isinstance(initial, tuple)
    first = (initial,) if is_plain else initial
    if not 1 <= len(first) <= len(WORDS) or not all(_is_number(number) for number in first):
        raise _Unusable(f"initial= is one number, or a tuple of up to {len(WORDS)} numbers")
    _check_function("step", step, 2, "the state and a value")
    if finish is not None:
        _check_function("finish", finish, 1, "the state")
    elif not is_plain:
        raise _Unusable("a state of several numbers needs finish=, which makes the result of them")
    kinds = tuple(WHOLE if isinstance(number, (bool, int, np.integer)) else REAL for number in first)
    while True:
        following, given = _trace_step(step, kinds, is_plain, takes)
        if given == kinds:
            break
        kinds = given
    ending, gives = _trace_finish(finish, kinds, is_plain)
    return TracedAggregate(takes, kinds, Recording().trace(first, kinds), following, ending), SQL_TYPES[gives]


def _trace_step(
    step: Callable[..., Any], kinds: tuple[str, ...], is_plain: bool, takes: str
) -> tuple[Trace, tuple[str, ...]]:
    """Return the next state, and the kinds that hold both it and the state before."""
    recording = Recording("step=")
    state = tuple(recording.input(kind) for kind in kinds)
    returned = recording.call(step, state[0] if is_plain else state, recording.input(takes))
    count = len(kinds)
    if not is_plain and not (isinstance(returned, tuple) and len(returned) == count):
        given = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else describe(returned)
        raise _Unusable(f"step= returns the next state, a tuple of {count} as initial= is, not {given}")
    numbers = (returned,) if is_plain else returned
    for number in numbers:
        if recording.kind_of(number) is None or recording.null_of(number) is not False:
            raise _Unusable(f"step= returns numbers, not {describe(number)}")
    pairs = zip(kinds, (recording.kind_of(number) for number in numbers), strict=True)
    wider = tuple(REAL if REAL in pair else WHOLE for pair in pairs)
    return recording.trace(numbers, wider), wider


def _trace_finish(finish: Callable[..., Any] | None, kinds: Sequence[str], is_plain: bool) -> tuple[Trace, str]:
    """Return the result, and its kind."""
    recording = Recording("finish=")
    state = tuple(recording.input(kind) for kind in kinds)
    returned: Any = state[0]
    if finish is not None:
        returned = recording.call(finish, state[0] if is_plain else state)
    kind = recording.kind_of(returned)
    if kind is None:
        raise _Unusable(f"finish= returns a number or a truth value, not {describe(returned)}")
    return recording.trace((returned, recording.null_of(returned)), (kind, BOOLEAN)), kind


def _is_number(value: object) -> bool:
    if isinstance(value, (int, np.integer)):
        return -(2**63) <= int(value) < 2**63
    return isinstance(value, (float, np.floating))


def _check_function(what: str, function: Callable[..., Any], count: int, given: str) -> None:
    if not inspect.isfunction(function):
        raise _Unusable(f"{what}= is not a Python function")
    if len(inspect.signature(function).parameters) != count:
        raise _Unusable(f"{what}= takes {given}: {count} parameter{'s' if count > 1 else ''}")
