"""Ctrl-C at any moment of the first query: the next one works."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys
import episode

wanted, at, seen = sys.argv[1], int(sys.argv[2]), 0

def interrupt(event, arguments):
    global seen
    if event in ("import", "open") and wanted in str(arguments[0]):
        seen += 1
        if seen == at:
            signal.raise_signal(signal.SIGINT)

def query():
    import pyarrow as pa

    table = pa.table({"t": [1, 2, 3, 4], "x": [1, 2, 1, 2]})
    return episode.sql_local(
        "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS a, B.t AS b "
        "PATTERN (A B) DEFINE B AS B.x > A.x)", t=table).to_pylist()

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.addaudithook(interrupt)
try:
    query()
except KeyboardInterrupt:
    print("interrupted")
print(query(), seen)
"""
FOUND = "[{'a': 1, 'b': 2}, {'a': 3, 'b': 4}]"


def run_interrupted(wanted: str, at: int) -> list[str]:
    """The lines of a program that is interrupted at one of the files and modules whose names contain a text."""
    command = [sys.executable, "-c", PROGRAM, wanted, str(at)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("wanted", ["numpy._core.overrides", "llvmlite.binding.module"])
def test_the_query_after_an_interrupted_one(wanted: str) -> None:
    """While numpy is loaded, and while the compiler is."""
    interrupted, found = run_interrupted(wanted, 1)
    assert (interrupted, found.rpartition(" ")[0]) == ("interrupted", FOUND)


@pytest.mark.slow
def test_random_moments() -> None:
    moments = int(run_interrupted("", 0)[-1].split()[-1]) // 2
    chosen = random.Random(5).sample(range(1, moments), 40)
    assert {at: run_interrupted("", at)[-1].rpartition(" ")[0] for at in chosen} == dict.fromkeys(chosen, FOUND)
