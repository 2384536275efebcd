"""What a DataFrame reads, by its plan: for those who let others write queries over few tables only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame

from episode.spark.classic import class_of, items

_OF_NO_TABLE = frozenset({"LocalRelation", "OneRowRelation", "Range", "LogicalRDD", "CTERelationRef", "UnionLoopRef"})
"""Leaves of plans that reach no file and no table of a catalog: values of the text, and what a program has given."""
_SCRIPTS = frozenset({"ScriptTransformation"})


def foreign_reads(frame: DataFrame, tables: Iterable[DataFrame]) -> list[str]:
    """What a DataFrame reads or runs beside the tables, in words; nothing of it has run yet."""
    known = [relation for table in tables for leaf in _leaves(_analysed(table)) if (relation := _relation(leaf))]
    found = []
    for plan in _plans(frame):
        if any(name in _SCRIPTS for name in _node_names(plan)):
            found.append("a program (TRANSFORM … USING)")
        for leaf in _leaves(plan):
            relation = _relation(leaf)
            if class_of(leaf) in _OF_NO_TABLE or any(relation is not None and relation.equals(one) for one in known):
                continue
            found.append(leaf.nodeName())
    return found


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _plans(frame: DataFrame) -> list[Any]:
    """The plan and those of all subqueries in it."""
    plan = _analysed(frame)
    return [plan, *items(plan.subqueriesAll())]


def _leaves(plan: Any) -> list[Any]:
    return items(plan.collectLeaves())


def _relation(leaf: Any) -> Any:
    """What makes two leaves the same table."""
    kind = class_of(leaf)
    if kind == "LogicalRelation":
        return leaf.relation()
    return leaf.table() if kind.startswith("DataSourceV2") else None


def _node_names(plan: Any) -> list[str]:
    """The classes of a plan's nodes, by a walk from the root."""
    found, open_ = [], [plan]
    while open_:
        node = open_.pop()
        found.append(class_of(node))
        open_ += items(node.children())
    return found
