"""Declarations, checked when they are made, and the catalog that keeps them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError
from episode.store.catalog import Catalog, catalog_directory
from episode.store.declaration import Declaration, declare

COLUMNS = "symbol STRING, ts TIMESTAMP, price DOUBLE"


def stock(name: str = "StockLive", **given: Any) -> Declaration:
    return declare(name, COLUMNS, **{"time": "ts", "key": "symbol", **given})


def test_a_declaration() -> None:
    made = stock(delay="10 seconds", archive="StockArchive", retain="30 days")
    assert made.columns == (("symbol", "string"), ("ts", "timestamp"), ("price", "double"))
    assert (made.time, made.key, made.delay, made.retain) == ("ts", ("symbol",), 10_000_000, 30 * 86_400_000_000)
    assert made.schema == pa.schema(
        [("symbol", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), ("price", pa.float64())]
    )


@pytest.mark.parametrize("type_", ["BIGINT", "INT", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_types_of_time(type_: str) -> None:
    number = type_ in ("BIGINT", "INT")
    made = declare("s", f"t {type_}", time="T", delay=5 if number else "5 seconds")
    assert (made.time, made.delay) == ("t", 5 if number else 5_000_000)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"time": "when"}, "no column when for the event time"),
        ({"time": "price"}, "cannot be the event time"),
        ({"key": "sym"}, "no column sym for the key"),
        ({"key": ["symbol", "SYMBOL"]}, "twice in the key"),
        ({"delay": 10}, "DELAY 10 does not fit the event time ts"),
        ({"retain": "10 bananas"}, "RETAIN 10 bananas does not fit"),
        ({"archive": "stocklive"}, "needs its own name"),
        ({"archive": "a b"}, "not a name for an archive"),
        ({"using": "paper"}, "no store paper"),
        ({"lanes": 0}, "lanes"),
        ({"options": {"colour": "red"}}, "no option colour"),
        ({"options": {"sync": "perhaps"}}, "sync is true or false"),
        ({"options": {"partition": "week"}}, "day or hour, not week"),
        ({"options": {"log_retain": "x"}}, "Expected a duration"),
        ({"location": "s3://bucket/x"}, "on a disk of this machine"),
    ],
)
def test_wrong_declarations(given: dict[str, Any], says: str) -> None:
    with pytest.raises(EpisodeError) as error:
        stock(**given)
    assert says in str(error.value)


@pytest.mark.parametrize("name", ["", "3x", "a b", "../x", "a.b", "x" * 100])
def test_wrong_names(name: str) -> None:
    with pytest.raises(EpisodeAnalysisError):
        stock(name)


@pytest.mark.parametrize("columns", ["", "t BIGINT, T INT", "t BIGINT, __episode_x INT", "t BIGINT, x money"])
def test_wrong_columns(columns: str) -> None:
    with pytest.raises(EpisodeAnalysisError):
        declare("s", columns, time="t")


def test_a_declaration_is_found_by_another_catalog(tmp_path: Path) -> None:
    made = Catalog(tmp_path).create(stock(archive="StockArchive", options={"sync": "false"}))
    other = Catalog(tmp_path)
    assert other.find("STOCKLIVE") == made
    assert other.archive_of("stockarchive") == made == other.lookup("StockArchive") == other.lookup("StockLive")
    assert other.names() == ["StockLive"]
    assert made.location == str(tmp_path / "stocklive")


def test_names_are_taken_once(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    made = catalog.create(stock(archive="StockArchive"))
    for name, archive in (
        ("stocklive", None),
        ("StockArchive", None),
        ("Other", "STOCKLIVE"),
        ("Other", "stockarchive"),
    ):
        with pytest.raises(EpisodeAnalysisError, match="already"):
            catalog.create(stock(name, archive=archive))
    assert catalog.create(stock("STOCKLIVE"), if_not_exists=True) == made
    assert catalog.names() == ["StockLive"]


def test_of_many_who_create_a_stream_at_once_one_does(tmp_path: Path) -> None:
    done: list[object] = []

    def create() -> None:
        try:
            done.append(Catalog(tmp_path).create(stock()))
        except EpisodeAnalysisError as error:
            done.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, Declaration) for one in done) == 1


def test_dropping(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "catalog")
    own = catalog.create(stock())
    elsewhere = catalog.create(stock("Other", location=str(tmp_path / "data")))
    for one in (own, elsewhere):
        Path(one.location).mkdir()
        assert catalog.drop(one.name.upper())
    assert not Path(own.location).exists()
    assert Path(elsewhere.location).exists()
    assert catalog.names() == []
    assert not catalog.drop("StockLive", if_exists=True)
    with pytest.raises(EpisodeAnalysisError, match="There is no stream StockLive"):
        catalog.drop("StockLive")


def test_what_is_not_there(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "nowhere")
    assert catalog.names() == []
    assert catalog.lookup("../../etc/passwd") is None
    assert not catalog.drop("x", if_exists=True)
    with pytest.raises(EpisodeAnalysisError, match="is empty"):
        catalog.find("StockLive")


def test_files_that_are_no_declarations(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.create(stock())
    path = tmp_path / "stocklive.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps({**whole, "format": 9}))
    with pytest.raises(EpisodeDataError, match="its checksum is wrong"):
        catalog.find("StockLive")
    del whole["checksum"]
    path.write_text(json.dumps({**whole, "format": 9}))
    with pytest.raises(EpisodeError, match="format 9"):
        catalog.find("StockLive")
    path.write_text("{")
    with pytest.raises(EpisodeDataError, match=f"The declaration {path} is corrupt"):
        catalog.find("StockLive")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"using": "kafka"}, "needs the option kafka.bootstrap.servers"),
        ({"using": "kafkb"}, "no store kafkb"),
        ({"time": "tt"}, "no column tt for the event time"),
        ({"key": ["price2"]}, "no column price2 for the key"),
        ({"lanes": "8"}, "lanes"),
        ({"columns": [["symbol", "strinh"], ["ts", "timestamp"]]}, "strinh is not a type"),
        ({"columns": [["symbol", "string", 1]]}, "too many values"),
        ({"retain": "x"}, "delay and retain are numbers"),
        ({"options": {"synd": "true"}}, "no option synd"),
        ({"location": 5}, "CREATE STREAM"),
        ({"columns": None}, "corrupt"),
    ],
)
def test_a_damaged_declaration_without_a_checksum(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    """As earlier versions wrote them: what is wrong is found before anything is done with it."""
    catalog = Catalog(tmp_path)
    catalog.create(stock())
    path = tmp_path / "stocklive.json"
    whole = json.loads(path.read_text())
    del whole["checksum"]
    path.write_text(json.dumps(whole))
    assert catalog.find("StockLive").time == "ts"
    path.write_text(json.dumps({**whole, **changed}))
    with pytest.raises(EpisodeDataError) as error:
        catalog.find("StockLive")
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_where_the_catalog_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EPISODE_CATALOG", raising=False)
    assert catalog_directory(warehouse=str(tmp_path / "w")) == tmp_path / "w" / "episode"
    assert catalog_directory("file:" + str(tmp_path / "set"), "w") == tmp_path / "set"
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "given"))
    assert Catalog().directory == tmp_path / "given"
