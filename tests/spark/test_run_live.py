"""`episode run --live` as a process: events come in, matches come out, an interrupt ends it; and the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from tests.support.waiting import wait_until

from episode import demo_live, streams

pytestmark = [pytest.mark.spark, pytest.mark.live]

PAIRS = """SELECT * FROM Ticks MATCH_RECOGNIZE (
    PARTITION BY k MEASURES A.v AS low, B.v AS high, B.ts AS match_end
    AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) DEFINE B AS v > A.v)"""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    streams.create("Ticks", "k INT, ts BIGINT, v INT", time="ts", key="k")
    return tmp_path


def append(*rows: tuple[int, int]) -> None:
    """Events of one key, and one of another key that comes after them and moves the watermark."""
    times, values = zip(*rows, (rows[-1][0] + 1, 0), strict=True)
    keys = pa.array([1] * len(rows) + [2], pa.int32())
    streams.append("Ticks", pa.table({"k": keys, "ts": times, "v": pa.array(values, pa.int32())}))


class Run:
    """A running process, and what it says."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-c", "from episode.cli import main; main()", "run", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.notes = ""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.notes += line

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.notes
        return json.loads(line)

    def interrupted(self) -> int:
        """Ctrl-C in the terminal reaches all processes of the group."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.ended()

    def ended(self) -> int:
        """Its exit code."""
        code = self.process.wait(120)
        self._reader.join(10)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def test_matches_to_the_screen_and_an_interrupt(catalog: Path) -> None:
    append((1, 1), (2, 2))
    run = Run(PAIRS, "--live")
    assert run.line() == {"k": 1, "low": 1, "high": 2, "match_end": 2}
    append((4, 5))
    assert run.line()["high"] == 5
    assert run.interrupted() == 0, run.notes
    assert "stopped: 5 events, 2 matches, 0 late" in run.notes


def await_pairs(run: Run, wanted: int) -> None:
    wait_until(
        lambda: "Pairs" in streams.names() and streams.count("Pairs") >= wanted,
        lambda: run.process.poll() is None,
        lambda: run.notes,
    )


def test_an_interrupted_query_goes_on_with_the_same_command(catalog: Path) -> None:
    for number in range(2):
        append((10 * number + 1, 1), (10 * number + 2, 2))
        run = Run(PAIRS, "--live", "--into", "Pairs", "--input", "pull")
        wanted = 1 if number == 0 else 2
        await_pairs(run, wanted)
        assert run.interrupted() == 0, run.notes
    found, _ = streams.read("Pairs")
    assert sorted(found.column("match_end").to_pylist()) == [2, 12]


def test_a_query_that_is_wrong(catalog: Path) -> None:
    run = Run(PAIRS.replace("A.v AS", "A.w AS"), "--live", "--into", "Pairs")
    assert run.ended() == 2
    assert "There is no" in run.notes


def test_the_demo(spark: SparkSession) -> None:
    screen = Console(file=StringIO(), width=150)
    demo_live.run(screen, seconds=4.0)
    shown = screen.file.getvalue()
    assert "The same query over all ticks as a table gives the same falls." in shown, shown
    assert "matches" in shown
