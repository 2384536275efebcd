"""An S3 server on this machine, and a Spark session that reads from it (`make test-s3` takes what both need)."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from episode.spark.startup.session import local_session
from tests.support.waiting import wait_until

JARS = Path(__file__).parent / "jars"
KEYS = ("tester", "secret")
BUCKET = "episode-tests"


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Where the server is (host:port), with an empty bucket in it."""
    command = shutil.which("moto_server")
    assert command, "there is no moto_server: make test-s3 installs it"
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [command, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port, server)
        options = {"scheme": "http", "region": "us-east-1", "endpoint_override": f"127.0.0.1:{port}"}
        keys = {"access_key": KEYS[0], "secret_key": KEYS[1], "allow_bucket_creation": True}
        fs.S3FileSystem(**keys, **options).create_dir(BUCKET)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    wait_until(answers, lambda: server.poll() is None, lambda: "the S3 server does not answer")


@pytest.fixture(scope="session")
def spark(endpoint: str) -> Iterator[SparkSession]:
    jars = sorted(map(str, JARS.glob("*.jar")))
    assert jars, "there is no file system for S3: make test-s3 takes it"
    prefix = "spark.hadoop.fs.s3a."
    settings = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "2g",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        f"{prefix}endpoint": f"http://{endpoint}",
        f"{prefix}endpoint.region": "us-east-1",
        f"{prefix}path.style.access": "true",
        f"{prefix}access.key": KEYS[0],
        f"{prefix}secret.key": KEYS[1],
    }
    session = local_session("episode-s3-tests", settings, cores=2)
    yield session
    session.stop()
