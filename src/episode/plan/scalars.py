"""Scalars whose columns are all read at one row: arguments of navigation and aggregates, conditions on one event.

All languages are planned with them. Columns and what is made of them become expressions of the machine; what the
machine does not know is computed by Spark as a further column of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.source import Source
from episode.lang.spark_expression import Unreadable, write_expression
from episode.lang.syntax import Atom, ColumnRef, Scalar, Span
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import Current, ElementRow, Expression, Load, RowRef, depth
from episode.plan.native import Mistake, NativeCompiler, NotNative
from episode.plan.places import is_placeholder, place_of, placeholders_in
from episode.plan.schema import InputSchema, quote

MAXIMUM_DEPTH = 150
ACROSS_ROWS = (
    "Across rows: arithmetic, comparison, AND/OR/NOT, CASE, COALESCE, BETWEEN, IN, ABS, LEAST/GREATEST, "
    "time differences. On the columns of one row: any Spark function."
)


@dataclass
class RowLocalScalars:
    """Compiles them. labels: names of the pattern that may stand before a column, for the messages."""

    source: Source
    schema: InputSchema
    derived: DerivedColumns
    labels: tuple[str, ...] = ()

    def compile(self, scalar: Scalar, at: RowRef, other: Callable[[Atom], Expression] | None = None) -> Expression:
        """The scalar at a row. other: the meaning there of atoms that are no columns, in languages that have them."""
        atoms = dict(scalar.atoms)

        def resolve(name: str) -> Expression:
            atom = atoms[name]
            if isinstance(atom, ColumnRef):
                return self.load(atom, at)
            assert other is not None
            return other(atom)

        compiler = NativeCompiler(resolve, lambda node: self.by_spark(node, scalar, at), self.schema.utc)
        try:
            return self.not_too_deep(compiler.compile(scalar.tree), scalar)
        except NotNative as error:
            place = place_of(error.node, scalar, self.source)
            message = f"This cannot be evaluated: {error.reason}."
            raise self.source.error(EpisodeUnsupportedError, message, place, error.hint) from None
        except Mistake as error:
            raise self.mistaken(error, scalar) from None

    def resolve(self, reference: ColumnRef) -> tuple[str, tuple[str, ...]]:
        """Column and struct fields behind a reference."""
        return self.schema.resolve(reference, self.source, self.labels)

    def not_too_deep(self, expression: Expression, scalar: Scalar) -> Expression:
        if depth(expression) > MAXIMUM_DEPTH:
            hint = "Compute parts of it as columns in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…)."
            message = "This expression is nested too deeply."
            raise self.source.error(EpisodeUnsupportedError, message, scalar.span, hint)
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

    def add_derived(self, sql: str, span: Span) -> tuple[str, str]:
        """A column computed by Spark."""
        with self._complaints_at(span):
            return self.derived.add(sql)

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
            raise self.source.error(type(error), error.message, span, error.hint) from None

    def by_spark(self, node: exp.Expression, scalar: Scalar, at: RowRef) -> Expression | None:
        """A Spark column for a subtree whose atoms are all columns (they are all read at the same row)."""
        atoms = dict(scalar.atoms)
        names = placeholders_in(node)
        if is_placeholder(node) or any(not isinstance(atoms[name], ColumnRef) for name in names):
            return None
        return self.spark_load(node, {name: atoms[name] for name in names}, at, scalar)

    def spark_load(self, node: exp.Expression, atoms: Mapping[str, Atom], at: RowRef, scalar: Scalar) -> Expression:
        """A column that Spark computes from the columns of one row; `scalar` is what the node is a part of."""

        def text(null: bool) -> str:
            def replace(part: exp.Expression) -> exp.Expression:
                if not isinstance(part, exp.Column):
                    return part
                name, *further = (identifier.name for identifier in part.parts)
                reference = atoms[name]
                assert isinstance(reference, ColumnRef)
                column, fields = self.resolve(reference)
                value = f"CAST(NULL AS {self.schema.columns[column]})" if null else quote(column)
                return exp.Var(this=".".join([value, *(quote(field) for field in (*fields, *further))]))

            return write_expression(node.copy().transform(replace))

        span = place_of(node, scalar, self.source)
        try:
            present, absent = text(null=False), text(null=True)
        except Unreadable as error:
            raise self.source.error(EpisodeUnsupportedError, error.message, span, error.hint) from None
        name, type_ = self.add_derived(present, span)
        missing = None
        if at != Current(0) and not isinstance(at, ElementRow):
            missing = self.add_derived(absent, span)[0]
        return Load(name, at, type_, missing)
