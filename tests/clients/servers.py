"""Spark's own servers and programs with the parser extension, started from pyspark's files, on loopback only."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
PATIENCE = 180
"""Seconds that a program or the start of a server may take on a busy machine."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def command(program: str, settings: Mapping[str, str], *arguments: str) -> list[str]:
    """The command line of one of Spark's programs. settings: of Spark."""
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return [str(HOME / "bin" / program), "--master", "local[2]", *options, *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}


def run(line: Sequence[str], place: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in a directory, with a text as its standard input. What it has started ends with it."""
    process = subprocess.Popen(
        line,
        cwd=place,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(text, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{line[0]} did not end:\n{out[-3000:]}\n{err[-3000:]}") from None
    return subprocess.CompletedProcess(line, process.returncode, out, err)


@contextmanager
def server(line: Sequence[str], place: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """A server that is up: it listens at its port. Its log is the file `log` in the directory."""
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            line, cwd=place, env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True
        )
        try:
            _await(process, port, place / "log")
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await(process: subprocess.Popen[str], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"the server did not start:\n{log.read_text()[-4000:]}")


def runs(process: int) -> bool:
    """Does a process run? One that has ended may wait for its parent to ask how."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout
    return state.strip() != "" and not state.startswith("Z")


def children(process: int, words: str) -> list[int]:
    """The processes below a process whose command line has these words."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [re.split(r"\s+", row.strip(), maxsplit=2) for row in listed.splitlines()]
    below = {process}
    for _ in rows:
        below |= {int(pid) for pid, parent, _ in rows if int(parent) in below}
    return [int(pid) for pid, _, line in rows if int(pid) in below and words in line]
