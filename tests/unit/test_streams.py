"""The public module episode.streams."""

from __future__ import annotations

import datetime as dt
import json
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import episode
from episode import streams
from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.lang.statement import parse_statement
from episode.lang.streams import CreateStream
from episode.queries.streams import create, describe_stream
from episode.store.catalog import Catalog

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
ROW = {"symbol": "A", "ts": NOW, "price": 1.5}


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    streams.create(
        "StockLive", "symbol STRING, ts TIMESTAMP, price DOUBLE", time="ts", key="symbol", archive="StockArchive"
    )
    return tmp_path / "catalog"


@pytest.mark.parametrize(
    "rows",
    [
        ROW,
        [ROW],
        iter([ROW]),
        [{"SYMBOL": "A", "Ts": NOW, "price": 1.5}],
        pa.Table.from_pylist([ROW]),
        pa.Table.from_pylist([ROW]).to_batches()[0],
        pd.DataFrame([ROW]),
        pd.DataFrame([{**ROW, "ts": NOW.replace(tzinfo=None)}]),
        pl.DataFrame([ROW]),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_every_kind(rows: Any) -> None:
    assert streams.append("stocklive", rows) == 1
    table, position = streams.read("StockLive")
    assert (table.to_pylist(), position, streams.count("StockArchive")) == ([ROW], 1, 1)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([ROW, {**ROW, "ts": None}], "Row 2 has no event time"),
        ([ROW, {"symbol": "B"}], "Row 2 has no event time"),
        ([ROW, {**ROW, "price": "x"}], "Row 2: price = 'x' does not fit the type DOUBLE"),
        ([ROW, {**ROW, "size": 3}], "Row 2 has a column size"),
        ([ROW, 5], "Row 2 is not a dictionary but a int"),
        (pd.DataFrame([{"symbol": "A", "ts": NOW}]), "has no column price"),
    ],
)
def test_what_does_not_fit(rows: Any, says: str) -> None:
    with pytest.raises(EpisodeDataError) as error:
        streams.append("StockLive", rows)
    assert says in str(error.value)
    assert streams.count("StockLive") == 0


def test_what_is_no_table() -> None:
    with pytest.raises(EpisodeAnalysisError):
        streams.append("StockLive", 5)


def test_reading_from_position_to_position() -> None:
    for i in range(5):
        streams.append(
            "StockLive", [{**ROW, "price": i}, {**ROW, "symbol": "B", "ts": NOW - dt.timedelta(1), "price": -i}]
        )
    table, position = streams.read("StockLive", limit=4)
    assert (table.num_rows, position) == (4, 2)
    assert table.column("price").to_pylist() == [0, 0, -1, 1]  # in order of time within a batch
    rest, position = streams.read("StockLive", position, columns=["price"])
    assert (rest.column("price").to_pylist(), position) == ([-2, 2, -3, 3, -4, 4], 5)
    assert streams.read("StockLive", position)[0].num_rows == 0
    assert streams.read("StockLive", 1, until=2)[0].num_rows == 2


def test_a_batch_of_a_producer_is_stored_once() -> None:
    for _ in range(2):
        assert streams.append("StockLive", ROW, origin=streams.Origin("p", 3)) == 1


def test_archiving() -> None:
    for _ in range(3):
        streams.append("StockLive", [ROW] * 10)
        assert streams.archive("StockLive") == 10
    assert streams.compact("StockArchive") == 3
    assert streams.expire("StockLive") == 0
    assert streams.count("StockLive") == 30


def test_tailing() -> None:
    streams.append("StockLive", ROW)
    assert [table.num_rows for table, _ in streams.tail("StockLive", 0, follow=False)] == [1]
    assert list(streams.tail("StockLive", follow=False)) == []
    new = streams.tail("StockLive", 1, poll=0.001, columns=["price"])
    later = threading.Timer(0.05, lambda: streams.append("StockLive", {**ROW, "price": 9}))
    later.start()
    table, position = next(new)
    later.join()
    assert (table.to_pylist(), position) == ([{"price": 9.0}], 2)


def test_declarations(catalog: Path, tmp_path: Path) -> None:
    assert episode.streams is streams
    assert streams.names() == streams.names(catalog=catalog) == ["StockLive"]
    assert streams.describe("stockarchive").name == "StockLive"
    assert streams.create("stocklive", "t INT", time="t", if_not_exists=True).time == "ts"
    with pytest.raises(EpisodeAnalysisError, match="already"):
        streams.create("StockLive", "t INT", time="t")
    with pytest.raises(EpisodeAnalysisError, match="event time"):
        streams.create("Other", "t DOUBLE")
    assert streams.names(catalog=tmp_path / "other") == []
    assert streams.drop("StockLive")
    assert not streams.drop("StockLive", if_exists=True)
    with pytest.raises(EpisodeAnalysisError, match="no stream StockLive"):
        streams.count("StockLive")


def test_a_batch_is_read_in_order_of_time(tmp_path: Path) -> None:
    streams.create("s", "ts BIGINT, v BIGINT", time="ts", catalog=tmp_path)
    streams.append("s", [{"ts": 5, "v": 1}, {"ts": 3, "v": 2}, {"ts": 5, "v": 3}], catalog=tmp_path)
    table, _ = streams.read("s", catalog=tmp_path)
    assert table.to_pylist() == [{"ts": 3, "v": 2}, {"ts": 5, "v": 1}, {"ts": 5, "v": 3}]


THESIS = "CREATE STREAM {name}(symbol VARCHAR(8), company CHAR(3), ts TIMESTAMP, price INT(11), volume BIGINT(20));"


def declared_by(text: str, catalog: Path) -> streams.Declaration:
    """What CREATE STREAM declares; no Spark is needed."""
    found = parse_statement(text).streams
    assert isinstance(found, CreateStream)
    return create(Catalog(catalog), found)


def test_a_stream_as_the_thesis_prints_it(catalog: Path) -> None:
    found = declared_by(THESIS.format(name="Ticks"), catalog)
    same = streams.create("Same", "symbol VARCHAR(8), company CHAR(3), ts TIMESTAMP, price INT(11), volume BIGINT(20)")
    assert found.time == same.time == "ts"
    assert found.columns == same.columns
    assert found.lengths == same.lengths == {"symbol": 8, "company": 3}
    assert [row[1] for row in describe_stream(found)[:5]] == ["varchar(8)", "varchar(3)", "timestamp", "int", "bigint"]
    rows = pa.table(
        {"symbol": ["ä" * 8, None], "company": ["AB", ""], "ts": [NOW, NOW], "price": [1, 2], "volume": 2 * [3]}
    )
    streams.append("Ticks", rows)
    assert streams.read("Ticks")[0].column("company").to_pylist() == ["AB", ""]  # not padded
    assert streams.describe("Ticks") == found


@pytest.mark.parametrize(
    ("column", "value", "type_"), [("symbol", "x" * 9, "VARCHAR(8)"), ("company", "four", "VARCHAR(3)")]
)
@pytest.mark.parametrize("kind", ["dictionaries", "table", "json", "csv"])
def test_values_that_are_longer_than_declared(
    catalog: Path, tmp_path: Path, column: str, value: str, type_: str, kind: str
) -> None:
    declared_by(THESIS.format(name="Ticks"), catalog)
    row = {"symbol": "A", "company": "B", "ts": NOW, "price": 1, "volume": 2}
    rows = [row, {**row, column: value}]
    given: Any = rows if kind == "dictionaries" else pa.Table.from_pylist(rows)
    if kind in ("json", "csv"):
        texts = [{**one, "ts": NOW.isoformat()} for one in rows]
        lines = [json.dumps(text) for text in texts]
        table = [",".join(texts[0]), *(",".join(map(str, text.values())) for text in texts)]
        path = tmp_path / f"e.{kind}"
        path.write_text("\n".join(lines if kind == "json" else table) + "\n")
        given = next(streams.events_of(str(path), kind, streams.describe("Ticks")))
    with pytest.raises(EpisodeDataError) as error:
        streams.append("Ticks", given)
    assert f"Row 2: {column} = '{value}' does not fit the type {type_} of Ticks" in str(error.value)
    assert streams.count("Ticks") == 0


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("a DATE, b TIMESTAMP", "Which column is the event time: a, b?"),
        ("a INT(11), b BIGINT", "Which column is the event time: a, b?"),
        ("a VARCHAR(8), b DOUBLE", "No column can be the event time."),
    ],
)
def test_which_column_is_the_time(catalog: Path, columns: str, says: str) -> None:
    for declared in (
        lambda: streams.create("Ticks", columns),
        lambda: declared_by(f"CREATE STREAM Ticks ({columns})", catalog),
    ):
        with pytest.raises(EpisodeAnalysisError) as error:
            declared()
        assert says in str(error.value)
