"""The settings of the Python worker processes that run episode's stages."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 256 * 2**20
_LOADING_TASKS = 3
_state = {"tasks": 0}


def prepare_worker() -> None:
    """Set up a worker process, at the start of a task."""
    _state["tasks"] += 1
    if _state["tasks"] == 1 and sys.platform.startswith("linux"):
        _keep_memory()
    if _state["tasks"] <= _LOADING_TASKS:
        # Spark's worker collects garbage after every task. What is loaded by now stays: without this the collector
        # goes through all of that each time.
        gc.freeze()


def _keep_memory() -> None:
    """Let the C library keep freed memory for the next batch.

    By default every array of some megabytes is mapped anew and returned, and the kernel clears its pages each time: a
    third of a stage's time. Only glibc has these settings; elsewhere nothing happens.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_MMAP_THRESHOLD, _KEEP_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEEP_BYTES)
    except (OSError, AttributeError):
        pass


def spill_directory() -> str | None:
    """Where Spark tells its executors to put temporary files; None: the system's place."""
    places = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((place for place in places if place and os.path.isdir(place)), None)
