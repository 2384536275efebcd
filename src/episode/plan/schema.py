"""The input of a query as the planner sees it: columns with Spark types, and a way to ask Spark for further types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.cursor import closest, known_labels
from episode.lang.lexer import tokenize
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.syntax import ColumnRef, RowKey, Source
from episode.lang.trees import exp
from episode.plan.types import lane_of

OWN = "__episode_"
"""Prefix of episode's own columns."""


def no_spark(expression: str) -> str:
    """Type oracle of in-process runs, which have no Spark to ask."""
    raise EpisodeUnsupportedError(f"Evaluating {expression} needs Spark.")


# Spark's name for the column of an expression without an alias: `SELECT ts + 1` gives `(ts + 1)`.

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


# The input.


@dataclass(frozen=True)
class InputSchema:
    """columns: name → Spark simple type string, in order. type_of: type of a Spark expression over them.
    name_of: Spark's name for the column of such an expression without an alias.

    arguments: the values of the query's parameters. time: the declared event time, for queries that name none. shared:
    do several queries read these columns together, so that derived columns have the same name in all of them? names: of
    the table, which may qualify its columns.
    """

    columns: dict[str, str]
    type_of: Callable[[str], str] = field(default=no_spark, compare=False)
    name_of: Callable[[str], str] = field(default=column_name, compare=False, kw_only=True)
    utc: bool = True
    case_sensitive: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    time: str | None = None
    shared: bool = False
    names: tuple[str, ...] = ()

    def find(self, name: str) -> str | None:
        """The column's own spelling."""
        if name in self.columns:
            return name
        if not self.case_sensitive:
            return next((column for column in self.columns if column.lower() == name.lower()), None)
        return None

    def resolve(self, reference: ColumnRef, source: Source, labels: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
        """Return the column and struct fields of a reference, or raise an error that lists the columns and labels."""
        reference = self._without_table(reference)
        column = self.find(reference.path[0])
        if column is not None:
            if len(reference.path) > 1 and lane_of(self.columns[column]) is not None:
                message = f"{column} is of type {self.columns[column]} and has no field {reference.path[1]}."
                hint = known_labels(labels) if labels and reference.label is None else None
                raise source.error(EpisodeAnalysisError, message, reference.span, hint)
            return column, reference.path[1:]
        written = ".".join(([reference.label] if reference.label else []) + list(reference.path))
        name = reference.path[0]
        qualified = len(reference.path) > 1 and reference.label is None
        what = "label or column" if qualified and labels else "column"
        message = f"There is no {what} {name}." if written == name else f"There is no {what} {name} (in {written})."
        raise source.error(EpisodeAnalysisError, message, reference.span, self._what_there_is(name, labels, qualified))

    def _without_table(self, reference: ColumnRef) -> ColumnRef:
        """The reference without the name of the table before it; as in Spark, the table goes before a struct."""
        first, *rest = reference.path
        if reference.label is not None or not rest or first.lower() not in map(str.lower, self.names):
            return reference
        is_struct = self.find(first) is not None and self.find(rest[0]) is None
        return reference if is_struct else replace(reference, path=tuple(rest))

    def _what_there_is(self, name: str, labels: Sequence[str], qualified: bool) -> str:
        if name.upper() in labels and not qualified:
            return f"{name} is a label: count({name}.*) counts its rows, and {name}.x is the column x of its last row."
        guess = suggestion(name, [*(labels if qualified else ()), *self.columns])
        columns = [column for column in self.columns if not column.startswith(OWN)]
        known = ", ".join(columns[:20]) + (", …" if len(columns) > 20 else "")
        shown = f"{known_labels(labels)} " if qualified and labels else ""
        return f"{guess}{shown}Columns of the input: {known}."


def suggestion(name: str, known: Iterable[str]) -> str:
    """The beginning of a hint that names the closest of the known names, if any is close."""
    meant = closest(name, known)
    return "" if meant is None else f"Did you mean {meant}? "


def key_columns(schema: InputSchema, names: Sequence[str], expressions: Sequence[RowKey] = ()) -> tuple[str, ...]:
    """The partition columns of the input that were asked for. expressions: of those that are computed, which a planner
    adds by their names."""
    computed = [one.name for one in expressions]
    keys = []
    for name in names:
        column = schema.find(name)
        if name in computed:
            if column is not None:
                hint = "Give the expression another name."
                raise EpisodeAnalysisError(f"The input has a column {column} already.", hint=hint)
            column = name
        if column is None:
            hint = f"Columns of the input: {', '.join(schema.columns)}."
            raise EpisodeAnalysisError(f"There is no column {name} for the key.", hint=hint)
        keys.append(column)
    return tuple(keys)


def quote(name: str) -> str:
    """A Spark identifier."""
    return "`" + name.replace("`", "``") + "`"


# Several tables as one stream of events.

CLASS_COLUMN = "__episode_class"
"""The number of a row's table, if several tables are one stream."""


PARTITION_COLUMN = "__episode_partition"
"""The position of a row in its partition, if rows come partition by partition."""


@dataclass(frozen=True)
class EventTable:
    """A table whose rows are the events of a class.

    columns: the columns of the stream after its own ones. widened: types of the stream, for its own columns that are
    of a narrower one.
    """

    number: int
    columns: dict[str, str]
    widened: dict[str, str] = field(default_factory=dict)
