"""Price falls through PyFlink's MATCH_RECOGNIZE: how long after its event a match is out, and how many events/s."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from threading import Thread

import numpy as np
import pandas

import episode
from bench.flink import ENVIRONMENT, prepare
from bench.harness import say
from bench.live_events import MICROSECONDS, Walks, lines_of, paced

BEGIN = 1_700_000_000 * MICROSECONDS
APART = 1000
"""Microseconds between two events of a backlog: Flink's time attributes have no finer ones."""
MOST_DIFFERING = 1_000
WARM_EVENTS = 20_000
COMPARED = ["key", "init_price", "min_price"]
_MATCH = re.compile(r"\+I\[.*, (\d+)\]")


def flink_latency(rate: int, warm: float, measured: float) -> tuple[np.ndarray, float]:
    """Milliseconds from sending the last event of a match to reading the match, and the events/s that were sent."""
    prepare()
    sent: list[int] = []
    read: list[int] = []
    count = 0
    begun = 0.0
    with (
        tempfile.TemporaryDirectory(prefix="episode-bench-") as place,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        stop = Path(place) / "stop"
        process = _job({"port": server.getsockname()[1]})

        def feed() -> None:
            nonlocal count, begun
            connection, _ = server.accept()
            with connection, suppress(OSError):  # Flink ends before it has read all
                begun = time.time()
                for table in paced(rate, stop):
                    connection.sendall(lines_of(table))
                    count += table.num_rows

        def follow() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                found = _MATCH.search(line)
                if found is not None:
                    sent.append(int(found.group(1)))
                    read.append(int(time.time() * MICROSECONDS))

        threads = [Thread(target=work, daemon=True) for work in (feed, follow)]
        for thread in threads:
            thread.start()
        deadline = time.time() + 120
        while not sent and time.time() < deadline:
            time.sleep(0.2)
        time.sleep(warm)
        begin = time.time()
        time.sleep(measured)
        end = time.time()
        produced = count / (end - begun) if begun else 0.0
        stop.touch()
        time.sleep(3.0)
        process.terminate()
        process.wait()
    times, seen = np.array(sent, np.int64), np.array(read, np.int64)
    inside = (times >= begin * MICROSECONDS) & (times < end * MICROSECONDS)
    millis = (seen[inside] - times[inside]) / 1000
    middle = np.median(millis) if len(millis) else float("nan")
    say(f"Flink, {rate:,} events/s ({produced:,.0f}): {len(millis):,} matches, median {middle:,.1f} ms")
    return millis, produced


def flink_throughput(events: int, query: str) -> float:
    """Events/s from CSV files to a written result, after a short run that warms up; fails where the query finds other
    matches than Flink."""
    prepare()
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as place:
        source, warm, output = (Path(place) / name for name in ("in.csv", "warm.csv", "out"))
        walks = Walks()
        table = walks.events(BEGIN + np.arange(events) * APART, 0)
        lines = lines_of(table)
        source.write_bytes(lines)
        warm.write_bytes(b"".join(lines.splitlines(keepends=True)[:WARM_EVENTS]))
        process = _job({"input": str(source), "warm": str(warm), "output": str(output)})
        said, _ = process.communicate()
        if process.returncode:
            raise SystemExit("Flink has failed.")
        files = [file for file in output.rglob("*") if file.is_file() and file.stat().st_size]
        theirs = pandas.concat([pandas.read_csv(file, header=None, names=[*COMPARED, "sent"]) for file in files])
        _compare(theirs, episode.sql_local(query, Ticks=table).to_pandas())
    seconds = json.loads(said.strip().splitlines()[-1])["seconds"]
    say(f"Flink: {events:,} events in {seconds:.1f} s, {events / seconds:,.0f} events/s")
    return events / seconds


def _compare(theirs: pandas.DataFrame, ours: pandas.DataFrame) -> None:
    found = [Counter(frame[COMPARED].itertuples(index=False, name=None)) for frame in (theirs, ours)]
    differing = ((found[0] - found[1]) + (found[1] - found[0])).total()
    say(f"Flink finds {len(theirs):,} matches, episode {len(ours):,}; {differing} differ")
    if differing > len(ours) / MOST_DIFFERING:
        raise SystemExit("These are not the same matches.")


def _job(arguments: dict[str, object]) -> subprocess.Popen[str]:
    job = Path(__file__).with_name("live_flink_job.py")
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    command = [str(ENVIRONMENT / "bin" / "python"), str(job), json.dumps(arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=outside)
