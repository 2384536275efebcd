"""A session of this process whose JVM has the parser extension: every `spark.sql` goes through it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from episode.clients.jar import EXTENSION, JAR

SETTINGS = {
    "spark.jars": str(JAR),
    "spark.sql.extensions": EXTENSION,
    "spark.episode.python": sys.executable,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.daemon.module": "episode.spark.daemon",
}
TICKS = """
    VALUES ('a', timestamp'2024-01-01 00:00:01', 3.0D), ('a', timestamp'2024-01-01 00:00:02', 2.0D),
           ('a', timestamp'2024-01-01 00:00:03', 1.0D), ('a', timestamp'2024-01-01 00:00:04', 5.0D),
           ('b', timestamp'2024-01-01 00:00:01', 7.0D), ('b', timestamp'2024-01-01 00:00:05', 6.0D) t(symbol, ts, price)
"""
FALLS = """MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts
    MEASURES first(A.price) AS top, last(B.price) AS bottom, last(B.ts) AS at
    PATTERN (A B+) DEFINE B AS B.price < PREV(B.price))"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(warehouse))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sql(f"CREATE TABLE ticks USING parquet AS SELECT * FROM {TICKS}")
    yield session
    session.stop()
