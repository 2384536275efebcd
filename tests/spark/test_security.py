"""What SECURITY.md says of the text of queries, and of restricting it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import episode

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "SECURITY.md"
CALL = "('java.lang.System', 'getProperty', 'user.home')"
QUERY = (
    "SELECT {select} FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m PATTERN (A B) DEFINE B AS {condition})"
)


def run(spark: SparkSession, *, select: str = "*", measure: str = "A.x", condition: str = "x > 0") -> list[object]:
    t = spark.createDataFrame([(1, 5), (2, 4)], "ts int, x int")
    query = QUERY.format(select=select, measure=measure, condition=condition)
    return list(episode.sql(query, spark=spark, t=t).collect())


REACHED = (
    {"measure": f"reflect{CALL}"},
    {"measure": f"java_method{CALL} IS NOT NULL"},
    {"select": f"reflect{CALL} AS r"},
    {"select": f"system.builtin.try_reflect{CALL} AS r"},
)


def test_functions_that_call_java_are_reached_and_can_be_taken_away(spark: SparkSession, tmp_path: Path) -> None:
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 3):
        pytest.skip("the page says it of Spark 4.3")
    session = spark.newSession()
    for way in REACHED:
        assert run(session, **way)
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "page.py").write_text(program)
    runpy.run_path(str(tmp_path / "page.py"), {"spark": session})
    for way in REACHED:
        with pytest.raises(episode.EpisodeError):
            run(session, **way)
    assert run(session)


@pytest.mark.parametrize("function", ["reflect", "java_method"])
def test_conditions_do_not_call_java(spark: SparkSession, function: str) -> None:
    """They may give another value each time, as any function that Spark takes to be so."""
    with pytest.raises(episode.EpisodeAnalysisError, match="another value each time"):
        run(spark, condition=f"{function}{CALL} IS NOT NULL")


@pytest.mark.parametrize("condition", ["A.x IN (SELECT x FROM t)", "EXISTS (SELECT 1)", "A.x = (SELECT max(x) FROM t)"])
def test_a_pattern_reads_no_other_table(spark: SparkSession, condition: str) -> None:
    t = spark.createDataFrame([(1, 5), (2, 4)], "ts int, x int")
    t.createOrReplaceTempView("t")
    with pytest.raises(episode.EpisodeError):
        episode.match(t, f"PATTERN A; B WHERE {condition} WITHIN 5", time="ts")
    with pytest.raises(episode.EpisodeError):
        episode.match(t, f"DEFINE A AS {condition.replace('A.x', 'x')}, B AS x > 1 PATTERN A overlaps B", time="ts")
