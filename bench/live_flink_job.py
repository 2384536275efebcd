"""Runs in PyFlink's own environment, started by `bench/live_flink.py`: price falls through Flink SQL.

Arguments: a JSON object. {"port"}: events come as lines from a socket, matches go to the standard output, without an
end. {"input", "warm", "output"}: events are in CSV files; answers with one JSON line {"seconds"}.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import Schema, StreamTableEnvironment

SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "pipeline.auto-watermark-interval": "5 ms",
    "execution.buffer-timeout.interval": "1 ms",
    "taskmanager.memory.managed.size": "1gb",
}
FIELDS = {
    "key": "CAST(SPLIT_INDEX(f0, ',', 0) AS INT)",
    "ts": "TO_TIMESTAMP_LTZ(CAST(SPLIT_INDEX(f0, ',', 1) AS BIGINT), 3)",
    "price": "CAST(SPLIT_INDEX(f0, ',', 2) AS DOUBLE)",
    "sent": "CAST(SPLIT_INDEX(f0, ',', 3) AS BIGINT)",
}
FILES = """
CREATE TABLE {name} (
  key INT, millis BIGINT, price DOUBLE, sent BIGINT,
  ts AS TO_TIMESTAMP_LTZ(millis, 3), WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
WRITTEN = """
CREATE TABLE {name} (key INT, init_price DOUBLE, min_price DOUBLE, sent BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
PRINTED = "CREATE TABLE {name} (key INT, init_price DOUBLE, min_price DOUBLE, sent BIGINT) WITH ('connector' = 'print')"
QUERY = """
INSERT INTO {sink}
SELECT key, init_price, min_price, sent
FROM {source} MATCH_RECOGNIZE (
  PARTITION BY key
  ORDER BY ts
  MEASURES A.price AS init_price, LAST(B.price) AS min_price, C.sent AS sent
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B{{3,}} C) WITHIN INTERVAL '1' MINUTE
  DEFINE
    B AS (LAST(B.price, 1) IS NULL AND B.price < A.price) OR B.price < LAST(B.price, 1),
    C AS C.price >= LAST(B.price)
)"""


def from_socket(environment: StreamExecutionEnvironment, tables: StreamTableEnvironment, port: int) -> None:
    """Match what comes from a socket until it is closed."""
    java = environment._j_stream_execution_environment
    lines = DataStream(java.socketTextStream("127.0.0.1", port))
    schema = Schema.new_builder()
    for name, expression in FIELDS.items():
        schema = schema.column_by_expression(name, expression)
    table = tables.from_data_stream(lines, schema.watermark("ts", "ts").build())
    tables.create_temporary_view("ticks", table)
    tables.execute_sql(PRINTED.format(name="falls"))
    tables.execute_sql(QUERY.format(source="ticks", sink="falls")).wait()


def from_files(tables: StreamTableEnvironment, name: str, source: str, output: Path) -> float:
    """Seconds from the files to the written result."""
    shutil.rmtree(output, ignore_errors=True)
    tables.execute_sql(FILES.format(name=f"{name}_ticks", path=source))
    tables.execute_sql(WRITTEN.format(name=f"{name}_falls", path=output))
    begin = time.perf_counter()
    tables.execute_sql(QUERY.format(source=f"{name}_ticks", sink=f"{name}_falls")).wait()
    return time.perf_counter() - begin


def main() -> None:
    wanted = json.loads(sys.argv[1])
    environment = StreamExecutionEnvironment.get_execution_environment()
    tables = StreamTableEnvironment.create(environment)
    for name, value in SETTINGS.items():
        tables.get_config().set(name, value)
    if "port" in wanted:
        from_socket(environment, tables, wanted["port"])
        return
    from_files(tables, "warm", wanted["warm"], Path(wanted["output"]))
    print(json.dumps({"seconds": from_files(tables, "timed", wanted["input"], Path(wanted["output"]))}))


if __name__ == "__main__":
    main()
