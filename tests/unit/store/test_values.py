"""Values on their way into a stream: each kind of value in a column of each type, from every source.

What is stored equals what was given, or the value is refused with its row and its column.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from episode.errors import EpisodeDataError
from episode.store.conforming import table_of_dictionaries
from episode.store.sources import events_of
from episode.store.stream import StreamStore
from tests.support.stores import make_store

UTC = dt.timezone.utc
ROME = dt.timezone(dt.timedelta(hours=2))
DAY, MOMENT = dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
D = decimal.Decimal

TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(6, 2)", "STRING", "VARCHAR(3)",
    "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<INT>", "ARRAY<FLOAT>", "MAP<STRING, INT>",
    "STRUCT<a: INT, b: STRING>",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    True, False, np.bool_(True), 0, 1, -1, 127, 128, 2**15, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**70,
    np.int8(5), np.int64(300), np.uint64(2**63), 0.0, -0.0, 1.0, 1.5, 2.7, -0.9, 0.1, 1e10, 1e39, 1e300, math.inf,
    math.nan, np.float32(0.1), np.float64(2.5), D("1"), D("1.5"), D("1.25"), D("1.234"), D("99999.99"), D("1e3"),
    D("NaN"), "", "1", "1.5", "abc", "abcd", "äöü", "\ud800", "\0", b"", b"x", b"\xff", bytearray(b"x"), DAY, MOMENT,
    dt.datetime(2026, 1, 2), MOMENT.replace(tzinfo=UTC), MOMENT.replace(tzinfo=ROME), pd.Timestamp(MOMENT), pd.NaT,
    pd.Timestamp("2026-01-02T03:04:05.678901234"), np.datetime64("2026-01-02T03:04:05.678901"),
    np.datetime64("2026-01-02T03:04:05.678901234"), dt.timedelta(1), dt.time(1, 2), [], [1, 2], [1, None], [1.5],
    [True], ["x"], [0.5], [0.1], (1, 2), {}, {"a": 1}, {"a": 1, "b": "x"}, {"a": 1.5}, {"a": True}, {"a": 1, "z": 2},
    {"x": 2**40}, [("a", 1)], object(), float("-inf"), 3 + 4j,
)  # fmt: skip


def same(stored: Any, given: Any) -> bool:
    """Whether a stored value is the one that was given, and not another one that was made of it."""
    if isinstance(given, (float, np.floating)) and not isinstance(stored, decimal.Decimal):
        if isinstance(stored, bool) or not isinstance(stored, (int, float)):
            return False
        return (math.isnan(given) and math.isnan(stored)) or (isinstance(stored, float) and stored == given)
    if isinstance(given, float):
        return float(stored) == given
    if isinstance(given, dt.datetime):
        assert isinstance(stored, dt.datetime)
        both_zoned = given.tzinfo is not None and stored.tzinfo is not None
        return stored == given if both_zoned else given.tzinfo is None and stored.replace(tzinfo=None) == given
    if isinstance(given, dict):
        found = dict(stored)
        return set(given) <= set(found) and all(same(found[name], value) for name, value in given.items())
    if isinstance(given, (list, tuple)) and not (given and isinstance(given[0], tuple)):
        return len(stored) == len(given) and all(map(same, stored, given))
    kinds = (bool, np.bool_)
    return isinstance(stored, kinds) == isinstance(given, kinds) and bool(stored == given)


def attempt(append: Callable[[], int]) -> int | EpisodeDataError:
    """The position after what is appended, or why it is not."""
    try:
        return append()
    except EpisodeDataError as error:
        return error


@pytest.fixture(scope="module", params=TYPES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StreamStore:
    place = tmp_path_factory.mktemp("values")
    return make_store(place, f"t BIGINT, x {request.param}", key=(), options={"sync": "false"})


@pytest.mark.parametrize("value", VALUES, ids=[f"{at}-{type(one).__name__}" for at, one in enumerate(VALUES)])
def test_a_dictionary_is_stored_as_it_is_or_refused(store: StreamStore, value: Any) -> None:
    rows = [{"t": 1, "x": None}, {"t": 2, "x": value}, {"t": 3, "x": None}]
    position, count = store.head(), store.count()
    after = attempt(lambda: store.append(table_of_dictionaries(rows, store.declaration)))
    if isinstance(after, EpisodeDataError):
        assert "Row 2" in str(after)
        assert "x" in str(after)
        assert (store.head(), store.count()) == (position, count)
        return
    (_, stored, _) = store.read(position, after, columns=["x"])[0].column("x").to_pylist()
    assert same(stored, value), (store.declaration.columns[1], stored)


ARRAYS = (
    pa.array([True]), pa.array([300], pa.int16()), pa.array([2**63], pa.uint64()), pa.array([2**53 + 1]),
    pa.array([7], pa.int8()), pa.array([1.5]), pa.array([0.1]), pa.array([1e300]), pa.array([math.nan]),
    pa.array([math.inf]), pa.array([0.5], pa.float32()), pa.array([np.float16(0.5)], pa.float16()),
    pa.array([D("1.25")]), pa.array([D("1.234")]), pa.array([D(7)], pa.decimal128(5, 0)),
    pa.array([D(10**30)], pa.decimal256(40, 0)), pa.array(["abc"]), pa.array(["abcd"]),
    pa.array(["abc"], pa.large_string()), pa.array(["abc"], pa.string_view()), pa.array(["abc"]).dictionary_encode(),
    pa.array([b"x"]), pa.array([b"xy"], pa.binary(2)), pa.array([DAY]), pa.array([DAY], pa.date64()),
    pa.array([MOMENT]), pa.array([MOMENT], pa.timestamp("us", tz="Europe/Rome")),
    pa.array([5_000_000_123], pa.timestamp("ns")), pa.array([5_000_000_000], pa.timestamp("ns", tz="UTC")),
    pa.array([3], pa.timestamp("s")), pa.array([2**62], pa.timestamp("s")), pa.array([3], pa.duration("us")),
    pa.array([[1, 2]]), pa.array([[2**40]]), pa.array([[0.5]]), pa.array([[0.1]], pa.list_(pa.float32())),
    pa.array([[1]], pa.list_(pa.int8(), 1)), pa.array([{"a": 1, "b": "x"}]), pa.array([{"a": 1}]),
    pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
)  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.type}")
def test_a_table_is_stored_as_it_is_or_refused(store: StreamStore, array: pa.Array) -> None:
    padded = pa.concat_arrays([pa.nulls(1, array.type), array])
    position = store.head()
    after = attempt(lambda: store.append(pa.table({"t": [1, 2], "x": padded})))
    if isinstance(after, EpisodeDataError):
        assert "was given" in str(after) or "Row 2" in str(after)
        assert "x" in str(after)
        return
    stored = store.read(position, after, columns=["x"])[0].column("x").to_pylist()[1]
    given = array[0].as_py()
    assert same(stored, int(given) if isinstance(given, decimal.Decimal) and isinstance(stored, int) else given) or (
        float(given) == stored and isinstance(stored, float)  # a whole number in a column of floats
    )


TEXTS = (
    "true", "1", "-5", "300", "2147483648", "9223372036854775808", "1.5", "1.0", "1e2", "0.1", "1e39", "1e400",
    "-1e400", "1.25", "1.234", "123456.78", '"abc"', '"abcd"', '"1"', '"1.5"', '"2026-01-02"', '"2026-02-30"',
    '"2026-01-02T03:04:05.678901"', '"2026-01-02T03:04:05.678901234"', '"2026-01-02T03:04:05+02:00"', "null",
    "[1, 2]", "[1.5]", "[1e39]", '{"a": 1}', '{"a": 1, "b": "x"}', '{"a": 1, "z": 2}', '{"a": 1.5}',
    '{"a": 1, "a": 2}', '"\\ud800"', '"\\u0000"', "NaN", "Infinity", "9007199254740993", "tru", '"x',
)  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("slow", [False, True], ids=["", "by line"])
def test_json_is_stored_as_it_is_or_refused(store: StreamStore, tmp_path: Path, text: str, slow: bool) -> None:
    """slow: names in other letters, which are read line by line."""
    name = "T" if slow else "t"
    path = tmp_path / "e.json"
    path.write_text(f'{{"{name}": 1, "x": null}}\n{{"{name}": 2, "x": {text}}}\n')
    position = store.head()
    after = attempt(lambda: store.append(next(events_of(str(path), "json", store.declaration))))
    if isinstance(after, EpisodeDataError):
        assert "Row 2" in str(after)
        return
    stored = store.read(position, after, columns=["x"])[0].column("x").to_pylist()[1]
    given = json.loads(text)
    if given is None or stored is None:
        assert stored is given
    elif isinstance(stored, decimal.Decimal):
        assert stored == D(text.strip('"'))
    elif isinstance(stored, float):  # the nearest of its type
        assert not isinstance(given, bool)
        nearest = np.float32(given) if "FLOAT" in store.declaration.written_type("x").upper() else given
        assert same(stored, float(nearest))
    elif isinstance(stored, bytes):
        assert stored == given.encode()
    elif isinstance(stored, dt.datetime):
        meant = dt.datetime.fromisoformat(given)
        assert stored.replace(tzinfo=UTC) == (meant if meant.tzinfo is not None else meant.replace(tzinfo=UTC))
        assert stored.tzinfo is not None or meant.tzinfo is None
    elif isinstance(stored, dt.date):
        assert stored.isoformat() == given
    else:
        assert same(dict(stored) if isinstance(given, dict) else stored, given)


@pytest.mark.parametrize("text", [text.strip('"') for text in TEXTS if "\\" not in text and "," not in text])
def test_csv_is_stored_as_it_is_or_refused(store: StreamStore, tmp_path: Path, text: str) -> None:
    if pa.types.is_nested(store.schema.field("x").type):
        pytest.skip("CSV has no nested values")
    path = tmp_path / "e.csv"
    path.write_text(f"t,x\n1,\n2,{text}\n")
    position = store.head()
    after = attempt(lambda: store.append(next(events_of(str(path), "csv", store.declaration))))
    if isinstance(after, EpisodeDataError):
        assert "Row 2: x = " in str(after)
        return
    stored = store.read(position, after, columns=["x"])[0].column("x").to_pylist()[1]
    if isinstance(stored, bool):
        assert text in ("true", "1")
    elif isinstance(stored, (int, decimal.Decimal)):
        assert stored == D(text)
    elif isinstance(stored, float):
        assert math.isinf(stored) == ("inf" in text.lower())
        limit = 1e-6 if pa.types.is_float32(store.schema.field("x").type) else 0
        assert math.isclose(stored, float(text), rel_tol=limit) or math.isnan(float(text))
    elif isinstance(stored, (str, bytes)):
        assert stored in (text, text.encode())
    else:
        assert stored.isoformat().startswith(text[:10])


def test_rounded_numbers_in_dictionaries_are_refused(tmp_path: Path) -> None:
    """The defect that these tables were written for."""
    store = make_store(tmp_path, "k STRING, ts BIGINT, n INT", time="ts")
    with pytest.raises(EpisodeDataError) as error:
        table_of_dictionaries([{"k": "a", "ts": 1, "n": 2}, {"k": "a", "ts": 2, "n": 2.7}], store.declaration)
    assert "Row 2: n = 2.7 does not fit the type INT of Live" in str(error.value)


def test_a_column_that_is_given_twice(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with pytest.raises(EpisodeDataError, match="Row 1 has one column twice"):
        table_of_dictionaries([{"k": "a", "K": "b", "t": 1, "v": 1}], store.declaration)
    path = tmp_path / "e.csv"
    path.write_text("k,t,v,v\na,1,1,2\n")
    with pytest.raises(EpisodeDataError, match="two columns v"):
        store.append(next(events_of(str(path), "csv", store.declaration)))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    path = tmp_path / "e.json"
    path.write_bytes(b'{"k": "a", "t": 1, "v": 1}\n{"k": "\xff", "t": 2, "v": 1}\n')
    with pytest.raises(EpisodeDataError, match="Row 2 is not JSON"):
        list(events_of(str(path), "json", store.declaration))
