"""The command line's push, tail, archive and streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from episode import cli, streams
from episode.store import sources


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "catalog"
    monkeypatch.setenv("EPISODE_CATALOG", str(place))
    streams.create("Live", "k STRING, t BIGINT, v DOUBLE", time="t", key="k", delay=5, archive="Past", retain=100)
    streams.create("Plain", "t TIMESTAMP", time="t", delay="90 minutes")
    return place


def invoke(*arguments: object) -> Any:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(cli.app, list(map(str, arguments)))


def lines(path: Path, *times: object) -> Path:
    path.write_text("".join(json.dumps({"k": "a", "t": time, "v": 1}) + "\n" for time in times))
    return path


def test_pushing_files_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("k,t,v\na,3,1\n")
    pq.write_table(pa.table({"k": ["a"], "t": [4], "v": [1.0]}), tmp_path / "e.parquet")
    for path in (lines(tmp_path / "e.jsonl", 1, 2), tmp_path / "e.csv", tmp_path / "e.parquet"):
        result = invoke("push", "live", "--from", path)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "pushed to Live, which is at position" in result.stderr
    assert streams.read("Live")[0].column("t").to_pylist() == [1, 2, 3, 4]


def test_a_file_that_is_pushed_again_by_its_producer(tmp_path: Path) -> None:
    path = lines(tmp_path / "e.jsonl", *range(10))
    for _ in range(2):
        assert invoke("push", "Live", "--from", path, "--producer", "p", "--batch", 3).exit_code == 0
    assert (streams.count("Live"), streams.store_of("Live").head()) == (10, 4)


def test_an_error_names_the_row_and_what_is_stored(tmp_path: Path) -> None:
    path = lines(tmp_path / "e.jsonl", 1, 2, 3, None)
    result = invoke("push", "Live", "--from", path, "--batch", 2)
    assert result.exit_code == 1
    assert "Row 4 has no event time" in result.stderr
    assert "Before this batch, 2 events are stored." in result.stderr
    assert streams.count("Live") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["push", "Nope", "--from", "{file}"], 2, "There is no stream Nope"),
        (["push", "Live", "--from", "nowhere.json"], 2, "nothing at nowhere.json"),
        (["tail", "Nope"], 2, "There is no stream Nope"),
        (["archive", "Plain"], 2, "has no archive"),
        (["archive", "--every", "soon"], 2, "duration"),
        (["archive", "--catalog", "nowhere"], 2, "no catalog at nowhere"),
        (["streams", "Nope"], 2, "There is no stream Nope"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    file = str(lines(tmp_path / "e.jsonl", 1))
    result = invoke(*(argument.replace("{file}", file) for argument in arguments))
    assert result.exit_code == code
    assert says in result.stderr


def test_tail(tmp_path: Path) -> None:
    invoke("push", "Live", "--from", lines(tmp_path / "e.jsonl", *range(5)), "--batch", 2)
    result = invoke("tail", "Live", "--no-follow", "-n", 3)
    assert [json.loads(line)["t"] for line in result.stdout.splitlines()] == [2, 3, 4]
    result = invoke("tail", "Live", "--no-follow", "--after", 2, "--csv")
    assert result.stdout.splitlines() == ["k,t,v", '"a",4,1']
    assert invoke("tail", "Live", "--no-follow", "-n", 0).stdout == ""


def test_tail_of_a_corrupt_segment(tmp_path: Path) -> None:
    invoke("push", "Live", "--from", lines(tmp_path / "e.jsonl", 1, 2), "--batch", 1)
    path = streams.store_of("Live").log.path(1)
    path.write_bytes(path.read_bytes()[:-1])
    result = invoke("tail", "Live", "--no-follow", "--after", 0)
    assert result.exit_code == 1
    assert f"{path} is corrupt" in result.stderr
    with pytest.warns(UserWarning, match="left out"):
        result = invoke("tail", "Live", "--no-follow", "--after", 0, "--skip-corrupt")
    assert [json.loads(line)["t"] for line in result.stdout.splitlines()] == [2]


def test_archive_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PATIENCE", 0.01)
    for time in (1, 2, 3):
        invoke("push", "Live", "--from", lines(tmp_path / "e.jsonl", time))
        assert "1 event moved into Past" in invoke("archive").stderr
    result = invoke("archive", "Live", "--compact")
    assert "0 events moved into Past, which now has 3 events in 1 file, 3 small files were joined." in result.stderr
    listed = invoke("streams").stdout.splitlines()
    assert listed[0].split() == ["stream", "time", "key", "archive", "events", "archived", "position"]
    assert listed[1].split() == ["Live", "t", "k", "Past", "3", "3", "3"]
    assert listed[2].split() == ["Plain", "t", "0", "0"]
    described = invoke("streams", "past").stdout
    for part in (
        "k STRING, t BIGINT, v DOUBLE",
        "delay     5",
        "retain    100",
        "archived  3 in 1 files",
        "lanes     8",
    ):
        assert part in described
    assert "90 minutes" in invoke("streams", "Plain").stdout


def test_archiving_where_there_is_no_archive(catalog: Path) -> None:
    streams.drop("Live")
    result = invoke("archive")
    assert (result.exit_code, "No stream has an archive" in result.stderr) == (2, True)
