"""`episode run --follow` as a process of its own: files come in, matches come out, an interrupt ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

PATIENCE = 180.0
"""Seconds after which a process that says nothing is killed, and its test fails."""
SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int32())])
RISING = (
    "SELECT first, last FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts "
    "MEASURES FIRST(ts) AS first, LAST(ts) AS last PATTERN (A B+) DEFINE B AS v > PREV(v))"
)
# ts  10 20 30 | 100 | 200 300      the first rise is decided by 30, once 100 has moved the watermark beyond it;
# v    1  2  1 |   5 |   0   0      the second by 200, once 300 has
FILES = [[(10, 1), (20, 2), (30, 1)], [(100, 5)], [(200, 0), (300, 0)]]
FIRST, SECOND = {"first": 10, "last": 20}, {"first": 30, "last": 100}


def write(table: pa.Table, path: Path, kind: str) -> None:
    if kind == "csv":
        pyarrow.csv.write_csv(table, path)
    elif kind == "json":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")
    else:
        pyarrow.parquet.write_table(table, path)


class Place:
    """Directories of a test; events come in files of a kind."""

    def __init__(self, path: Path, kind: str = "parquet") -> None:
        self.events, self.checkpoint, self.output = path / "events", path / "checkpoint", path / "matches"
        self.kind = kind
        self.events.mkdir()

    def add(self, number: int) -> None:
        """A file that is there at once and whole, as a stream of files must have it."""
        rows = [{"k": 1, "ts": ts, "v": v} for ts, v in FILES[number]]
        unfinished = self.events / f".{number}"
        write(pa.Table.from_pylist(rows, SCHEMA), unfinished, self.kind)
        unfinished.rename(self.events / f"{number}.{self.kind}")

    def written(self) -> list[dict[str, int]]:
        files = sorted(map(str, self.output.glob("*.parquet")))
        return sorted(pyarrow.dataset.dataset(files).to_table().to_pylist(), key=str)


class Run:
    """A running process: what it prints, and the notes that it makes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.notes: list[str] = []

    def next_match(self) -> dict[str, int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "".join(self.notes)
        return json.loads(line)

    def wait_for_note(self, wanted: Callable[[str], bool]) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.notes.append(line)
            if wanted(line):
                return
        raise AssertionError("".join(self.notes))

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: a terminal sends it to Spark's processes as well. The exit code, and what was printed after it."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self._ended()

    def terminate(self) -> tuple[int, str]:
        """What `kill`, Docker and Kubernetes send, to this process alone."""
        os.kill(self.process.pid, signal.SIGTERM)
        return self._ended()

    def _ended(self) -> tuple[int, str]:
        rest, notes = self.process.communicate()
        self.notes.append(notes)
        return self.process.returncode, rest


def running(place: Place, *options: object) -> AbstractContextManager[Run]:
    arguments = ["run", RISING, "--table", f"events={place.events}", "--follow", "--watermark", "5"]
    return started([*arguments, "--checkpoint", str(place.checkpoint), *map(str, options)])


@contextmanager
def started(arguments: list[str]) -> Iterator[Run]:
    command = "from episode.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watchdog = Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        with process:
            yield Run(process)
            assert process.poll() is not None
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.live
def test_matches_appear_and_a_restart_repeats_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.add(0)
    with running(place, "--format", "json") as run:
        run.wait_for_note(lambda note: note.startswith("batch 0: 3 events"))
        place.add(1)
        assert run.next_match() == FIRST
        assert run.interrupt() == (0, ""), run.notes
    assert "stopped: 4 events, 1 match, 0 late" in run.notes[-1]
    with running(place, "--format", "json") as run:
        place.add(2)
        assert run.next_match() == SECOND
        assert run.interrupt() == (0, ""), run.notes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_text_files_and_a_termination(tmp_path: Path, kind: str) -> None:
    """SIGTERM ends a run as Ctrl-C does: between two micro-batches, with the sums, and so that it can go on."""
    place = Place(tmp_path, kind)
    place.add(0)
    with running(place, "--format", "json") as run:
        run.wait_for_note(lambda note: note.startswith("batch 0: 3 events"))
        place.add(1)
        assert run.next_match() == FIRST
        assert run.terminate() == (0, ""), run.notes
    assert "stopped: 4 events, 1 match, 0 late" in run.notes[-1]
    place.add(2)
    with running(place, "--format", "json") as run:
        assert run.next_match() == SECOND
        assert run.terminate() == (0, ""), run.notes


@pytest.mark.slow
def test_matches_are_added_to_files(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number in (0, 1):
        place.add(number)
    with running(place, "--output", place.output) as run:
        run.wait_for_note(lambda note: ", 1 match (" in note)
        assert run.interrupt()[0] == 0, run.notes
    assert place.written() == [FIRST]
    place.add(2)
    with running(place, "--output", place.output) as run:
        run.wait_for_note(lambda note: ", 1 match (" in note)
        assert run.interrupt()[0] == 0, run.notes
    assert place.written() == [FIRST, SECOND]


RULE = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(ts) AS last PATTERN (A B+) DEFINE B AS v > PREV(v))"


@pytest.mark.live
def test_rules_are_followed_and_may_change(tmp_path: Path) -> None:
    """The second rule comes while the first one runs; it sees what comes after it alone."""
    place = Place(tmp_path)
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "one.pattern").write_text(RULE)
    place.add(0)
    arguments = ["run-rules", str(rules), "--table", f"events={place.events}", "--follow", "--watermark", "5"]
    arguments += ["--time", "ts", "--key", "k", "--checkpoint", str(place.checkpoint), "--format", "json"]
    with started(arguments) as run:
        place.add(1)
        first = run.next_match()
        assert (first["rule"], first["k"], first["match_start"], first["match_end"]) == ("one", 1, 10, 20)
        (rules / "two.pattern").write_text(RULE)
        effects = place.checkpoint / "rules" / "effects"
        wait_until(lambda: any(effects.glob("*00000002.json")), lambda: run.process.poll() is None)
        place.add(2)
        second = run.next_match()
        assert (second["rule"], second["match_start"], second["match_end"]) == ("one", 30, 100)
        assert json.loads(second["result"]) == {"k": 1, "last": 100}
        code, rest = run.interrupt()
    assert (code, rest) == (0, "")
