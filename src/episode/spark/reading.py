"""What a DataFrame reads, by its plan: for those who let others write queries over few tables only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from episode.spark.classic import class_of, items

_OF_NO_TABLE = frozenset({"LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "CTERelationRef", "UnionLoopRef"})
"""Leaves of plans that reach no file and no table of a catalog: values of the text, and those of given tables. Rows of
a temporary view look the same here: names of views that were not given are refused before (`confinement.py`)."""


def foreign_reads(frame: DataFrame, tables: Iterable[DataFrame]) -> list[str]:
    """What a DataFrame reads beside the tables, in words; nothing of it has run yet."""
    foreign = [leaf for plan in _plans(frame) for leaf in _leaves(plan) if class_of(leaf) not in _OF_NO_TABLE]
    if not foreign:
        return []
    known = [relation for table in tables for leaf in _leaves(analysed_plan(table)) if (relation := _relation(leaf))]
    return [leaf.nodeName() for leaf in foreign if not _is_one_of(leaf, known)]


def _is_one_of(leaf: Any, known: list[Any]) -> bool:
    relation = _relation(leaf)
    return relation is not None and any(relation.equals(one) for one in known)


def analysed_plan(frame: DataFrame) -> Any:
    """The plan of a DataFrame with all names resolved."""
    return frame._jdf.queryExecution().analyzed()


def _plans(frame: DataFrame) -> list[Any]:
    """The plan and those of all subqueries in it."""
    plan = analysed_plan(frame)
    return [plan, *items(plan.subqueriesAll())]


def _leaves(plan: Any) -> list[Any]:
    return items(plan.collectLeaves())


def _relation(leaf: Any) -> Any:
    """What makes two leaves the same table."""
    kind = class_of(leaf)
    if kind == "LogicalRelation":
        return leaf.relation()
    return leaf.table() if kind.startswith("DataSourceV2") else None
