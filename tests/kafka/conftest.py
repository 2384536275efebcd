"""A Kafka broker and a Spark session with Spark's Kafka connector (`make test-kafka` takes the jars of both)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from episode.spark.startup.session import ROCKSDB, STATE_STORE, local_session
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
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "2g",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        STATE_STORE: ROCKSDB,
    }
    session = local_session("episode-kafka-tests", settings, cores=2)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running(tmp_path_factory.mktemp("kafka")) as node:
        yield node


@pytest.fixture
def broker_of_its_own(tmp_path: Path) -> Iterator[Broker]:
    """For a test that stops it: what clients keep of a broker that went away does not reach other tests."""
    with running(tmp_path) as node:
        yield node


@contextmanager
def running(place: Path) -> Iterator[Broker]:
    node = Broker(place)
    try:
        node.start()
        yield node
    finally:
        node.stop()
