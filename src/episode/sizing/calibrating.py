"""Calibration: the same work in process on this machine and where the constants were measured, in some seconds."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

from episode.queries.language import Given
from episode.sizing.bound import bound_to, read_pattern
from episode.sizing.constants import Constants
from episode.sizing.measuring import measured
from episode.sizing.profile import ROWS, QueryProfile
from episode.sizing.samples import made_up, read_columns

CALIBRATION_ROWS = 400_000
QUERY = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts
  MEASURES A.price AS init_price, LAST(D.price) AS max_price
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A B+ C* D+)
  DEFINE B AS B.price < PREV(B.price),
         C AS C.price >= PREV(C.price) AND C.price <= A.price,
         D AS D.price > PREV(D.price) AND D.price > A.price)"""
COLUMNS = "key int, ts timestamp, price double"
PARTS = ("reference_scan", "reference_pack", "reference_order", "reference_match")
"""What the work below took where the constants were measured: kept with them, beside what the model needs."""


def reference(rows: int = CALIBRATION_ROWS) -> QueryProfile:
    """The tick query over made-up ticks."""
    table = made_up(read_columns(COLUMNS), QUERY, ("key",), 10_000.0, 1_000.0, rows)
    return measured(bound_to(read_pattern(QUERY), table, Given()), ROWS, "made-up ticks")


def taken(profile: QueryProfile) -> dict[str, float]:
    """The parts that machines are compared by, in ns a row."""
    return dict(zip(PARTS, (profile.scan, profile.pack, profile.order, profile.match), strict=True))


def calibrated(constants: Constants) -> Constants:
    """The constants for this machine: times the geometric mean of its parts' ratios."""
    here = taken(reference())
    logs = [math.log(here[part] / constants[part]) for part in PARTS]
    return constants.scaled_by(math.exp(sum(logs) / len(logs)), contention(), machine_name(), date.today().isoformat())


def contention() -> float:
    """How many times as long the same work takes where all cores do it at once."""
    cores = os.cpu_count() or 1
    if cores == 1:
        return 1.0
    alone = _together(1)
    return max(1.0, _together(cores) / alone)


def _together(processes: int) -> float:
    """The mean of what each of several processes takes, at the same time."""
    command = [sys.executable, "-m", "episode.sizing.calibrating"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(processes)]
    found = [float(one.communicate()[0]) for one in running]
    return sum(found) / len(found)


def machine_name() -> str:
    """The processor and its cores."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        name = models[0] if models else name
    return f"{name}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.stdout.write(f"{sum(taken(reference()).values())}\n")
