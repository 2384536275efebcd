"""The example of a declarative pipeline, run by Spark's own command: two materialized views, one of matches."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

pytest.importorskip("grpc", reason="a pipeline needs grpcio: make test-clients installs it")
pytest.importorskip("yaml", reason="a pipeline needs PyYAML: make test-clients installs it")
pytest.importorskip("pyspark.pipelines", reason="Spark has pipelines from 4.1 on")

PROJECT = Path(__file__).parents[2] / "examples" / "pipelines"


def test_materialized_views(tmp_path: Path) -> None:
    project = tmp_path / "pipelines"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/episode-pipeline", str(tmp_path / "storage")))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "run", "--spec", str(spec)]
    run = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert rows(project, "dips") == [("ACME", 2, 4, 15.0), ("BOLT", 2, 3, 6.0)]
    assert rows(project, "deepest") == [("ACME", 1, 15.0), ("BOLT", 1, 6.0)]


def rows(project: Path, table: str) -> list[tuple[object, ...]]:
    """The rows of a materialized view, from its files."""
    import pyarrow.parquet as pq

    (directory,) = project.rglob(f"spark-warehouse/{table}")
    return sorted(tuple(row.values()) for row in pq.read_table(directory).to_pylist())
