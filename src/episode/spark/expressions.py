"""Expressions that Spark evaluates, with the values of parameters bound to them: never as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame

from episode.errors import EpisodeUnsupportedError
from episode.plan.parameters import SubqueryRows
from episode.plan.schema import quote
from episode.spark.parsing import ONLY_QUERIES, RefusedStatement, expr, sql

Arguments = Mapping[str, object]


def select(frame: DataFrame, named: Sequence[tuple[str, str]], arguments: Arguments) -> DataFrame:
    """Expressions over a frame, (SQL, name) pairs, as its columns."""
    if not uses(arguments, (text for text, _ in named)):
        return frame.select(*(expr(text).alias(name) for text, name in named))
    columns = ", ".join(f"{_escaped(text)} AS {_escaped(quote(name))}" for text, name in named)
    return _run(f"SELECT {columns} FROM {{frame}}", frame, arguments)


def where(frame: DataFrame, condition: str, arguments: Arguments) -> DataFrame:
    """The rows of a frame for which a condition holds."""
    if not uses(arguments, [condition]):
        return frame.where(expr(condition))
    return _run(f"SELECT * FROM {{frame}} WHERE {_escaped(condition)}", frame, arguments)


def _run(text: str, frame: DataFrame, arguments: Arguments) -> DataFrame:
    """A query over {frame}, with values for its parameters, and DataFrames for those that are subqueries."""
    values = {name: value for name, value in arguments.items() if not isinstance(value, SubqueryRows)}
    frames = {"frame": frame}
    for name, value in arguments.items():
        if isinstance(value, SubqueryRows) and f":{name}" in text:
            frames[name] = value.frame
            text = re.sub(rf":{name}\b", value.read_as.format(rows=f"{{{name}}}"), text)
    try:
        return sql(frame.sparkSession, text, values, frames)
    except RefusedStatement as error:
        raise EpisodeUnsupportedError(error.refusal.message, hint=ONLY_QUERIES) from None


def uses(arguments: Arguments, expressions: Iterable[str]) -> bool:
    """May one of the expressions have a parameter?"""
    texts = list(expressions) if arguments else []
    return any(f":{name}" in text for name in arguments for text in texts)


def _escaped(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; others are doubled."""
    return text.replace("{", "{{").replace("}", "}}")
