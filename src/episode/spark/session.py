"""The Spark session that episode works in."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
_GIBIBYTE = 2**30


def session(spark: SparkSession | None = None) -> SparkSession:
    """The given session, else the active one, else a new local one with sensible settings."""
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    return active if active is not None else _local_session()


def _local_session() -> SparkSession:
    """A session of this machine alone, for as long as this process lives; its time zone is the system's."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must find what this interpreter finds
    builder = SparkSession.builder.master("local[*]").appName("episode")
    for key, value in {**_SETTINGS, "spark.driver.memory": _driver_memory()}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _driver_memory() -> str:
    """A quarter of the machine's memory, from 1 to 8 GiB: Python workers need the rest."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 * _GIBIBYTE
    return f"{min(max(total // 4, _GIBIBYTE), 8 * _GIBIBYTE) // 2**20}m"
