"""What a clause says of its input: the columns of PARTITION BY and ORDER BY, and the time that WITHIN measures."""

from __future__ import annotations

from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.syntax import MatchRecognize
from episode.lang.syntax import ColumnRef
from episode.plan.parameters import bound_duration
from episode.plan.pattern import OrderColumn
from episode.plan.schema import InputSchema
from episode.plan.types import is_event_time, lane_of

NOT_IN_KEYS = ("array<", "map<", "variant", "collate")


@dataclass(frozen=True)
class Inputs:
    """Binds the clause to its input table."""

    clause: MatchRecognize
    schema: InputSchema

    def keys(self) -> tuple[str, ...]:
        """Columns of PARTITION BY, each once."""
        columns: dict[str, ColumnRef] = {}
        for reference in self.clause.partition_by:
            columns.setdefault(self._column(reference), reference)
        for column, reference in columns.items():
            type_ = self.schema.columns[column]
            struct = type_.startswith("struct<") and not any(part in type_ for part in NOT_IN_KEYS)
            if lane_of(type_) is None and not struct:
                hint = "Partition by columns of atomic types, or structs of them."
                raise self.clause.source.error(
                    EpisodeUnsupportedError,
                    f"Rows cannot be partitioned by {column}, which is of type {type_}.",
                    reference.span,
                    hint,
                )
        return tuple(columns)

    def order(self) -> tuple[OrderColumn, ...]:
        """Columns of ORDER BY, each once: a column has no effect where an earlier one has ordered by it already."""
        columns: dict[str, OrderColumn] = {}
        for item in self.clause.order_by:
            column = self._column(item.column)
            type_ = self.schema.columns[column]
            if lane_of(type_) is None:
                hint = "Order by columns of atomic types."
                raise self.clause.source.error(
                    EpisodeUnsupportedError,
                    f"Rows cannot be ordered by {column}, which is of type {type_}.",
                    item.column.span,
                    hint,
                )
            columns.setdefault(column, OrderColumn(column, item.ascending, item.nulls_first, item.column.span))
        return tuple(columns.values())

    def _column(self, reference: ColumnRef) -> str:
        column, fields = self.schema.resolve(reference, self.clause.source)
        if fields:
            raise self.clause.source.error(
                EpisodeAnalysisError,
                f"{'.'.join(reference.path)} is a field of a struct; only columns can stand here.",
                reference.span,
                "Select the field as a column in a subquery.",
            )
        return column

    def within(self, order: tuple[OrderColumn, ...]) -> int | None:
        """The longest match, in the unit of event time."""
        clause = self.clause
        duration = clause.within
        if duration is None:
            return None
        if not order:
            raise clause.source.error(
                EpisodeAnalysisError,
                "WITHIN needs an ORDER BY column to measure time.",
                duration.span,
                "Add ORDER BY with the event time.",
            )
        duration = bound_duration(duration, self.schema.arguments, clause.source)
        type_ = self.schema.columns[order[0].column]
        if not is_event_time(type_):
            raise clause.source.error(
                EpisodeAnalysisError,
                f"WITHIN measures the first ORDER BY column, but {order[0].column} is of type {type_}.",
                duration.span,
                "Order by a timestamp, a date or an integer first.",
            )
        calendar = type_ in ("date", "timestamp", "timestamp_ntz")
        if calendar and duration.unit is None:
            raise clause.source.error(
                EpisodeAnalysisError,
                f"The event time {order[0].column} is a {type_}; WITHIN needs a unit.",
                duration.span,
                f"Write for example {duration.amount} seconds.",
            )
        if not calendar and duration.unit is not None:
            raise clause.source.error(
                EpisodeAnalysisError,
                f"The event time {order[0].column} is a number; WITHIN takes a plain number.",
                duration.span,
                "Write for example WITHIN 200, in the unit of that column.",
            )
        return duration.amount
