"""Spark's daemon of Python workers, with episode loaded: workers are forked from it, and find everything there.

A worker that begins with nothing loads pyarrow and episode before its first row, and a stream needs several
workers for each core. Spark takes the daemon by its name: `spark.python.daemon.module`. Without the setting everything
works the same, only more slowly.

Spark has a daemon for each kind of worker. Those that only plan (data sources: which partitions, which offset is the
latest) match nothing, and load only what they need.

Spark has its Python processes take pyspark from a zip file, which each of them compiles anew, for a second or more.
Where that file is part of an installed pyspark, the daemon takes the installed one, whose bytecode is kept.

See decision 37.
"""

from __future__ import annotations

import gc
import sys
from importlib.machinery import PathFinder
from pathlib import Path

PLANNERS = ("pyspark.sql.worker.", "pyspark.sql.streaming.")
"""Prefixes of the modules of workers that plan, and read no rows."""


def without_archives(path: list[str]) -> list[str]:
    """The places of modules without the zip files of pyspark and py4j, if they are those of an installed pyspark and
    both are found elsewhere."""
    archives = [one for one in path if one.endswith(".zip") and Path(one).name.startswith(("pyspark", "py4j"))]
    others = [one for one in path if one not in archives]
    found = PathFinder.find_spec("pyspark", others)
    if found is None or found.origin is None or PathFinder.find_spec("py4j", others) is None:
        return path
    within = Path(found.origin).resolve().parent / "python" / "lib"
    return others if all(Path(one).resolve().parent == within for one in archives) else path


def load() -> None:
    """Load what every query needs."""
    gc.disable()  # looking for garbage among modules takes a tenth of the time, and there is none
    from episode.matchers import engines
    from episode.spark import live  # noqa: F401  (workers find all of these loaded)
    from episode.spark.batch import runtime as batch  # noqa: F401
    from episode.spark.stores import source  # noqa: F401
    from episode.spark.stream import runtime as stream  # noqa: F401

    engines.load()
    gc.freeze()  # not looked at again by any worker, and so its pages stay shared
    gc.enable()


def load_planner() -> None:
    """Load what workers need that plan."""
    gc.disable()
    from pyspark.sql.worker import plan_data_source_read  # noqa: F401

    from episode.spark.stores import reading, source  # noqa: F401

    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    sys.path[:] = without_archives(sys.path)  # before anything of pyspark is loaded
    if any(module.startswith(PLANNERS) for module in sys.argv[1:]):
        load_planner()
    else:
        load()
    from pyspark import daemon

    daemon.manager()
