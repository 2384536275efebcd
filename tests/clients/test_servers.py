"""Real clients: spark-sql, the Thrift server with beeline and PyHive, a Scala program, a client of Spark Connect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import FALLS, SETTINGS, TICKS
from tests.clients.servers import HOME, children, command, free_port, run, runs, server

TABLE = f"CREATE TABLE ticks USING parquet AS SELECT * FROM {TICKS}"
QUERY = f"SELECT symbol, top, bottom FROM ticks {FALLS} ORDER BY symbol"
ROWS = [("a", 3.0, 1.0), ("b", 7.0, 6.0)]
BROKEN = QUERY.replace("(A B+)", "(A B+")


def lines(output: str) -> list[tuple[Any, ...]]:
    """Rows that a program has printed, separated by tabs, maybe after its prompt."""
    rows = [line.rpartition("> ")[2].split("\t") for line in output.splitlines()]
    return [(row[0], float(row[1]), float(row[2])) for row in rows if len(row) == 3 and row[0] in ("a", "b")]


def test_spark_sql(tmp_path: Path) -> None:
    statements = ";\n".join([TABLE, QUERY, f"CREATE VIEW falls AS {QUERY}", "SELECT * FROM falls"])
    done = run(command("spark-sql", SETTINGS, "-e", statements), tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert lines(done.stdout) == ROWS + ROWS
    assert "Traceback" not in done.stderr


def test_an_error_in_spark_sql_shows_its_place(tmp_path: Path) -> None:
    done = run(command("spark-sql", SETTINGS, "-e", f"{TABLE};\n{BROKEN}"), tmp_path)
    assert done.returncode != 0
    assert "This '(' is not closed." in done.stderr
    assert "--^^^" in done.stderr
    assert "Traceback" not in done.stderr
    assert "py4j" not in done.stderr


def test_a_scala_program(tmp_path: Path) -> None:
    program = f'''
spark.sql("""{TABLE}""")
println(spark.sql("""{QUERY}""").collect().map(_.mkString("\\t")).mkString("\\n", "\\n", ""))
val named = spark.sql("""{QUERY.replace("ORDER BY symbol", "WHERE top > :x ORDER BY symbol")}""", Map("x" -> 5))
println("named " + named.count())
try {{ spark.sql("""{BROKEN}""") }} catch {{
  case error: org.apache.spark.sql.catalyst.parser.ParseException => println("line " + error.line.get)
}}
'''
    (tmp_path / "program.scala").write_text(f"{program}\nSystem.exit(0)\n", encoding="utf-8")
    done = run(command("spark-shell", SETTINGS, "-i", "program.scala"), tmp_path)
    assert lines(done.stdout) == ROWS, done.stdout[-3000:] + done.stderr[-3000:]
    assert "named 1" in done.stdout
    assert "line 4" in done.stdout, done.stdout[-2000:]


# ---- the Thrift server -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def thrift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The port of a Thrift server, and its process."""
    place, port = tmp_path_factory.mktemp("thrift"), free_port()
    line = command(
        "spark-submit",
        SETTINGS,
        "--class",
        "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
        "spark-internal",
    )
    options = {"hive.server2.thrift.port": str(port), "hive.server2.thrift.bind.host": "127.0.0.1"}
    hive = [part for name, value in options.items() for part in ("--hiveconf", f"{name}={value}")]
    with server([*line, *hive], place, port) as process:
        done = beeline(port, place, TABLE)
        assert done.returncode == 0, done.stderr[-3000:]
        assert children(process.pid, "episode.clients.planner")  # before any statement needs it
        yield port, process.pid


def beeline(port: int, place: Path, *statements: str) -> subprocess.CompletedProcess[str]:
    asked = [part for statement in statements for part in ("-e", " ".join(statement.split()))]
    url = f"jdbc:hive2://127.0.0.1:{port}"
    return run(
        [
            str(HOME / "bin" / "beeline"),
            "-u",
            url,
            "--silent=true",
            "--showHeader=false",
            "--outputformat=tsv2",
            *asked,
        ],
        place,
    )


def test_beeline(thrift: tuple[int, int], tmp_path: Path) -> None:
    done = beeline(thrift[0], tmp_path, QUERY, f"CREATE OR REPLACE VIEW falls AS {QUERY}", "SELECT * FROM falls")
    assert lines(done.stdout) == ROWS + ROWS, done.stderr[-3000:]
    done = beeline(thrift[0], tmp_path, BROKEN)
    assert "is not closed" in done.stderr


def connect(port: int) -> Any:
    hive = pytest.importorskip("pyhive.hive", reason="PyHive is installed by make test-clients")
    return hive.connect("127.0.0.1", port)


def fetch(connection: Any, text: str) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    cursor.execute(text)
    found = cursor.fetchall()
    cursor.close()
    return found


def test_pyhive(thrift: tuple[int, int]) -> None:
    with connect(thrift[0]) as connection:
        assert fetch(connection, QUERY) == ROWS
        with pytest.raises(Exception, match="no column prize"):
            fetch(connection, QUERY.replace("B.price <", "B.prize <"))


def test_connections_at_the_same_time_each_have_their_session(thrift: tuple[int, int]) -> None:
    def ask(number: int) -> list[tuple[Any, ...]]:
        with connect(thrift[0]) as connection:
            cursor = connection.cursor()
            cursor.execute(f"CREATE TEMP VIEW own AS SELECT concat(symbol, '{number}') AS symbol, ts, price FROM ticks")
            return fetch(connection, QUERY.replace("ticks", "own"))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(6)))
    assert found == [[(f"{symbol}{number}", *rest) for symbol, *rest in ROWS] for number in range(6)]


def test_a_planner_that_dies_is_replaced(thrift: tuple[int, int]) -> None:
    with connect(thrift[0]) as connection:
        assert fetch(connection, QUERY) == ROWS
        (planner,) = children(thrift[1], "episode.clients.planner")
        os.kill(planner, signal.SIGKILL)
        assert fetch(connection, QUERY) == ROWS
        (other,) = children(thrift[1], "episode.clients.planner")
        assert other != planner


def test_a_session_that_ends_leaves_nothing(thrift: tuple[int, int]) -> None:
    for _ in range(3):
        with connect(thrift[0]) as connection:
            assert fetch(connection, QUERY) == ROWS
    assert len(children(thrift[1], "episode.clients.planner")) == 1


# ---- Spark Connect -----------------------------------------------------------------------------------

CLIENT = """
import sys
sys.modules["episode"] = None  # not installed here
from pyspark.sql import SparkSession
from pyspark.errors import ParseException

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
table, query, broken = sys.argv[2:]
spark.sql(table).collect()
print([tuple(row) for row in spark.sql(query).collect()])
print([tuple(row) for row in spark.sql(query.replace("B.price <", ":x * B.price <"), {"x": 1}).collect()])
try:
    spark.sql(broken).collect()
except ParseException as error:
    print("line 4" in str(error), "is not closed" in str(error))
"""


def test_a_client_of_spark_connect_without_episode(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="grpcio is installed by make test-clients")
    port = free_port()
    settings = {
        **SETTINGS,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    line = command(
        "spark-submit", settings, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"
    )
    with server(line, tmp_path, port):
        client = [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{port}", TABLE, QUERY, BROKEN]
        done = run(client, tmp_path)
    assert done.stdout.splitlines() == [str(ROWS), str(ROWS), "True True"], done.stderr[-4000:]


def test_the_planner_ends_with_its_application(tmp_path: Path) -> None:
    """Also if that is killed: its standard input ends."""
    port = free_port()
    settings = {**SETTINGS, "spark.connect.grpc.binding.port": str(port)}
    program = (
        f'spark.sql("""{TABLE}""")\nspark.sql("""{QUERY}""").show()\nprintln("\\nplanned")\nThread.sleep(600000)\n'
    )
    with subprocess.Popen(
        command("spark-shell", settings),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            assert shell.stdin is not None
            assert shell.stdout is not None
            shell.stdin.write(program)
            shell.stdin.flush()
            next(line for line in shell.stdout if line.startswith("planned"))
            (planner,) = children(shell.pid, "episode.clients.planner")
            for java in children(shell.pid, "org.apache.spark"):
                os.kill(java, signal.SIGKILL)
            deadline = time.monotonic() + 30
            while runs(planner) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not runs(planner)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
