"""Columns of PARTITION BY and ORDER BY, the time that WITHIN measures, labels and subsets of a clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.pattern import labels_of
from episode.lang.rows.scalar import subqueries_of, with_subqueries
from episode.lang.rows.syntax import Concatenation, Label, MatchRecognize, Pattern, RowsPerMatch
from episode.lang.syntax import NOWHERE, ColumnRef, RowKey, Source, Span
from episode.plan.output import Labels
from episode.plan.parameters import bound_duration
from episode.plan.pattern import OrderColumn
from episode.plan.rows.program import length_bounds
from episode.plan.scalars import DerivedColumns, RowLocalScalars
from episode.plan.schema import InputSchema
from episode.plan.types import NOT_EVENT_TIME, is_event_time, lane_of

# Labels and subsets of a clause.


def labels_in(clause: MatchRecognize) -> Labels:
    return Labels(
        tuple(labels_of(clause.pattern)), {subset.name: frozenset(subset.labels) for subset in clause.subsets}
    )


def known_names(clause: MatchRecognize) -> tuple[str, ...]:
    """Return the names that may qualify a column: labels and subsets."""
    return (*labels_of(clause.pattern), *(subset.name for subset in clause.subsets))


def pinned_labels(pattern: Pattern) -> frozenset[str]:
    """Labels whose row is fixed by the start row: once in the pattern, not optional, after parts of fixed length."""
    parts = pattern.parts if isinstance(pattern, Concatenation) else (pattern,)
    parts_with = Counter(name for part in parts for name in labels_of(part))
    pinned: set[str] = set()
    for part in parts:
        if isinstance(part, Label) and parts_with[part.name] == 1:
            pinned.add(part.name)
        low, high = length_bounds(part)
        if low != high:
            break
    return frozenset(pinned)


# The input of a clause: the columns of PARTITION BY and ORDER BY, and the time that WITHIN measures.

NOT_IN_KEYS = ("array<", "map<", "variant", "collate")


@dataclass(frozen=True)
class KeyColumn:
    """A column that rows are partitioned or ordered by. name: of its output column; aliased: is it in the query?"""

    column: str
    type: str
    name: str
    aliased: bool
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Inputs:
    """Binds the clause to its input table. Expressions become columns that are computed before matching."""

    clause: MatchRecognize
    schema: InputSchema
    derived: DerivedColumns

    def keys(self) -> tuple[KeyColumn, ...]:
        columns = tuple(dict.fromkeys(self._column(key) for key in self.clause.partition_by))
        for one in columns:
            struct = one.type.startswith("struct<") and not any(part in one.type for part in NOT_IN_KEYS)
            if lane_of(one.type) is None and not struct:
                hint = "Partition by columns of atomic types, or structs of them."
                message = f"Rows cannot be partitioned by {one.name}, which is of type {one.type}."
                raise self.clause.source.error(EpisodeUnsupportedError, message, one.span, hint)
        return columns

    def order(self) -> tuple[tuple[KeyColumn, OrderColumn], ...]:
        """Columns of ORDER BY, each once: a column has no effect where an earlier one has ordered by it already."""
        columns: dict[str, tuple[KeyColumn, OrderColumn]] = {}
        for item in self.clause.order_by:
            one = self._column(item.key)
            if lane_of(one.type) is None:
                hint = "Order by columns of atomic types."
                message = f"Rows cannot be ordered by {one.name}, which is of type {one.type}."
                raise self.clause.source.error(EpisodeUnsupportedError, message, one.span, hint)
            ordered = OrderColumn(one.column, item.ascending, item.nulls_first, one.span)
            columns.setdefault(one.column, (one, ordered))
        return tuple(columns.values())

    def _column(self, key: RowKey) -> KeyColumn:
        self._refuse_labels(key)
        rows = RowLocalScalars(self.clause.source, self.schema, self.derived)
        if key.column is not None:
            column, fields = self.schema.resolve(key.column, self.clause.source)
            if not fields:
                return KeyColumn(
                    column, self.schema.columns[column], key.name or column, key.name is not None, key.span
                )
        column, type_, title = rows.as_column(key.expression, key.name)
        return KeyColumn(column, type_, key.name or title, key.name is not None, key.span)

    def _refuse_labels(self, key: RowKey) -> None:
        for _, atom in key.expression.atoms:
            assert isinstance(atom, ColumnRef)
            first, *rest = atom.path
            table = first.lower() in map(str.lower, self.schema.names)
            if rest and not table and self.schema.find(first) is None and first.upper() in known_names(self.clause):
                raise self.clause.source.error(
                    EpisodeAnalysisError,
                    f"{first} is a label of the pattern; rows are partitioned and ordered before they are matched.",
                    atom.span,
                    f"Write {'.'.join(rest)} without the label.",
                )

    def outputs(
        self, keys: Sequence[KeyColumn], order: Sequence[KeyColumn]
    ) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
        """The columns before the measures, (column, name) pairs, and the columns of the input after them.

        Columns whose name an earlier one has are hidden; a name that the query gives twice is an error.
        """
        all_rows = self.clause.rows_per_match is not RowsPerMatch.ONE_ROW
        shown: dict[str, KeyColumn] = {}
        for one in (*keys, *(order if all_rows else ())):
            known = shown.setdefault(self._case(one.name), one)
            if known.column != one.column and (one in keys or one.aliased):
                message = f"The output has two columns named {one.name}."
                hint = "Give one of them another name with AS."
                raise self.clause.source.error(EpisodeAnalysisError, message, one.span, hint)
        leading = tuple((one.column, one.name) for one in shown.values())
        taken = {column for column, _ in leading}
        rest = [name for name in self.schema.columns if name not in taken and self._case(name) not in shown]
        return leading, tuple(rest) if all_rows else ()

    def _case(self, name: str) -> str:
        return name if self.schema.case_sensitive else name.lower()

    def within(self, order: Sequence[KeyColumn]) -> int | None:
        """The longest match, in the unit of event time."""
        clause = self.clause
        duration = clause.within
        if duration is None:
            return None
        if not order:
            message = "WITHIN needs an ORDER BY column to measure time."
            raise clause.source.error(EpisodeAnalysisError, message, duration.span, "Add ORDER BY with the event time.")
        duration = bound_duration(duration, self.schema.arguments, clause.source)
        type_ = order[0].type
        if not is_event_time(type_):
            message = f"WITHIN measures the first ORDER BY column, but {order[0].name} is of type {type_}."
            raise clause.source.error(EpisodeAnalysisError, message, duration.span, NOT_EVENT_TIME)
        calendar = type_ in ("date", "timestamp", "timestamp_ntz")
        if calendar and duration.unit is None:
            message = f"The event time {order[0].name} is a {type_}; WITHIN needs a unit."
            hint = f"Write for example {duration.amount} seconds."
            raise clause.source.error(EpisodeAnalysisError, message, duration.span, hint)
        if not calendar and duration.unit is not None:
            message = f"The event time {order[0].name} is a number; WITHIN takes a plain number."
            hint = "Write for example WITHIN 200, in the unit of that column."
            raise clause.source.error(EpisodeAnalysisError, message, duration.span, hint)
        return duration.amount


# Subqueries of row patterns: as values of parameters, which only statements on Spark have.

__all__ = ["check_subqueries", "with_subqueries"]


def check_subqueries(query: object, source: Source, schema: InputSchema) -> None:
    """Raise an error at the first subquery that has no value."""
    for subquery in subqueries_of(query):
        if subquery.name not in schema.arguments:
            hint = (
                "episode.sql evaluates subqueries in MEASURES and DEFINE, on Spark. Elsewhere, join what it computes "
                "to the input, or give it as a parameter."
            )
            raise source.error(EpisodeUnsupportedError, "A subquery is not evaluated here.", subquery.span, hint)
