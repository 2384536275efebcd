"""Runs in PyFlink's own environment, started by `bench/flink.py`: the tick query through Flink SQL, timed.

Arguments: a JSON object {"mode", "input", "warm", "output"}; answers with one JSON line {"seconds"}. The result stays
in the output directory.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from pyflink.table import EnvironmentSettings, TableEnvironment

SOURCE = """
CREATE TABLE {name} (
  key INT,
  ts TIMESTAMP(3),
  price DOUBLE,
  prev_price DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv', 'csv.null-literal' = '')"""

SINK = """
CREATE TABLE {name} (symbol INT, init_price DOUBLE, max_price DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""

QUERY = """
INSERT INTO {sink}
SELECT symbol, init_price, max_price
FROM {source} MATCH_RECOGNIZE (
  PARTITION BY key
  ORDER BY ts
  MEASURES A.key AS symbol, A.price AS init_price, LAST(D.price) AS max_price
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A B+? C* D+ E)
  DEFINE
    B AS B.price < B.prev_price,
    C AS C.price >= C.prev_price AND C.price <= A.price,
    D AS D.price > D.prev_price AND D.price > A.price,
    E AS E.price <= E.prev_price
)"""

SETTINGS = {"parallelism.default": "2", "pipeline.object-reuse": "true", "taskmanager.memory.managed.size": "1gb"}


def run(environment: TableEnvironment, name: str, source: str, output: Path) -> float:
    """Seconds from the files to the written result."""
    shutil.rmtree(output, ignore_errors=True)
    environment.execute_sql(SOURCE.format(name=f"{name}_ticks", path=source))
    environment.execute_sql(SINK.format(name=f"{name}_out", path=output))
    begin = time.perf_counter()
    environment.execute_sql(QUERY.format(source=f"{name}_ticks", sink=f"{name}_out")).wait()
    return time.perf_counter() - begin


def main() -> None:
    wanted = json.loads(sys.argv[1])
    batch = wanted["mode"] == "batch"
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    environment = TableEnvironment.create(settings)
    for name, value in SETTINGS.items():
        environment.get_config().set(name, value)
    run(environment, "warm", wanted["warm"], Path(wanted["output"]))
    print(json.dumps({"seconds": run(environment, "timed", wanted["input"], Path(wanted["output"]))}))


if __name__ == "__main__":
    main()
