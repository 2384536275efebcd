"""Events from files and pipes, in every form; errors name the row."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
import threading
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from episode.errors import EpisodeDataError
from episode.store import sources
from episode.store.declaration import Declaration, declare
from episode.store.sources import events_of

UTC = dt.timezone.utc
WIDE = (
    "k STRING, t TIMESTAMP, n TIMESTAMP_NTZ, d DATE, x DOUBLE, i INT, b BOOLEAN, p DECIMAL(8, 2), m MAP<STRING, BIGINT>"
)


def stream(columns: str = "k STRING, t BIGINT, v DOUBLE") -> Declaration:
    return declare("Live", columns, time="t", key="k")


def written(path: Path, text: str) -> str:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


def rows_of(tables: Any) -> list[dict[str, Any]]:
    return [row for table in tables for row in table.to_pylist()]


def test_json_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "e.jsonl", '{"k": "a", "t": 1, "v": 2}\n\n{"v": 1.5, "t": 2}\n')
    assert rows_of(events_of(path, "json", stream())) == [{"k": "a", "t": 1, "v": 2.0}, {"k": None, "t": 2, "v": 1.5}]


def test_names_in_other_letters(tmp_path: Path) -> None:
    path = written(tmp_path / "e.jsonl", '{"K": "a", "T": 1, "v": 2}\n')
    assert rows_of(events_of(path, "json", stream())) == [{"k": "a", "t": 1, "v": 2.0}]


VALUES = {
    "k": "ä", "t": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "n": dt.datetime(2026, 1, 2), "d": dt.date(2026, 1, 2),
    "x": 1.5, "i": 7, "b": True, "p": Decimal("12.50"),
}  # fmt: skip


def test_every_type_as_json(tmp_path: Path) -> None:
    line = {
        **VALUES,
        "t": "2026-01-02T03:04:05Z",
        "n": "2026-01-02T00:00:00",
        "d": "2026-01-02",
        "p": 12.5,
        "m": {"a": 1},
    }
    path = written(tmp_path / "e.json", json.dumps(line) + "\n")
    (row,) = rows_of(events_of(path, "json", stream(WIDE)))
    assert row == {**VALUES, "m": [("a", 1)]}


def test_every_type_as_csv(tmp_path: Path) -> None:
    text = "p,k,t,n,d,x,i,b\n12.50,ä,2026-01-02 03:04:05,2026-01-02,2026-01-02, 1.5 ,7,true\n"
    text += ",,2026-01-02T03:04:05+00:00,,,,,\n"
    columns = WIDE.replace(", m MAP<STRING, BIGINT>", "")
    first, second = rows_of(events_of(written(tmp_path / "e.csv", text), "csv", stream(columns)))
    assert first == VALUES
    assert second == {**dict.fromkeys(VALUES), "k": "", "t": VALUES["t"]}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-01", 0),
        ("2026-01-01 00:00:05", 5),
        ("2026-01-01T00:00:05.250", 5.25),
        ("2026-01-01T00:00:05Z", 5),
        ("2026-01-01T01:00:05+01:00", 5),
        ("2025-12-31 23:00:05-0100", 5),
    ],
)
def test_how_times_are_written(tmp_path: Path, text: str, seconds: float) -> None:
    path = written(tmp_path / "e.jsonl", json.dumps({"k": "a", "t": text, "v": 1}) + "\n")
    (row,) = rows_of(events_of(path, "json", stream("k STRING, t TIMESTAMP, v DOUBLE")))
    assert row["t"] == dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=seconds)


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz"])
@pytest.mark.parametrize("rows", [1, 7, 100, 1_000])
def test_batches_are_full(tmp_path: Path, name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_CHUNK", 500)
    path = written(tmp_path / name, "".join(f'{{"k": "a", "t": {i}, "v": 1}}\n' for i in range(250)))
    seen: list[int] = []
    sizes = [table.num_rows for table in events_of(path, "json", stream(), rows, seen=seen.append)]
    assert sum(sizes) == 250
    assert set(sizes[:-1]) <= {rows}
    assert seen[-1] == Path(path).stat().st_size


@pytest.mark.parametrize("end", ["", "\n"])
def test_csv_over_batches(tmp_path: Path, end: str) -> None:
    path = written(tmp_path / "e.csv", "T,k,v\n" + "\n".join(f"{i},a,{i}" for i in range(20)) + end)
    found = list(events_of(path, "csv", stream(), 6))
    assert [row["t"] for row in rows_of(found)] == list(range(20))


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        ("json", '{"k": "a", "t": 1, "v": 1}\n{"k": "a", "t": 2, "v": "x"}\n', "Row 2: v = 'x' does not fit"),
        ("json", '{"k": "a", "t": 1, "v": 1}\n{"k": "a", "t": 2, "w": 3}\n', "Row 2 has a column w"),
        ("json", '{"k": "a", "t": 1, "v": 1}\n{"k": "a", "t": \n', "Row 2 is not JSON"),
        ("json", '{"k": "a", "t": 1, "v": 1}\n[1]\n', "Row 2 is not a dictionary but a list"),
        ("csv", "k,t,v\na,1,1\na,2,x\n", "Row 2: v = 'x' does not fit the type DOUBLE"),
        ("csv", "k,t,v\na,1,1\na,2\n", "not CSV"),
    ],
)
@pytest.mark.parametrize("rows", [1, 100])
def test_errors_name_the_row(tmp_path: Path, kind: str, text: str, says: str, rows: int) -> None:
    with pytest.raises(EpisodeDataError) as error:
        list(events_of(written(tmp_path / f"e.{kind}", text), kind, stream(), rows))
    assert says in str(error.value)


def test_nested_columns_are_not_in_csv(tmp_path: Path) -> None:
    with pytest.raises(EpisodeDataError, match="use Parquet"):
        list(events_of(written(tmp_path / "e.csv", "m\nx\n"), "csv", stream(WIDE)))


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"k": ["a"] * 10, "t": range(10), "v": [1.0] * 10})
    for i in range(2):
        pq.write_table(table, tmp_path / f"{i}.parquet")
    (tmp_path / "_SUCCESS").touch()
    found = list(events_of(str(tmp_path), "parquet", stream(), 6))
    assert [part.num_rows for part in found] == [6, 4, 6, 4]
    with pytest.raises(EpisodeDataError, match="pipe"):
        list(events_of("-", "parquet", stream()))
    path = written(tmp_path / "x.parquet", "no")
    with pytest.raises(EpisodeDataError, match="cannot be read as Parquet"):
        list(events_of(path, "parquet", stream()))


def piped(monkeypatch: pytest.MonkeyPatch) -> int:
    """Standard input is a pipe; gives back its other end."""
    read, write = os.pipe()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda: read))
    return write


def test_a_pipe_that_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole lines that have come are a batch; a part of a line waits for its rest."""
    end = piped(monkeypatch)
    monkeypatch.setattr(sources, "PATIENCE", 0.01)
    source = events_of("-", "json", stream())
    os.write(end, b'{"k": "a", "t": 1, "v": 1}\n{"k": "a", "t": 2')
    assert [row["t"] for row in next(source).to_pylist()] == [1]
    os.write(end, b', "v": 1}\n')
    os.close(end)
    assert [row["t"] for row in rows_of(source)] == [2]


def test_a_patient_reader_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    end = piped(monkeypatch)
    monkeypatch.setattr(sources, "PATIENCE", 0.01)

    def write() -> None:
        for i in range(10):
            os.write(end, b'{"k": "a", "t": %d, "v": 1}\n' % i)
            time.sleep(0.02 if i == 4 else 0)
        os.close(end)

    writer = threading.Thread(target=write)
    writer.start()
    sizes = [table.num_rows for table in events_of("-", "json", stream(), 4, patient=True)]
    writer.join()
    assert sizes == [4, 4, 2]
