"""What is wrong with a text, as it is being written."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from episode.lang.statement import Statement, parse_statement
from episode.queries.checking import checked
from episode.queries.confined import check_plan, check_text, confined
from episode.studio.problems import problem_of
from episode.studio.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_METADATA = "_metadata"
"""A column that only files have: where it is asked for, the tables are taken as they are."""


def check(tables: Tables, text: str) -> dict[str, Any]:
    """What is wrong with it, or the columns of its result; nothing is run."""
    began = perf_counter()
    found: dict[str, Any] = {"problem": None, "columns": [], "empty": not text.strip()}
    if not found["empty"]:
        try:
            result = _columns(tables, text)
            found["columns"] = [
                {"name": field.name, "type": field.dataType.simpleString()} for field in result.schema.fields
            ]
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is wrong with the text
            found["problem"] = problem_of(error)
    return {**found, "milliseconds": round(1000 * (perf_counter() - began))}


def _columns(tables: Tables, text: str) -> DataFrame:
    statement = read(text)
    as_they_are = _METADATA in text
    frames: Mapping[str, DataFrame] = tables.frames if as_they_are else tables.empty
    with confined(tables.spark):
        result = checked(statement, tables.spark, frames, {})
    check_plan(result, list(frames.values()))
    return result


def read(text: str) -> Statement:
    """A statement that may be run here."""
    statement = parse_statement(text)
    check_text(statement)
    return statement
