"""A Spark session with Delta and Iceberg: `make test-lakehouse` takes their jars and a Spark that they are made for."""

from __future__ import annotations

from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

from episode.spark.startup.session import ROCKSDB, STATE_STORE, local_session
from tests.lakehouse.tables import JARS

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def pytest_report_header() -> list[str]:
    named = sorted(path.stem for path in JARS.glob("*/*.jar") if "spark" in path.stem)
    return [f"lakehouse: Spark {pyspark.__version__} with {', '.join(named)}"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    jars = sorted(map(str, JARS.glob("*/*.jar")))
    assert jars, "there are no jars: make test-lakehouse takes them"
    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse / "spark"),
        "spark.sql.extensions": ",".join(EXTENSIONS[path.name] for path in JARS.iterdir() if path.name in EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse / "ice"),
        STATE_STORE: ROCKSDB,
    }
    session = local_session("episode-lakehouse-tests", settings, cores=2)
    yield session
    session.stop()
