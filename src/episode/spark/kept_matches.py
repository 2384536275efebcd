"""Conditions that only Spark evaluates, on a few matches that are in this process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from episode.spark import carry
from episode.spark.expressions import Arguments, select

_NUMBER = "__episode_number"


def kept_matches(spark: SparkSession, matched: pa.Table, conditions: Sequence[str], arguments: Arguments) -> np.ndarray:
    """For which rows of a matcher's output all conditions hold."""
    numbered = matched.append_column(_NUMBER, pa.array(np.arange(matched.num_rows)))
    frame = carry.decode(spark.createDataFrame(numbered), numbered.schema)
    tests = [(f"coalesce({sql}, false)", f"__episode_kept_{number}") for number, sql in enumerate(conditions)]
    found = select(frame, [(f"`{_NUMBER}`", _NUMBER), *tests], arguments).orderBy(_NUMBER).toArrow()
    holds = np.ones(matched.num_rows, np.bool_)
    for _, name in tests:
        holds &= found.column(name).to_numpy()
    return holds
