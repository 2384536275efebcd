"""The one way on which texts of queries reach Spark's parser: confined ones are judged before (`confinement.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeUnsupportedError
from episode.spark.confinement import Refusal, current

ONLY_QUERIES = "Only queries are run here, and only over the tables that were given."
"""What every refusal says."""


class RefusedStatement(Exception):
    """A confined statement that may not run. The place in `refusal` is one in the text as Spark would parse it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def expr(text: str) -> Column:
    """A scalar expression."""
    return F.expr(permitted(text))


def permitted(text: str) -> str:
    """The text of a scalar expression, if it may be parsed."""
    confinement = current()
    refusal = None if confinement is None else confinement.expression(text)
    if refusal is not None:
        raise EpisodeUnsupportedError(refusal.message, hint=ONLY_QUERIES)
    return text


def sql(spark: SparkSession, text: str, arguments: Mapping[str, object], frames: Mapping[str, DataFrame]) -> DataFrame:
    """`spark.sql` of a text with DataFrames in braces; other braces are doubled in it."""
    confinement = current()
    if confinement is not None:
        views = {name: f"_pyspark_{uuid4().hex}" for name in frames}  # as long as PySpark's, and nobody else's
        refusal = confinement.statement(text.format(**views), list(views.values()))
        if refusal is not None:
            raise RefusedStatement(refusal)
    bound: dict[str, Any] = {"args": dict(arguments)} if arguments else {}
    plain = text if frames else text.replace("{{", "{").replace("}}", "}")
    return spark.sql(plain, **bound, **frames)
