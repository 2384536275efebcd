"""`spark.sql` with episode's clauses in a client of Spark Connect: a real server on loopback, in its own process."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytest.importorskip("grpc", reason="a client of Spark Connect needs grpcio: make test-clients installs it")

CLIENT = """
import sys
import episode.auto
from pyspark.sql import SparkSession
from pyspark.errors import ParseException

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
assert type(spark).__module__ == "pyspark.sql.connect.session"
rows = [("a", 1, 10), ("a", 2, 12), ("a", 3, 11), ("b", 1, 5), ("b", 2, 7), ("b", 3, 9), ("b", 4, 1)]
ticks = spark.createDataFrame(rows, "k string, ts bigint, x int")
ticks.createOrReplaceTempView("ticks")
query = '''
    SELECT * FROM {input} MATCH_RECOGNIZE (
      PARTITION BY k, ts DIV 100 AS bucket ORDER BY ts MEASURES last(B.ts) AS until, count(*) AS n
      PATTERN (A B+) DEFINE B AS x > PREV(x) + {least})'''
found = lambda frame: sorted(map(tuple, frame.collect()))
rises = query.format(input="ticks", least=0)
assert found(spark.sql(rises)) == [("a", 0, 2, 2), ("b", 0, 3, 3)], found(spark.sql(rises))
assert found(spark.sql(query.format(input="ticks", least="?") + " WHERE k = ?", [1, "b"])) == [("b", 0, 3, 3)]
assert found(spark.sql(query.format(input="ticks", least=":x"), {"x": 0})) == found(spark.sql(rises))
assert found(spark.sql(query, input=ticks.where("k = 'b'"), least=0)) == [("b", 0, 3, 3)]
assert found(spark.sql("SELECT {x} + 1 AS y, {t[k]} FROM {t} LIMIT 1", x=1, t=ticks)) == [(2, "a")]
spark.sql(rises).createOrReplaceTempView("rises")
assert found(spark.table("rises").select("n")) == [(2,), (3,)]
assert found(spark.sql("SELECT max(n) FROM rises")) == [(3,)]
try:
    spark.sql(rises.replace("PATTERN", "PATERN"))
except ParseException as error:
    raise AssertionError("this is Spark's error") from error
except Exception as error:
    assert "line 4" in str(error), error
else:
    raise AssertionError("no error")
print("done")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server at a free port; its address."""
    directory = tmp_path_factory.mktemp("connect")
    port = _free_port()
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "2",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with (directory / "log").open("w") as log:
        command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", *options]
        started = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        process = subprocess.Popen([*command, *started], cwd=directory, stdout=log, stderr=log)
    try:
        _wait_for(port, process, directory / "log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, process: Any, log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"The server did not start:\n{log.read_text()[-3000:]}")


def test_a_client(server: str, tmp_path: Path) -> None:
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    result = subprocess.run(
        [sys.executable, str(client), server], capture_output=True, text=True, timeout=300, check=False
    )
    assert (result.returncode, result.stdout.strip()[-4:]) == (0, "done"), result.stderr[-3000:]
