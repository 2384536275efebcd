"""One Spark session for all tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from episode.spark.startup.session import ROCKSDB, STATE_STORE, local_session

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""A Java process that runs each query once spends more on optimising its code than it gains. With one compiler, Java
has 48 MB for compiled code, and spends time on emptying them once they are full."""


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """A small local session; or the one that is already there."""
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.timeType.enabled": "true",
    }
    return local_session("episode-tests", settings, cores=2)


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """The session with the settings that streams need."""
    settings = {STATE_STORE: ROCKSDB, "spark.sql.shuffle.partitions": "2"}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, earlier in before.items():
        if earlier is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, earlier)
