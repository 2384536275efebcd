"""Where the values of fields are in records of JSON, against a small parser; and times, against Python's."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers import json_records as code
from tests.unit.native.runs import run_all_ways

FIELDS = ["k", "ts", "v"]
NUMBER = re.compile(rb"[+-]?(?:Infinity|INF)|NaN|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
TEXT = re.compile(rb"\"((?:[^\"\\\x00-\x1f]|\\.)*)\"|'((?:[^'\\\x00-\x1f]|\\.)*)'", re.S)
SPACES = re.compile(rb"[ \t\n\r]*")
WORDS = {b"null": code.NULL, b"true": code.TRUE, b"false": code.FALSE}
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d):(\d\d)(?:\.(\d*))?(Z|([+-])(\d\d):(\d\d))?)?", re.ASCII)

Spans = dict[str, tuple[int, int, int]]


class Broken(Exception):
    pass


class Parser:
    """A JSON object by recursive descent, with the leniency of Spark."""

    def __init__(self, data: bytes) -> None:
        self.data, self.found = data, Spans()

    def skip(self, at: int) -> int:
        found = SPACES.match(self.data, at)
        assert found is not None
        return found.end()

    def expect(self, at: int, *signs: bytes) -> tuple[bytes, int]:
        at = self.skip(at)
        if self.data[at : at + 1] not in signs or at == len(self.data):
            raise Broken
        return self.data[at : at + 1], at + 1

    def text(self, at: int) -> tuple[int, int]:
        found = TEXT.match(self.data, at)
        if found is None:
            raise Broken
        return found.start() + 1, found.end() - 1

    def members(self, at: int, depth: int, is_object: bool) -> int:
        """What follows the opening of an object or array, up to after its end."""
        end = b"}" if is_object else b"]"
        if depth == code.DEPTH:
            raise Broken
        if self.data[self.skip(at) :][:1] == end:
            return self.skip(at) + 1
        sign = b","
        while sign == b",":
            name = None
            if is_object:
                begin, close = self.text(self.skip(at))
                name = self.data[begin:close].decode(errors="replace")
                _, at = self.expect(close + 1, b":")
            at = self.value(at, depth, name)
            sign, at = self.expect(at, b",", end)
        return at

    def value(self, at: int, depth: int, name: str | None) -> int:
        at = self.skip(at)
        sign = self.data[at : at + 1]
        if sign in (b"{", b"["):
            end = self.members(at + 1, depth + 1, sign == b"{")
            span = (code.NESTED, at, end)
        elif sign in (b'"', b"'"):
            begin, close = self.text(at)
            span, end = (code.ESCAPED if b"\\" in self.data[begin:close] else code.TEXT, begin, close), close + 1
        else:
            word = next((word for word in WORDS if self.data.startswith(word, at)), None)
            found = NUMBER.match(self.data, at)
            if word is None and found is None:
                raise Broken
            end = at + len(word) if word is not None else found.end()  # type: ignore[union-attr]
            written = self.data[at:end]
            fraction = code.FRACTION if re.search(rb"[.eEIN]", written) else code.INTEGER
            span = (WORDS[word] if word is not None else fraction, at, end)
        if depth == 1 and name in FIELDS:
            assert name is not None
            self.found[name] = span
        return end


def expected(record: bytes) -> Spans:
    parser = Parser(record)
    start = len(record) - len(record.lstrip(b" \t\n\r\x0b\x0c"))
    try:
        if record[start : start + 1] != b"{":
            raise Broken
        parser.members(start + 1, 1, True)
    except Broken:
        return {}
    return parser.found


def arrays_of(records: list[bytes]) -> list[np.ndarray]:
    offsets = np.cumsum([0, *map(len, records)]).astype(np.int64)
    names, name_offsets = "".join(FIELDS).encode(), np.cumsum([0, *map(len, FIELDS)]).astype(np.int64)
    return [np.frombuffer(b"".join(records), np.uint8), offsets, np.frombuffer(names, np.uint8), name_offsets]


def spans_of(records: list[bytes], kinds: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> list[Spans]:
    shape = len(FIELDS), len(records)
    kinds, begins, ends = (array.reshape(shape).tolist() for array in (kinds, begins, ends))
    firsts = np.cumsum([0, *map(len, records)]).tolist()
    return [
        {
            name: (kinds[at][row], begins[at][row] - firsts[row], ends[at][row] - firsts[row])
            for at, name in enumerate(FIELDS)
            if kinds[at][row] != code.MISSING
        }
        for row in range(len(records))
    ]


def room(records: list[bytes]) -> list[np.ndarray]:
    return [np.zeros((len(FIELDS), len(records)), kind) for kind in (np.uint8, np.int64, np.int64)]


PIECES = [
    "{", "}", "[", "]", ":", ",", "1", "-", "+", "0", ".5", "e3", "E-", "null", "true", "false", "nul", "NaN",
    "Infinity", "INF", "-INF", '"', "'", "\t", "\v", "\\", "007", "1.", '"k"', '"ts":', "'v'", ' "k" : ', '"a\\"b"',
    '"x"', '{"k": 1}', "[1, {}]", "\x01", "é", " ",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.floats(allow_nan=True) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*FIELDS, "other"]), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.sampled_from([*FIELDS, "other"]), JSON, max_size=4).map(json.dumps)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    text, piece = draw(OBJECTS), draw(st.sampled_from(PIECES))
    at = draw(st.integers(0, len(text)))
    return text[:at] + piece + text[at + draw(st.integers(0, 2)) :]


RECORDS = st.lists(
    (OBJECTS | damaged() | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)).map(str.encode), max_size=4
)


@settings(max_examples=400, deadline=None)
@given(RECORDS)
def test_fields_are_where_a_parser_finds_them(records: list[bytes]) -> None:
    found = room(records)
    code.find_fields(*arrays_of(records), *found)
    assert spans_of(records, *found) == [expected(record) for record in records]


@settings(max_examples=25, deadline=None)
@given(RECORDS)
def test_the_code_does_the_same_in_all_ways(records: list[bytes]) -> None:
    given_ = [*arrays_of(records), *(array.reshape(-1) for array in room(records))]
    _, arrays = run_all_ways(code.fields_program(), [*given_, np.zeros(code.DEPTH, np.uint8)])
    assert spans_of(records, *arrays[4:7]) == [expected(record) for record in records]


@pytest.mark.parametrize("depth", [1, 509, 510, 511, 512, 600])
def test_objects_that_are_nested_too_deep_are_broken(depth: int) -> None:
    record = b'{"k": ' + b"[" * depth + b"]" * depth + b"}"
    found = room([record])
    code.find_fields(*arrays_of([record]), *found)
    whole = {"k": (code.NESTED, 6, 6 + 2 * depth)} if depth + 1 < code.DEPTH else {}
    assert spans_of([record], *found) == [whole]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=20), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=6))
def test_values_are_copied_one_after_the_other(data: bytes, spans: list[tuple[int, int, bool]]) -> None:
    spans = [(min(a, b, len(data)), min(max(a, b), len(data)), chosen) for a, b, chosen in spans]
    begins, ends, chosen = (np.array(column) for column in zip(*spans)) if spans else (np.zeros(0, np.int64),) * 3
    flags = chosen.astype(np.bool_)
    bytes_ = np.frombuffer(data, np.uint8)
    copied, offsets = code.copy_spans(bytes_, begins, ends, flags)
    parts = [data[begin:end] if wanted else b"" for begin, end, wanted in spans]
    assert [bytes(copied[offsets[at] : offsets[at + 1]]) for at in range(len(spans))] == parts
    given_ = [bytes_, begins, offsets, np.zeros_like(copied)]
    assert run_all_ways(code.copying_program(), given_)[1][3].tolist() == copied.tolist()


DIGITS = st.sampled_from(["0000", "0001", "1900", "1969", "2000", "2023", "2024", "9999", "20x4"])
TWO = st.integers(0, 61).map(lambda number: f"{number:02d}") | st.sampled_from(
    ["00", "02", "12", "29", "30", "31", "x1"]
)
TIMES = st.builds(
    lambda year, month, day, sign, clock, part, zone: f"{year}-{month}-{day}{sign}{':'.join(clock)}{part}{zone}",
    DIGITS, TWO | st.sampled_from(["01", "02", "11"]), TWO, st.sampled_from(["T", " ", "t", ""]),
    st.lists(TWO, min_size=2, max_size=3), st.sampled_from(["", ".", ".5", ".123456", ".1234567", ".x"]),
    st.sampled_from(["", "Z", "z", "+01:30", "-17:59", "+18:00", "+0130", " Z"]),
)  # fmt: skip
DATES = st.builds("{}-{}-{}".format, DIGITS, TWO, TWO)


def expected_time(text: str) -> tuple[int, int]:
    found = TIME.fullmatch(text)
    if found is None:
        return code.UNREAD, 0
    year, month, day, hour, minute, second, part, zone, sign, hours, minutes = found.groups()
    if int(hours or 0) > 17 or int(minutes or 0) > 59:
        return code.UNREAD, 0
    try:
        when = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    except ValueError:
        return code.UNREAD, 0
    micros = (when - datetime(1970, 1, 1)) // timedelta(microseconds=1) + int((part or "").ljust(6, "0")[:6])
    shift = (int(hours or 0) * 60 + int(minutes or 0)) * 60_000_000
    return code.ZONED if zone else code.LOCAL, micros - (shift if sign != "-" else -shift)


@settings(max_examples=300, deadline=None)
@given(st.lists(TIMES | DATES | st.just("2024-02-29T03:04:05.678Z"), min_size=1, max_size=4))
def test_times_in_the_common_form(texts: list[str]) -> None:
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    kinds, known, values = np.full(len(texts), code.TEXT, np.uint8), np.zeros(len(texts), np.uint8), offsets[:-1] * 0
    code.read_times(data, kinds, offsets[:-1], offsets[1:], known, values)
    assert list(zip(known.tolist(), values.tolist())) == [expected_time(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["2024-02-29T03:04:05.678+01:30", "1900-02-29", "2024-12-31", "0001-01-01 00:00:00", "x"]
)
def test_times_are_read_alike_in_all_ways(text: str) -> None:
    data, ends = np.frombuffer(text.encode(), np.uint8), np.array([len(text)])
    for kind in (code.TEXT, code.INTEGER):
        given_ = [data, np.array([kind], np.uint8), ends * 0, ends, np.zeros(1, np.uint8), ends * 0]
        _, (*_, known, values) = run_all_ways(code.times_program(), given_)
        assert (known[0], values[0]) == (expected_time(text) if kind == code.TEXT else (code.UNREAD, 0))
