"""A Kafka broker and a Spark session with Spark's Kafka connector (`make test-kafka` takes the jars of both)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.kafka.broker import JARS, Broker

CONNECTOR = Path(__file__).parent / "jars" / "connector"


def pytest_report_header() -> list[str]:
    """The versions that meet here: the connector's need not be Spark's (see pom.xml)."""
    named = [*CONNECTOR.glob("spark-*.jar"), *CONNECTOR.glob("kafka-*.jar"), *JARS.glob("kafka_*.jar")]
    return [f"kafka: Spark {pyspark.__version__} with {', '.join(sorted(path.stem for path in named))}"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    jars = sorted(map(str, CONNECTOR.glob("*.jar")))
    assert jars, "there is no connector: make test-kafka takes it"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    builder = SparkSession.builder.master("local[2]").appName("episode-kafka-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    node = Broker(tmp_path_factory.mktemp("kafka"))
    node.start()
    yield node
    node.stop()
