"""Falls of prices until they are back, as a materialized view of a pipeline, and a second one over it."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import episode.auto  # noqa: F401 - spark.sql takes MATCH_RECOGNIZE

spark = SparkSession.active()
TICKS = Path(__file__).parents[1] / "ticks.csv"

# Matches are planned here: functions of a pipeline may not analyse anything.
found = spark.sql(
    """
    SELECT * FROM {ticks} MATCH_RECOGNIZE (
      PARTITION BY symbol
      ORDER BY ts
      MEASURES FIRST(fallen.ts) AS fell_at, back.ts AS recovered_at, min(price) AS low
      PATTERN (top fallen+ back)
      DEFINE fallen AS price < top.price, back AS price >= top.price
    )
    """,
    ticks=spark.read.option("header", True).schema("symbol string, ts bigint, price double").csv(str(TICKS)),
)


@dp.materialized_view
def dips() -> DataFrame:
    return found


@dp.materialized_view
def deepest() -> DataFrame:
    return spark.sql("SELECT symbol, count(*) AS dips, min(low) AS low FROM dips GROUP BY symbol")
