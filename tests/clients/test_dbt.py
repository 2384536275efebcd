"""The example project of dbt in session mode: a model of matches, then more ticks, and the model's next run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dbt.adapters.spark", reason="make test-dbt makes an environment with dbt")

PROJECT = Path(__file__).parents[2] / "examples" / "dbt"
RUNS = """
import sys
import episode.auto
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

def run(*command):
    result = dbtRunner().invoke([*command, "--profiles-dir", "."])
    assert result.success, result.exception or [one.message for one in result.result]

def dips():
    return sorted(map(tuple, spark.sql("SELECT * FROM dips").collect()))

run("build")
first = [("ACME", 2, 4, 15.0), ("BOLT", 2, 3, 6.0)]
assert dips() == first, dips()
run("run")
assert dips() == first, dips()
spark.sql("INSERT INTO ticks VALUES ('ACME', 6, 17.0), ('ACME', 7, 22.0), ('BOLT', 4, 5.0)")
run("run")
second = [*first, ("ACME", 6, 7, 17.0)]
assert dips() == sorted(second), dips()
spark.sql("INSERT INTO ticks VALUES ('BOLT', 5, 8.0), ('ACME', 8, 20.0), ('ACME', 9, 19.0), ('ACME', 10, 20.0)")
run("run")
assert dips() == sorted([*second, ("ACME", 9, 10, 19.0)]), dips()
assert sorted(map(tuple, spark.sql("SELECT * FROM deepest").collect())) == [("ACME", 3, 15.0), ("BOLT", 1, 6.0)]
print("done")
"""


def test_an_incremental_model(tmp_path: Path) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("target", "logs", "__pycache__"))
    command = [sys.executable, "-c", RUNS]
    result = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=500, check=False)
    output = f"{result.stdout[-4000:]}\n{result.stderr[-3000:]}"
    assert (result.returncode, result.stdout.strip()[-4:]) == (0, "done"), output
