"""The page on lakehouse tables is true: its code runs, and prints what stands below it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lakehouse.tables import JARS

PAGE = Path(__file__).parents[2] / "docs" / "lakehouse.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(not (JARS / "iceberg").is_dir(), reason="Iceberg has no release for this Spark")
def test_the_page(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The session is there already, with the same settings."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    script = tmp_path / "page.py"
    script.write_text("\n".join(text for kind, text in blocks if kind == "python"), encoding="utf-8")
    names = runpy.run_path(str(script))
    shown = next(text for kind, text in blocks if kind == "text")
    assert shown.strip() in capsys.readouterr().out
    assert spark.read.format("delta").load(f"{names['place']}/v_shapes").collect()[0].ends == 4
