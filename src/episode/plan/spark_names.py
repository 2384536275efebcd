"""How Spark names the column of an expression without an alias: `SELECT ts + 1` gives `(ts + 1)`."""

from __future__ import annotations

from sqlglot import exp

from episode.lang.lexer import tokenize
from episode.lang.spark_expression import Unreadable, read_expression

BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.EQ: "=",
    exp.NullSafeEQ: "<=>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.And: "AND", exp.Or: "OR",
    exp.Is: "IS",
}  # fmt: skip
FUNCTIONS: dict[type[exp.Expression], str] = {
    exp.Abs: "abs", exp.Upper: "upper", exp.Lower: "lower", exp.Floor: "FLOOR", exp.Ceil: "CEIL", exp.Nullif: "nullif",
    exp.Length: "length", exp.Sign: "sign", exp.Year: "year", exp.Month: "month", exp.Day: "day",
}  # fmt: skip
LISTED: dict[type[exp.Expression], str] = {
    exp.Coalesce: "coalesce", exp.Least: "least", exp.Greatest: "greatest", exp.Concat: "concat"
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
    if type(node) in BINARY:
        return f"({name_of_tree(node.left)} {BINARY[type(node)]} {name_of_tree(node.right)})"
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
    if type(node) in FUNCTIONS:
        parts = [node.this, node.args.get("expression")]
        return f"{FUNCTIONS[type(node)]}({', '.join(name_of_tree(part) for part in parts if part is not None)})"
    if type(node) in LISTED:
        parts = [*([node.this] if node.this is not None else []), *node.expressions]
        return f"{LISTED[type(node)]}({', '.join(map(name_of_tree, parts))})"
    if isinstance(node, exp.Anonymous):
        return f"{node.name.lower()}({', '.join(map(name_of_tree, node.expressions))})"
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Column):
        return name_of_tree(node.this)
    if isinstance(node, exp.Cast):
        return f"CAST({name_of_tree(node.this)} AS {node.to.sql('spark').upper()})"
    return node.sql("spark")
