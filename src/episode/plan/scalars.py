"""Scalars whose columns are all read at one row: arguments of navigation and aggregates, conditions on one event.

All languages are planned with them. Columns and what is made of them become expressions of the machine; what the
machine does not know is computed by Spark as a further column of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.spark_expression import Unreadable, changing_call, with_null_for_zero, write_expression
from episode.lang.syntax import Atom, ColumnRef, RowKey, Scalar, Source, Span
from episode.lang.trees import exp
from episode.plan.compilable import Mistake, NativeCompiler, NotCompilable
from episode.plan.expressions import Constant, Current, ElementRow, Expression, Load, RowRef, depth
from episode.plan.places import is_placeholder, place_of, placeholders_in, substitute
from episode.plan.schema import InputSchema, quote
from episode.plan.types import VOID, is_wide

# Columns that Spark computes before matching, because the machine does not know a function in them.


PREFIX = "__derived_"
DIGITS = 20
"""Digits of the hash of an expression that names a column of several queries."""


@dataclass
class DerivedColumns:
    """sql → (column name, type), in order of first use."""

    schema: InputSchema
    by_sql: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, sql: str, wanted: str | None = None) -> tuple[str, str]:
        """Name and Spark type of the column for an expression over the input. wanted: the name, if it is free."""
        if sql not in self.by_sql:
            type_ = self.schema.type_of(sql)
            self.by_sql[sql] = (self._name(sql, wanted), type_)
        return self.by_sql[sql]

    def _name(self, sql: str, wanted: str | None) -> str:
        """Return the wanted name, or a number; or a hash of the expression if other queries also read the column."""
        if not self.schema.shared:
            taken = {name.lower() for name, _ in self.by_sql.values()}
            if wanted is not None and self.schema.find(wanted) is None and wanted.lower() not in taken:
                return wanted
            return f"{PREFIX}{len(self.by_sql)}"
        return f"{PREFIX}{sha256(sql.encode()).hexdigest()[:DIGITS]}"

    def selections(self, needed: Container[str]) -> tuple[tuple[str, str], ...]:
        """(sql, name) pairs to add to the input, of the columns that are needed."""
        return tuple((sql, name) for sql, (name, _) in self.by_sql.items() if name in needed)

    @property
    def types(self) -> dict[str, str]:
        """The types of the input's columns, and of these."""
        return {**self.schema.columns, **dict(self.by_sql.values())}


MAXIMUM_DEPTH = 150
ACROSS_ROWS = (
    "Across rows: arithmetic, comparison, AND/OR/NOT, CASE, COALESCE, BETWEEN, IN, ABS, LEAST/GREATEST, "
    "time differences. On the columns of one row: any Spark function."
)


@contextmanager
def refuse_depth(source: Source, what: str, span: Span, hint: str = "") -> Iterator[None]:
    """Turn a recursion that is too deep into an error. what: the parts of the query that are nested."""
    try:
        yield
    except RecursionError:
        hint = hint or "Compute parts of the expressions as columns first."
        raise source.error(EpisodeUnsupportedError, f"{what} are nested too deeply.", span, hint) from None


@dataclass(frozen=True)
class Text:
    """A string in place of a placeholder; None is null."""

    value: str | None

    @property
    def sql(self) -> str:
        return "CAST(NULL AS STRING)" if self.value is None else exp.Literal.string(self.value).sql("spark")


Operand = Atom | Scalar | Text
"""The meaning of a placeholder in an expression of Spark: a column, an expression of columns, a string."""


@dataclass
class RowLocalScalars:
    """Compiles scalars of one row. labels: names of the pattern that may qualify a column, for messages."""

    source: Source
    schema: InputSchema
    derived: DerivedColumns
    labels: tuple[str, ...] = ()

    def compile(
        self,
        scalar: Scalar,
        at: RowRef,
        other: Callable[[Atom], Expression] | None = None,
        others_by_spark: Callable[[exp.Expression], Expression | None] | None = None,
    ) -> Expression:
        """Compile the scalar at a row. other: the meaning there of atoms that are not columns, in languages that have
        them; others_by_spark: lets Spark compute a subtree with such atoms."""
        atoms = dict(scalar.atoms)

        def resolve(name: str) -> Expression:
            atom = atoms[name]
            if isinstance(atom, ColumnRef):
                return self.load(atom, at)
            assert other is not None
            return other(atom)

        def fallback(node: exp.Expression) -> Expression | None:
            found = self.by_spark(node, scalar, at)
            return others_by_spark(node) if found is None and others_by_spark is not None else found

        compiler = NativeCompiler(resolve, fallback, self.schema.utc, arguments=self.schema.arguments)
        try:
            return self.not_too_deep(compiler.compile(scalar.tree), scalar)
        except NotCompilable as error:
            place = place_of(error.node, scalar, self.source)
            message = f"This cannot be evaluated: {error.reason}."
            raise self.source.error(EpisodeUnsupportedError, message, place, error.hint) from None
        except Mistake as error:
            raise self.mistaken(error, scalar) from None

    def value(self, scalar: Scalar) -> Expression:
        """The scalar at the current row, as measures take it: what has two words is computed by Spark."""
        compiled = self.compile(scalar, Current(0))
        return (self.by_spark(scalar.tree, scalar, Current(0)) or compiled) if is_wide(compiled) else compiled

    def resolve(self, reference: ColumnRef) -> tuple[str, tuple[str, ...]]:
        """Column and struct fields that a reference means."""
        return self.schema.resolve(reference, self.source, self.labels)

    def not_too_deep(self, expression: Expression, scalar: Scalar) -> Expression:
        if depth(expression) > MAXIMUM_DEPTH:
            hint = "Compute parts of it as columns in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…)."
            message = "This expression is nested too deeply."
            raise self.source.error(EpisodeUnsupportedError, message, scalar.span, hint)
        return expression

    def as_condition(self, expression: Expression, span: Span, label: str = "", hint: str = "") -> Expression:
        """The expression as a condition of a label, or an error if it is not one. hint: what to write."""
        if expression.type == VOID:
            return Constant(None, "boolean")
        if expression.type != "boolean":
            what = f"The condition of {label} must be true or false, but it" if label else ""
            message = f"{what or 'A condition must be true or false, but this'} is of type {expression.type}."
            raise self.source.error(EpisodeAnalysisError, message, span, hint or "Compare it with something: x > 0.")
        return expression

    def mistaken(self, error: Mistake, scalar: Scalar) -> EpisodeAnalysisError:
        place = place_of(error.node, scalar, self.source)
        return self.source.error(EpisodeAnalysisError, error.message, place, error.hint)

    def load(self, reference: ColumnRef, at: RowRef) -> Expression:
        column, fields = self.resolve(reference)
        if fields:
            name, type_ = self.add_derived(".".join(quote(part) for part in (column, *fields)), reference.span)
            return Load(name, at, type_)
        return Load(column, at, self.schema.columns[column])

    def add_derived(self, sql: str, span: Span, wanted: str | None = None) -> tuple[str, str]:
        """A column computed by Spark. wanted: its name, if that is free."""
        with self._complaints_at(span):
            return self.derived.add(sql, wanted)

    def as_column(self, scalar: Scalar, wanted: str | None) -> tuple[str, str, str]:
        """A scalar of columns as a column computed by Spark: its name, its type, and how Spark would call it."""
        names = {}
        for placeholder, atom in scalar.atoms:
            assert isinstance(atom, ColumnRef)
            column, fields = self.resolve(atom)
            names[placeholder] = ".".join(quote(part) for part in (column, *fields))
        with self._complaints_at(scalar.span):
            title = self.schema.name_of(substitute(scalar.text, names))
        self._refuse_changing(scalar.tree, scalar)
        sql = self._text(scalar.tree, dict(scalar.atoms), scalar.span, False)
        return *self.add_derived(sql, scalar.span, wanted or title), title

    def add_keys(self, expressions: Sequence[RowKey], keys: Sequence[str]) -> None:
        """Have Spark compute those keys that are expressions, each as a column of its name."""
        for one in expressions:
            if one.name in keys and self.as_column(one.expression, one.name)[0] != one.name:
                message = f"The key {one.name} cannot be computed here."
                hint = "Compute it as a column of the input."
                raise self.source.error(EpisodeUnsupportedError, message, one.span, hint)

    def type_of(self, sql: str, span: Span) -> str:
        """The type that Spark gives to an expression over the input."""
        with self._complaints_at(span):
            return self.schema.type_of(sql)

    @contextmanager
    def _complaints_at(self, span: Span) -> Iterator[None]:
        """Spark's complaint is shown at the place in the query."""
        try:
            yield
        except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
            raise self.source.locate(error, span) from None

    def by_spark(self, node: exp.Expression, scalar: Scalar, at: RowRef) -> Expression | None:
        """A Spark column for a subtree whose atoms are all columns (they are all read at the same row)."""
        atoms = dict(scalar.atoms)
        names = placeholders_in(node)
        if is_placeholder(node) or any(not isinstance(atoms[name], ColumnRef) for name in names):
            return None
        return self.spark_load(node, {name: atoms[name] for name in names}, at, scalar)

    def spark_load(
        self, node: exp.Expression, operands: Mapping[str, Operand], at: RowRef, scalar: Scalar
    ) -> Expression:
        """A column that Spark computes from the columns of one row; `scalar` is what the node is a part of."""
        span = place_of(node, scalar, self.source)
        self._refuse_changing(node, scalar)
        present, absent = self._text(node, operands, span, False), self._text(node, operands, span, True)
        name, type_ = self.add_derived(present, span)
        missing = None
        if at != Current(0) and not isinstance(at, ElementRow):
            missing = self.add_derived(absent, span)[0]
        return Load(name, at, type_, missing)

    def _refuse_changing(self, node: exp.Expression, scalar: Scalar) -> None:
        changing = changing_call(node)
        if changing is not None:
            at = self.source.text.find(changing, scalar.span.start, scalar.span.end)
            place = place_of(node, scalar, self.source) if at < 0 else Span(at, at + len(changing))
            message = (
                f"{changing}() may give another value each time it is called, so that matches would not be repeatable."
            )
            hint = "Compute it as a column of the input, and store that; or use it in MEASURES or around the pattern."
            raise self.source.error(EpisodeAnalysisError, message, place, hint)

    def _text(self, node: exp.Expression, operands: Mapping[str, Operand], span: Span, absent: bool) -> str:
        """Return a subtree as Spark's text over the columns of a row, or (absent) with nulls for a missing row."""

        def replace(part: exp.Expression) -> exp.Expression:
            if not isinstance(part, exp.Column):
                return part
            name, *further = (identifier.name for identifier in part.parts)
            value, fields = self._operand(operands[name], span, absent)
            return exp.Var(this=".".join([value, *(quote(field) for field in (*fields, *further))]))

        try:
            return write_expression(with_null_for_zero(node).transform(replace))
        except Unreadable as error:
            raise self.source.error(EpisodeUnsupportedError, error.message, span, error.hint) from None

    def _operand(self, operand: Operand, span: Span, absent: bool) -> tuple[str, tuple[str, ...]]:
        """An operand's text, and the struct fields that are taken of it."""
        if isinstance(operand, Text):
            return operand.sql, ()
        if isinstance(operand, ColumnRef):
            column, fields = self.resolve(operand)
            return f"CAST(NULL AS {self.schema.columns[column]})" if absent else quote(column), fields
        assert isinstance(operand, Scalar)
        text = self._text(operand.tree, dict(operand.atoms), span, False)
        return f"CAST(NULL AS {self.type_of(text, span)})" if absent else f"({text})", ()
