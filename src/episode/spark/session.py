"""The Spark session that episode works in."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def session(spark: SparkSession | None = None) -> SparkSession:
    """The given session, else the active one, else a new local one with sensible settings."""
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[*]").appName("episode")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
