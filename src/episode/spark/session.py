"""The Spark session that episode works in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The setting of Spark's state store, and the one that streams need."""

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # errors are raised, and need not be logged, too
    "spark.python.daemon.module": "episode.spark.daemon",
    "spark.python.authenticate.socketTimeout": "60s",  # on a busy machine a worker takes longer than 15 s to begin
}
_GIBIBYTE = 2**30
_PARTITIONS_PER_CORE = 2
"""Spark's default of 200 partitions is for clusters: on one machine every micro-batch of a stream waits for them."""


def session(spark: SparkSession | None = None) -> SparkSession:
    """The given session, else the active one, else a new local one with sensible settings."""
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    return local_session("episode", own_settings())


def own_settings() -> dict[str, str]:
    """Those of a session that episode starts itself."""
    return {
        "spark.driver.memory": _driver_memory(),
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(_PARTITIONS_PER_CORE * (os.cpu_count() or 1)),
        STATE_STORE: ROCKSDB,
    }


def local_session(name: str, settings: Mapping[str, str], cores: int | None = None) -> SparkSession:
    """A session of this machine alone, for as long as this process lives; its time zone is the system's."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers must find what this interpreter finds
    builder = SparkSession.builder.master(f"local[{cores or '*'}]").appName(name)
    for key, value in {**_LOCAL, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _driver_memory() -> str:
    """A quarter of the machine's memory, from 1 to 8 GiB: Python workers need the rest."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 * _GIBIBYTE
    return f"{min(max(total // 4, _GIBIBYTE), 8 * _GIBIBYTE) // 2**20}m"
