"""JSON objects, one for each record, read into columns: where the value of each field is, then times.

A record that is no JSON object is broken: it has no values at all. Of a field that a record has twice the last one
counts. Names are compared as they are written.

Shapes: data uint8[bytes], record i is data[offsets[i]:offsets[i + 1]] (int64); names likewise. kinds uint8[fields,
records], begins and ends int64[fields, records]: the value of a field is data[begin:end], a string's without its
quotation marks.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MISSING, NULL, TRUE, FALSE, INTEGER, FRACTION, TEXT, ESCAPED, NESTED = range(9)
"""Kinds of values. ESCAPED: a string with backslashes."""

UNREAD, ZONED, LOCAL = range(3)
"""What is known of the text of a time: it is not in the common form; it names its zone; it names none."""

DEPTH = 512
"""How deep objects and arrays may stand in each other."""

_DAY = 86_400_000_000
_VALUE, _VALUE_OR_END, _NAME, _NAME_OR_END, _COLON, _COMMA_OR_END = range(6)


@njit(cache=True, nogil=True)
def _text_end(data: np.ndarray, at: int, stop: int) -> tuple[int, bool]:
    """The closing mark of the string that opens at `at` (-1: there is none), and whether it has backslashes."""
    mark = data[at]
    escaped = False
    at += 1
    while at < stop:
        sign = data[at]
        if sign == mark:
            return at, escaped
        if sign < 32:
            return -1, escaped
        if sign == 92:
            escaped = True
            at += 1
        at += 1
    return -1, escaped


@njit(cache=True, nogil=True)
def _is_word(data: np.ndarray, at: int, stop: int, word: bytes) -> bool:
    if at + len(word) > stop:
        return False
    for i in range(len(word)):
        if data[at + i] != word[i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _digits_end(data: np.ndarray, at: int, stop: int) -> int:
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _number_end(data: np.ndarray, at: int, stop: int) -> tuple[int, int]:
    """Where the number at `at` ends (-1: it is none), and its kind."""
    signed = data[at] == 45 or data[at] == 43
    first = at + 1 if signed else at
    for word in (b"Infinity", b"INF"):
        if _is_word(data, first, stop, word):
            return first + len(word), FRACTION
    if data[at] == 43:
        return -1, MISSING
    if not signed and _is_word(data, at, stop, b"NaN"):
        return at + 3, FRACTION
    end = _digits_end(data, first, stop)
    if end == first or (data[first] == 48 and end > first + 1):
        return -1, MISSING
    kind = INTEGER
    if end < stop and data[end] == 46:
        point = end + 1
        end = _digits_end(data, point, stop)
        if end == point:
            return -1, MISSING
        kind = FRACTION
    if end < stop and (data[end] == 101 or data[end] == 69):
        power = end + 1
        if power < stop and (data[power] == 43 or data[power] == 45):
            power += 1
        end = _digits_end(data, power, stop)
        if end == power:
            return -1, MISSING
        kind = FRACTION
    return end, kind


@njit(cache=True, nogil=True)
def _scalar(data: np.ndarray, at: int, stop: int) -> tuple[int, int, int, int]:
    """The scalar at `at`: its kind (MISSING: it is broken), where it begins and ends, and where reading goes on."""
    sign = data[at]
    if sign == 34 or sign == 39:
        end, escaped = _text_end(data, at, stop)
        if end < 0:
            return MISSING, at, at, at
        return (ESCAPED if escaped else TEXT), at + 1, end, end + 1
    if sign == 110 and _is_word(data, at, stop, b"null"):
        return NULL, at, at + 4, at + 4
    if sign == 116 and _is_word(data, at, stop, b"true"):
        return TRUE, at, at + 4, at + 4
    if sign == 102 and _is_word(data, at, stop, b"false"):
        return FALSE, at, at + 5, at + 5
    end, kind = _number_end(data, at, stop)
    return (kind, at, end, end) if end > 0 else (MISSING, at, at, at)


@njit(cache=True, nogil=True)
def _field_of(data: np.ndarray, begin: int, end: int, names: np.ndarray, name_offsets: np.ndarray) -> int:
    """The number of the field with this name; -1: none has it."""
    for field in range(name_offsets.size - 1):
        low = name_offsets[field]
        if name_offsets[field + 1] - low == end - begin:
            same = True
            for i in range(end - begin):
                if data[begin + i] != names[low + i]:
                    same = False
                    break
            if same:
                return field
    return -1


@njit(cache=True, nogil=True)
def find_fields(
    data: np.ndarray,
    offsets: np.ndarray,
    names: np.ndarray,
    name_offsets: np.ndarray,
    kinds: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Fill in kinds (all MISSING before), begins and ends. What follows the object of a record is not looked at."""
    in_object = np.zeros(DEPTH, np.bool_)
    for record in range(offsets.size - 1):
        at, stop = offsets[record], offsets[record + 1]
        while at < stop and (data[at] == 32 or 9 <= data[at] <= 13):
            at += 1
        complete = False
        depth, state, field, nested_at = 0, _VALUE, -1, 0
        if at < stop and data[at] == 123:
            depth, state = 1, _NAME_OR_END
            in_object[1] = True
            at += 1
        while depth > 0 and at < stop:
            sign = data[at]
            if sign == 32 or sign == 9 or sign == 10 or sign == 13:
                at += 1
                continue
            if state == _NAME or state == _NAME_OR_END:
                if sign == 34 or sign == 39:
                    end, _ = _text_end(data, at, stop)
                    if end < 0:
                        break
                    if depth == 1:
                        field = _field_of(data, at + 1, end, names, name_offsets)
                    at = end + 1
                    state = _COLON
                    continue
                if state == _NAME or sign != 125:
                    break
            elif state == _COLON:
                if sign != 58:
                    break
                at += 1
                state = _VALUE
                continue
            elif state == _COMMA_OR_END and sign == 44:
                at += 1
                state = _NAME if in_object[depth] else _VALUE
                continue
            elif state == _VALUE or (state == _VALUE_OR_END and sign != 93):
                if sign == 123 or sign == 91:
                    if depth == 1:
                        nested_at = at
                    depth += 1
                    if depth == DEPTH:
                        break
                    in_object[depth] = sign == 123
                    state = _NAME_OR_END if sign == 123 else _VALUE_OR_END
                    at += 1
                    continue
                kind, begin, end, after = _scalar(data, at, stop)
                if kind == MISSING:
                    break
                if depth == 1 and field >= 0:
                    kinds[field, record], begins[field, record], ends[field, record] = kind, begin, end
                at = after
                state = _COMMA_OR_END
                continue
            # what is left is the end of an object or an array
            if sign != (125 if in_object[depth] else 93):
                break
            at += 1
            depth -= 1
            state = _COMMA_OR_END
            if depth == 0:
                complete = True
            elif depth == 1 and field >= 0:
                kinds[field, record], begins[field, record], ends[field, record] = NESTED, nested_at, at
        if not complete:
            kinds[:, record] = MISSING


@njit(cache=True, nogil=True)
def copy_spans(
    data: np.ndarray, begins: np.ndarray, ends: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values of one field one after the other, and their offsets (int64[records + 1]); those not chosen are empty."""
    offsets = np.zeros(begins.size + 1, np.int64)
    for i in range(begins.size):
        offsets[i + 1] = offsets[i] + (ends[i] - begins[i] if chosen[i] else 0)
    copied = np.empty(offsets[-1], np.uint8)
    for i in range(begins.size):
        if chosen[i]:
            at = offsets[i]
            for j in range(begins[i], ends[i]):
                copied[at] = data[j]
                at += 1
    return copied, offsets


@njit(cache=True, nogil=True)
def _number(data: np.ndarray, at: int, digits: int) -> int:
    """A number of so many digits; -1: there are others than digits."""
    value = 0
    for i in range(at, at + digits):
        if not 48 <= data[i] <= 57:
            return -1
        value = 10 * value + (data[i] - 48)
    return value


@njit(cache=True, nogil=True)
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the Gregorian calendar."""
    shifted = year - 1 if month <= 2 else year
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@njit(cache=True, nogil=True)
def _days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@njit(cache=True, nogil=True)
def _time(data: np.ndarray, begin: int, end: int) -> tuple[int, int]:
    """What is known of a text (UNREAD, ZONED, LOCAL), and the microseconds since 1970."""
    if end - begin < 10 or data[begin + 4] != 45 or data[begin + 7] != 45:
        return UNREAD, 0
    year, month, day = _number(data, begin, 4), _number(data, begin + 5, 2), _number(data, begin + 8, 2)
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= _days_of_month(year, month):
        return UNREAD, 0
    value = _days(year, month, day) * _DAY
    at = begin + 10
    if at == end:
        return LOCAL, value
    if end - at < 9 or (data[at] != 84 and data[at] != 32) or data[at + 3] != 58 or data[at + 6] != 58:
        return UNREAD, 0
    hour, minute, second = _number(data, at + 1, 2), _number(data, at + 4, 2), _number(data, at + 7, 2)
    if not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 59:
        return UNREAD, 0
    value += ((hour * 60 + minute) * 60 + second) * 1_000_000
    at += 9
    if at < end and data[at] == 46:
        at += 1
        weight = 100_000
        while at < end and 48 <= data[at] <= 57:  # what is finer than microseconds is cut off
            value += (data[at] - 48) * weight
            weight //= 10
            at += 1
    if at == end:
        return LOCAL, value
    if data[at] == 90 and at + 1 == end:
        return ZONED, value
    if (data[at] != 43 and data[at] != 45) or end - at != 6 or data[at + 3] != 58:
        return UNREAD, 0
    hours, minutes = _number(data, at + 1, 2), _number(data, at + 4, 2)
    if not 0 <= hours <= 17 or not 0 <= minutes <= 59:
        return UNREAD, 0
    shift = (hours * 60 + minutes) * 60_000_000
    return ZONED, value - (shift if data[at] == 43 else -shift)


@njit(cache=True, nogil=True)
def read_times(
    data: np.ndarray, kinds: np.ndarray, begins: np.ndarray, ends: np.ndarray, known: np.ndarray, values: np.ndarray
) -> None:
    """Times in the common ISO form, of one field: known uint8[records] (UNREAD before), values int64[records]."""
    for i in range(kinds.size):
        if kinds[i] == TEXT:
            known[i], values[i] = _time(data, begins[i], ends[i])
