"""Spark's name for the column of an expression without an alias: `SELECT ts + 1` gives `(ts + 1)`."""

from __future__ import annotations

from episode.lang.lexer import tokenize
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.trees import exp

BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "intdiv": "div", "eq": "=",
    "nullsafeeq": "<=>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "and": "AND", "or": "OR",
    "is": "IS",
}  # fmt: skip
FUNCTIONS = {
    "abs": "abs", "upper": "upper", "lower": "lower", "floor": "FLOOR", "ceil": "CEIL", "nullif": "nullif",
    "length": "length", "sign": "sign", "year": "year", "month": "month", "day": "day",
}  # fmt: skip
LISTED = {
    "coalesce": "coalesce", "least": "least", "greatest": "greatest", "concat": "concat"
}  # fmt: skip


def column_name(sql: str) -> str:
    """The name for the text of an expression over columns."""
    try:
        return name_of_tree(read_expression(sql, tokenize(sql)[:-1]))
    except Unreadable:
        return sql


def name_of_tree(node: exp.Expression) -> str:
    """The name for an expression; of one whose form is not known here, its text."""
    if isinstance(node, exp.Paren):
        return name_of_tree(node.this)
    if isinstance(node, exp.Column):
        return node.parts[-1].name
    if isinstance(node, exp.Dot):
        return name_of_tree(node.expression)
    if isinstance(node, (exp.Identifier, exp.Literal)):
        return node.name
    if node.key in BINARY:
        return f"({name_of_tree(node.left)} {BINARY[node.key]} {name_of_tree(node.right)})"
    if isinstance(node, exp.NEQ):
        return f"(NOT ({name_of_tree(node.left)} = {name_of_tree(node.right)}))"
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is):
        return f"({name_of_tree(node.this.left)} IS NOT {name_of_tree(node.this.right)})"
    if isinstance(node, exp.Not):
        return f"(NOT {name_of_tree(node.this)})"
    if isinstance(node, exp.Neg):
        return f"(- {name_of_tree(node.this)})"
    if isinstance(node, exp.DPipe):
        return f"concat({name_of_tree(node.left)}, {name_of_tree(node.right)})"
    if node.key in FUNCTIONS:
        parts = [node.this, node.args.get("expression")]
        return f"{FUNCTIONS[node.key]}({', '.join(name_of_tree(part) for part in parts if part is not None)})"
    if node.key in LISTED:
        parts = [*([node.this] if node.this is not None else []), *node.expressions]
        return f"{LISTED[node.key]}({', '.join(map(name_of_tree, parts))})"
    if isinstance(node, exp.Anonymous):
        return f"{node.name.lower()}({', '.join(map(name_of_tree, node.expressions))})"
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return name_of_tree(node.this)
    if isinstance(node, exp.Cast):
        return f"CAST({name_of_tree(node.this)} AS {node.to.sql('spark').upper()})"
    return node.sql("spark")
