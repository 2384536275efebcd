"""JSON objects, one for each record, read into columns: first the place of each field's value, then times.

A record that is not a JSON object is broken: it has no values at all. Of a field that a record has twice the last one
counts. Names are compared as they are written.

Shapes: data uint8[bytes], record i is data[offsets[i]:offsets[i + 1]] (int64); names likewise. kinds uint8[fields,
records], begins and ends int64[fields, records]: the value of a field is data[begin:end], a string's without its
quotation marks.

See decision 129.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from episode.native.builder import ArrayTypes, Function, Program, Scope, entry_scope
from episode.native.ir import I64, U8, Value
from episode.native.running import compiled_for
from episode.words import DAY

MISSING, NULL, TRUE, FALSE, INTEGER, FRACTION, TEXT, ESCAPED, NESTED = range(9)
"""Kinds of values. ESCAPED: a string with backslashes."""

UNREAD, ZONED, LOCAL = range(3)
"""Knowledge of the text of a time: it is not in the common form; it names its zone; it names none."""

DEPTH = 512
"""Greatest depth of nested objects and arrays."""

_KINDS = 16
"""The end of a value and its kind are one number: end * 16 + kind."""

_TYPES: ArrayTypes = {
    "data": (U8, False), "offsets": (I64, False), "field_names": (U8, False), "name_offsets": (I64, False),
    "kinds": (U8, True), "begins": (I64, True), "ends": (I64, True), "in_object": (U8, True),
    "copied": (U8, True), "chosen": (U8, False), "spans": (I64, False), "known": (U8, True), "values": (I64, True),
}  # fmt: skip


def find_fields(
    data: np.ndarray,
    offsets: np.ndarray,
    names: np.ndarray,
    name_offsets: np.ndarray,
    kinds: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Fill in kinds (all MISSING before), begins and ends. Anything after the object of a record is ignored."""
    flat = [array.reshape(-1) for array in (kinds, begins, ends)]
    compiled_for(fields_program)([data, offsets, names, name_offsets, *flat, np.zeros(DEPTH, np.uint8)])


def copy_spans(
    data: np.ndarray, begins: np.ndarray, ends: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the chosen values of a field one after the other, and the offsets of all (int64[records + 1])."""
    offsets = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(np.where(chosen, ends - begins, 0), out=offsets[1:])
    copied = np.empty(offsets[-1], np.uint8)
    compiled_for(copying_program)([data, begins, offsets, copied])
    return copied, offsets


def read_times(
    data: np.ndarray, kinds: np.ndarray, begins: np.ndarray, ends: np.ndarray, known: np.ndarray, values: np.ndarray
) -> None:
    """Read times in the common ISO form, of one field: known uint8[records] (UNREAD before), values int64[records]."""
    compiled_for(times_program)([data, kinds, begins, ends, known, values])


def _scope(name: str, *arrays: str, read: tuple[str, ...] = ()) -> Scope:
    """read: arrays that are only read here."""
    types = {array: (type_, writable and array not in read) for array, (type_, writable) in _TYPES.items()}
    return entry_scope(name, types, *arrays)


def _is_digit(sign: Value) -> Value:
    return (sign >= ord("0")) & (sign <= ord("9"))


def _is(sign: Value, *characters: str) -> Value:
    """Whether a byte is one of some characters."""
    found = sign.equals(ord(characters[0]))
    for character in characters[1:]:
        found = found | sign.equals(ord(character))
    return found


_SKIPPED: dict[str, Callable[[Value], Value]] = {
    "spaces": lambda sign: _is(sign, " ", "\t", "\n", "\r"),
    "blanks": lambda sign: _is(sign, " ") | (sign >= 9) & (sign <= 13),  # also vertical tabs and form feeds
    "digits": _is_digit,
}


# ---- objects -------------------------------------------------------------------------------------------------


def fields_program() -> Program:
    s = _scope("find_fields", "data", "offsets", "field_names", "name_offsets", "kinds", "begins", "ends", "in_object")
    f = s.f
    records = s.offsets.length - 1
    with f.loop(0, records) as record:
        complete = s.call("read_record", _emit_record, record, s.offsets[record], s.offsets[record + 1])
        with f.when(complete.equals(0)):
            with f.loop(0, s.name_offsets.length - 1) as field:
                s.kinds[field * records + record] = MISSING
    f.give(0)
    return f.program


_STATES = ("name", "name_or_end", "colon", "value", "value_or_end", "comma_or_end")
"""States of the parser: what may come next."""


def _emit_record(s: Scope, record: Value, begin: Value, stop: Value) -> None:
    """Return 1 for a complete object. Each state is a block, and one block finds the next byte."""
    f = s.f
    at, depth, sign = f.variable("at", begin), f.variable("depth", 1), f.variable("sign", f.constant(0, U8))
    field, nested_at, state = f.variable("field", -1), f.variable("nested_at", 0), f.variable("state", 0)
    blocks = {name: f.block(name) for name in (*_STATES, "next", "close", "broken")}
    broken = blocks["broken"]

    def then(name: str) -> None:
        """Continue with the next byte that is not a space."""
        state.set(_STATES.index(name))
        f.jump(blocks["next"])

    def store(kind: Value, first: Value, last: Value) -> None:
        """Store the value of a field of the outermost object."""
        with f.when(depth.equals(1) & (field >= 0)):
            place = field * (s.offsets.length - 1) + record
            s.kinds[place], s.begins[place], s.ends[place] = kind.to(U8), first, last

    s.in_object[1] = 1
    at.set(_skip(s, "blanks", at, stop))
    f.jump_unless(at < stop, broken)
    f.jump_unless(_is(s.data[at], "{"), broken)
    at.set(at + 1)
    then("name_or_end")

    f.at(blocks["next"])
    at.set(_skip(s, "spaces", at, stop))
    f.jump_unless(at < stop, broken)
    sign.set(s.data[at])
    f.switch(state, {number: blocks[name] for number, name in enumerate(_STATES)})

    f.at(blocks["name_or_end"])
    f.branch(_is(sign.value, "}"), blocks["close"], blocks["name"])

    f.at(blocks["name"])
    f.jump_unless(_is(sign.value, '"', "'"), broken)
    text = s.call("text_end", _emit_text_end, at, stop)
    f.jump_unless(text >= 0, broken)
    with f.when(depth.equals(1)):
        field.set(s.call("field_of", _emit_field_of, at + 1, text >> 1))
    at.set((text >> 1) + 1)
    then("colon")

    f.at(blocks["colon"])
    f.jump_unless(_is(sign.value, ":"), broken)
    at.set(at + 1)
    then("value")

    f.at(blocks["value_or_end"])
    f.branch(_is(sign.value, "]"), blocks["close"], blocks["value"])

    f.at(blocks["value"])
    with f.when(_is(sign.value, "{", "[")):
        nested_at.set(f.select(depth.equals(1), at, nested_at))
        depth.set(depth + 1)
        f.jump_unless(depth < DEPTH, broken)
        is_object = _is(sign.value, "{")
        s.in_object[depth] = is_object.to(U8)
        at.set(at + 1)
        state.set(f.select(is_object, _STATES.index("name_or_end"), _STATES.index("value_or_end")))
        f.jump(blocks["next"])
    scalar = s.call("scalar", _emit_scalar, at, stop)
    f.jump_unless(scalar >= 0, broken)
    end, kind = scalar >> 4, scalar & (_KINDS - 1)
    quotes = (kind.equals(TEXT) | kind.equals(ESCAPED)).to(I64)
    store(kind, at + quotes, end - quotes)
    at.set(end)
    then("comma_or_end")

    f.at(blocks["comma_or_end"])
    with f.when(_is(sign.value, ",")):
        at.set(at + 1)
        is_object = s.in_object[depth].differs(0)
        state.set(f.select(is_object, _STATES.index("name"), _STATES.index("value")))
        f.jump(blocks["next"])
    f.jump(blocks["close"])

    f.at(blocks["close"])
    closing = f.select(s.in_object[depth].differs(0), f.constant(ord("}"), U8), f.constant(ord("]"), U8))
    f.jump_unless(sign.equals(closing), broken)
    at.set(at + 1)
    depth.set(depth - 1)
    f.give_if(depth.equals(0), 1)
    store(f.value(NESTED), nested_at.value, at.value)
    then("comma_or_end")

    f.at(broken)
    f.give(0)


def _skip(s: Scope, what: str, at: Value, stop: Value) -> Value:
    """Return the place of the next byte that is not one of these, see `_SKIPPED`."""

    def emit(s: Scope, begin: Value, stop: Value) -> None:
        at = s.f.variable("at", begin)
        with s.f.during(lambda: at < stop) as done:
            s.f.jump_unless(_SKIPPED[what](s.data[at]), done)
            at.set(at + 1)
        s.f.give(at)

    return s.call(f"skip_{what}", emit, at, stop)


def _emit_field_of(s: Scope, begin: Value, end: Value) -> None:
    """Return the number of the field with a name; -1 without one."""
    f = s.f
    with f.loop(0, s.name_offsets.length - 1) as field:
        low = s.name_offsets[field]
        with f.when((s.name_offsets[field + 1] - low).equals(end - begin)):
            at = f.variable("at", 0)
            with f.during(lambda: at < end - begin) as done:
                f.jump_unless(s.data[begin + at].equals(s.field_names[low + at]), done)
                at.set(at + 1)
            f.give_if(at.equals(end - begin), field)
    f.give(-1)


# ---- scalars: the number of `end * 16 + kind`, or -1 if they are broken ----------------------------------------


def _emit_text_end(s: Scope, opening: Value, stop: Value) -> None:
    """Return the closing mark of a string * 2, plus 1 if it has backslashes; -1 if the string does not end."""
    f = s.f
    mark = s.data[opening]
    at, escaped = f.variable("at", opening + 1), f.variable("escaped", 0)
    with f.during(lambda: at < stop):
        sign = s.data[at]
        with f.when(sign.equals(mark)):
            f.give(at * 2 + escaped)
        f.give_if(sign < 32, -1)
        with f.when(_is(sign, "\\")):
            escaped.set(1)
            at.set(at + 1)
        at.set(at + 1)
    f.give(-1)


def _is_word(s: Scope, word: bytes, at: Value, stop: Value) -> Value:
    """Whether a word is at a place."""

    def emit(s: Scope, at: Value, stop: Value) -> None:
        s.f.give_if(at + len(word) > stop, 0)
        for place, letter in enumerate(word):
            s.f.give_if(s.data[at + place].differs(letter), 0)
        s.f.give(1)

    return s.call(f"is_{word.decode()}", emit, at, stop).differs(0)


def _emit_scalar(s: Scope, at: Value, stop: Value) -> None:
    f = s.f
    sign = s.data[at]
    with f.when(_is(sign, '"', "'")):
        text = s.call("text_end", _emit_text_end, at, stop)
        f.give_if(text < 0, -1)
        kind = f.select((text & 1).equals(0), TEXT, ESCAPED)
        f.give(((text >> 1) + 1) * _KINDS + kind)
    for word, kind_of_word in ((b"null", NULL), (b"true", TRUE), (b"false", FALSE)):
        with f.when(sign.equals(word[0])):
            with f.when(_is_word(s, word, at, stop)):
                f.give((at + len(word)) * _KINDS + kind_of_word)
    f.give(s.call("number", _emit_number, at, stop))


def _emit_number(s: Scope, at: Value, stop: Value) -> None:
    f = s.f
    is_signed = _is(s.data[at], "-", "+")
    first = at + is_signed.to(I64)
    for word in (b"Infinity", b"INF"):
        with f.when(_is_word(s, word, first, stop)):
            f.give((first + len(word)) * _KINDS + FRACTION)
    f.give_if(_is(s.data[at], "+"), -1)
    with f.when(~is_signed):
        with f.when(_is_word(s, b"NaN", at, stop)):
            f.give((at + 3) * _KINDS + FRACTION)
    end, kind = f.variable("end", _skip(s, "digits", first, stop)), f.variable("kind", INTEGER)
    f.give_if(end.equals(first), -1)
    f.give_if(_is(s.data[first], "0") & (end > first + 1), -1)
    with f.when(_is_at(s, end.value, stop, ".")):
        point = end + 1
        end.set(_skip(s, "digits", point, stop))
        kind.set(FRACTION)
        f.give_if(end.equals(point), -1)
    with f.when(_is_at(s, end.value, stop, "e", "E")):
        power = end + 1
        power = power + _is_at(s, power, stop, "+", "-").to(I64)
        end.set(_skip(s, "digits", power, stop))
        kind.set(FRACTION)
        f.give_if(end.equals(power), -1)
    f.give(end * _KINDS + kind)


def _is_at(s: Scope, at: Value, stop: Value, *characters: str) -> Value:
    """Whether one of some characters is at a place, which may be the end."""
    f = s.f
    found = f.variable("found", False)
    with f.when(at < stop):
        found.set(_is(s.data[at], *characters))
    return found.value


# ---- values --------------------------------------------------------------------------------------------------


def copying_program() -> Program:
    s = _scope("copy_spans", "data", "begins", "offsets", "copied", read=("begins",))
    f = s.f
    with f.loop(0, s.begins.length) as record:
        begin, to = s.begins[record], s.offsets[record]
        with f.loop(0, s.offsets[record + 1] - to) as place:
            s.copied[to + place] = s.data[begin + place]
    f.give(0)
    return f.program


def times_program() -> Program:
    s = _scope("read_times", "data", "kinds", "begins", "ends", "known", "values", read=("kinds", "begins", "ends"))
    f = s.f
    with f.loop(0, s.kinds.length) as record:
        with f.when(s.kinds[record].equals(TEXT)):
            s.call("read_time", _emit_time, record, s.begins[record], s.ends[record])
    f.give(0)
    return f.program


def _emit_time(s: Scope, record: Value, begin: Value, end: Value) -> None:
    """Write what is known of a text, and the microseconds since 1970, if it is a time in the common form."""
    f = s.f
    unread = f.block("unread")

    def number(at: Value, digits: int, least: int, most: Value | int) -> Value:
        value = s.call(f"number_{digits}", lambda s, at: _emit_digits(s, at, digits), at)
        f.jump_unless((value >= least) & (value <= most), unread)
        return value

    def give(known: int, micros: Value) -> None:
        s.known[record] = known
        s.values[record] = micros
        f.give(0)

    f.jump_unless(end - begin >= 10, unread)
    f.jump_unless(_is(s.data[begin + 4], "-") & _is(s.data[begin + 7], "-"), unread)
    year, month = number(begin, 4, 1, 9999), number(begin + 5, 2, 1, 12)
    day = number(begin + 8, 2, 1, _days_of_month(f, year, month))
    value, at = f.variable("value", _days(f, year, month, day) * DAY), f.variable("at", begin + 10)
    with f.when(at.equals(end)):
        give(LOCAL, value.value)
    f.jump_unless(end - at >= 9, unread)
    clock = at.value
    separators = _is(s.data[clock], "T", " ") & _is(s.data[clock + 3], ":") & _is(s.data[clock + 6], ":")
    f.jump_unless(separators, unread)
    hour, minute, second = (number(clock + place, 2, 0, most) for place, most in ((1, 23), (4, 59), (7, 59)))
    value.set(value + ((hour * 60 + minute) * 60 + second) * 1_000_000)
    at.set(clock + 9)
    with f.when(_is_at(s, at.value, end, ".")):
        at.set(at + 1)
        weight = f.variable("weight", 100_000)
        with f.during(lambda: at < end) as done:
            sign = s.data[at]
            f.jump_unless(_is_digit(sign), done)
            value.set(value + (sign - ord("0")).to(I64) * weight)
            weight.set(weight.divide(10))  # digits beyond microseconds are cut off
            at.set(at + 1)
    with f.when(at.equals(end)):
        give(LOCAL, value.value)
    zone = at.value
    with f.when(_is(s.data[zone], "Z") & (zone + 1).equals(end)):
        give(ZONED, value.value)
    f.jump_unless(_is(s.data[zone], "+", "-") & (end - zone).equals(6), unread)
    f.jump_unless(_is(s.data[zone + 3], ":"), unread)
    shift = (number(zone + 1, 2, 0, 17) * 60 + number(zone + 4, 2, 0, 59)) * 60_000_000
    give(ZONED, value - f.select(_is(s.data[zone], "+"), shift, -shift))
    f.at(unread)
    f.give(0)


def _emit_digits(s: Scope, at: Value, digits: int) -> None:
    """Return a number of `digits` digits; -1 if other characters are among them."""
    f = s.f
    value = f.value(0)
    for place in range(digits):
        sign = s.data[at + place]
        f.give_if(~_is_digit(sign), -1)
        value = value * 10 + (sign - ord("0")).to(I64)
    f.give(value)


def _days(f: Function, year: Value, month: Value, day: Value) -> Value:
    """Return the days since 1970 of a date of the Gregorian calendar, from the year 1 on."""
    is_early = month <= 2
    shifted = year - is_early.to(I64)
    era = shifted.divide(400)
    of_era = shifted - era * 400
    months = f.select(is_early, month + 9, month - 3)
    of_year = (months * 153 + 2).divide(5) + day - 1
    return era * 146_097 + of_era * 365 + of_era.divide(4) - of_era.divide(100) + of_year - 719_468


def _days_of_month(f: Function, year: Value, month: Value) -> Value:
    is_leap = year.remainder(4).equals(0) & (year.remainder(100).differs(0) | year.remainder(400).equals(0))
    is_short = month.equals(4) | month.equals(6) | month.equals(9) | month.equals(11)
    return f.select(month.equals(2), is_leap.to(I64) + 28, f.select(is_short, 30, 31))
