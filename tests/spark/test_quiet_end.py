"""A program that ends while a worker still loads: nothing is reported as failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark]

SLOW_WORKER = """
import os, sys, time
from importlib.abc import MetaPathFinder

class Slow(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "episode.matchers.engines" and str(os.getpid()) != os.environ.get("DRIVER", ""):
            open(os.environ["LOADING"], "w").close()
            time.sleep(60)

if "LOADING" in os.environ:
    sys.meta_path.insert(0, Slow())
"""
"""A module that every Python loads: workers say that they load what queries need, and take long for it."""

PROGRAM = """
import os, sys, time
from pathlib import Path

os.environ["DRIVER"] = str(os.getpid())
session, moment, ending = sys.argv[1:]
if session == "own":
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
import pyarrow as pa
import episode

try:
    episode.sql("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.q AS x PATTERN (A))", t=pa.table({"ts": [1]}))
except episode.EpisodeError:
    print("refused", flush=True)
deadline = time.monotonic() + (120 if moment == "loading" else float(moment))
while time.monotonic() < deadline and not (moment == "loading" and Path(os.environ["LOADING"]).exists()):
    time.sleep(0.02)
if ending == "stop":
    from pyspark.sql import SparkSession

    SparkSession.active().stop()
elif ending == "exit":
    sys.exit(0)
elif ending == "error":
    raise SystemExit("an error of the program")
"""


def run_short_program(place: Path, session: str, moment: str, ending: str) -> None:
    """Run a program whose query is refused, and which ends at a moment; see that nothing is reported."""
    environment = {**os.environ}
    if moment == "loading":
        (place / "sitecustomize.py").write_text(SLOW_WORKER)
        environment["LOADING"] = str(place / f"loading-{session}-{ending}")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", PROGRAM, session, moment, ending]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=environment)
    assert done.stdout == "refused\n", done.stderr
    if moment == "loading":
        assert Path(environment["LOADING"]).exists()
    for word in ("ERROR", "Exception", "Traceback", "crashed"):
        assert word not in done.stderr


def test_a_program_that_ends_while_a_worker_loads(tmp_path: Path) -> None:
    run_short_program(tmp_path, "own", "loading", "end")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["stop", "exit", "error"])
def test_other_ends_while_a_worker_loads(tmp_path: Path, ending: str) -> None:
    run_short_program(tmp_path, "own", "loading", ending)


@pytest.mark.slow
@pytest.mark.parametrize("session", ["own", "episode's"])
@pytest.mark.parametrize("moment", ["0", "0.3", "1", "3"])
def test_moments(tmp_path: Path, session: str, moment: str) -> None:
    run_short_program(tmp_path, session, moment, "end")
