"""The oracle's array functions are Spark's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.property.test_arrays_in_conditions import ARRAYS, CONDITIONS
from tests.reference.scalars import scalar_value

from episode.lang.spark_dialect import SparkExpressions

pytestmark = pytest.mark.spark

NAN = float("nan")
TABLES = {
    "int": [([4, None, 2, 6, 2], [2, 6], 2), ([], [1], 1), ([3, 1], [], None), ([None], [None, 1], 1), ([2], [2], 3)],
    "double": [([0.5, NAN, None, NAN], [NAN], NAN), ([-0.0, 0.0, 1.5], [0.0], 0.0), ([2.0, 1.0], [3.0], None)],
    "string": [(["b", "ab", None, "b"], ["ab"], "b"), ([""], [], ""), (["B", "a"], ["a", None], "c")],
}


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [comparable(each) for each in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("type_", TABLES)
def test_every_function_of_the_property_tests(spark: SparkSession, type_: str) -> None:
    rows = TABLES[type_]
    one = {"int": "2", "double": "1.5e0", "string": "'b'"}[type_]
    texts = [text.format(xs="xs", ys="ys", x="x", one=one) for text in ARRAYS]
    texts += [text.format(xs="xs", ys="ys", zs="xs", x="x") for text in CONDITIONS]
    # A place outside gives null in conditions, and an error in Spark.
    written = [text.replace("element_at(", "try_element_at(").replace("try_try_", "try_") for text in texts]
    written = [text.replace("xs[1]", "get(xs, 1)").replace("xs[0]", "get(xs, 0)") for text in written]
    frame = spark.createDataFrame(rows, f"xs array<{type_}>, ys array<{type_}>, x {type_}")
    found = frame.select(*(F.expr(text).alias(str(at)) for at, text in enumerate(written))).collect()
    for (xs, ys, x), row in zip(rows, found):
        values = {"xs": xs, "ys": ys, "x": x}
        for text, actual in zip(texts, row):
            tree = sqlglot.parse_one(text, read=SparkExpressions)
            expected = scalar_value(tree, values.__getitem__, lambda why: None)
            assert comparable(actual) == comparable(expected), (text, values)
