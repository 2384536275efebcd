"""Rows of a pattern's input: in a DataFrame of Spark, or in a table of this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError
from episode.matchers.projection import Derivation, Projection
from episode.plan.output import ScalarColumn
from episode.plan.parameters import Arguments

if TYPE_CHECKING:
    from episode.plan.pattern import PatternPlan, RunOptions

Bounds = tuple[object, object]
"""The least and the greatest value of a column, both included; None: no bound."""


class InputRows(ABC):
    """The rows that a pattern is over. zone: the clock by which times are read and shown."""

    zone: str
    is_here = False
    """Are all rows in this process?"""

    @property
    @abstractmethod
    def columns(self) -> list[str]: ...

    @abstractmethod
    def rows(
        self,
        columns: Sequence[str],
        derived: tuple[tuple[str, str], ...],
        arguments: Arguments,
        key: Mapping[str, object],
        bounds: Mapping[str, Bounds],
        most: int | None = None,
    ) -> pa.Table:
        """Columns of the rows with these key values (None: null) and within bounds, as matchers take them. columns: of
        the input, and derived ones, (SQL, name) pairs. most: the number of rows, at most."""

    @abstractmethod
    def count(self, key: Mapping[str, object]) -> int:
        """The number of rows that have these key values."""

    @abstractmethod
    def keys_by_rows(self, keys: Sequence[str], most: int) -> pa.Table:
        """The values of the key columns with the number of their rows (column `rows`), the greatest numbers first."""

    @abstractmethod
    def rows_at_most(
        self, key: Mapping[str, object], bounds: Mapping[str, Bounds], time: str, most: int
    ) -> tuple[int, object]:
        """The number of rows; if it is greater than `most`, the time up to which there are about `most`."""

    @abstractmethod
    def first_matches(self, plan: PatternPlan, run: RunOptions, most: int) -> pa.Table:
        """The matcher's columns of the first matches."""

    @abstractmethod
    def keep(self, matched: pa.Table, conditions: Sequence[str], arguments: Arguments) -> np.ndarray:
        """Tell for which rows of a matcher's output the conditions hold."""


@dataclass(frozen=True)
class SparkRows(InputRows):
    """The rows of a DataFrame."""

    frame: Any

    @property
    def zone(self) -> str:  # type: ignore[override]
        return self.frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    def rows(
        self,
        columns: Sequence[str],
        derived: tuple[tuple[str, str], ...],
        arguments: Arguments,
        key: Mapping[str, object],
        bounds: Mapping[str, Bounds],
        most: int | None = None,
    ) -> pa.Table:
        from episode.spark.inspection import rows_of_key

        return rows_of_key(self._table, columns, derived, arguments, key, bounds, most)

    def count(self, key: Mapping[str, object]) -> int:
        from episode.spark.inspection import count_of_key

        return count_of_key(self._table, key)

    def keys_by_rows(self, keys: Sequence[str], most: int) -> pa.Table:
        from episode.spark.inspection import keys_by_rows

        return keys_by_rows(self._table, keys, most)

    def rows_at_most(
        self, key: Mapping[str, object], bounds: Mapping[str, Bounds], time: str, most: int
    ) -> tuple[int, object]:
        from episode.spark.inspection import rows_at_most

        return rows_at_most(self._table, key, bounds, time, most)

    def first_matches(self, plan: PatternPlan, run: RunOptions, most: int) -> pa.Table:
        from episode.spark.inspection import first_matches

        return first_matches(self._table, plan, run, most)

    def keep(self, matched: pa.Table, conditions: Sequence[str], arguments: Arguments) -> np.ndarray:
        from episode.spark.expressions import kept_matches

        return kept_matches(self.frame.sparkSession, matched, conditions, arguments)

    @property
    def _table(self) -> Any:
        if self.frame.isStreaming:
            raise EpisodeAnalysisError(
                "The events of this pattern are a stream, which cannot be looked at twice.",
                hint="Run the query over a table of its past events, or over a declared stream (CREATE STREAM).",
            )
        return self.frame


@dataclass(frozen=True)
class LocalRows(InputRows):
    """The rows of a table of this process."""

    table: pa.Table
    zone = "UTC"
    is_here = True

    @property
    def columns(self) -> list[str]:
        return self.table.column_names

    def rows(
        self,
        columns: Sequence[str],
        derived: tuple[tuple[str, str], ...],
        arguments: Arguments,
        key: Mapping[str, object],
        bounds: Mapping[str, Bounds],
        most: int | None = None,
    ) -> pa.Table:
        table = self._restrict(key, bounds)
        further = tuple(one for one in derived if one[1] not in table.column_names)
        table = Derivation.compile(further, table.schema, arguments)(table).select(list(columns))
        return table if most is None else table.slice(0, most)

    def count(self, key: Mapping[str, object]) -> int:
        return self._restrict(key, {}).num_rows

    def keys_by_rows(self, keys: Sequence[str], most: int) -> pa.Table:
        counted = self.table.group_by(list(keys)).aggregate([([], "count_all")])
        ordered = counted.sort_by([("count_all", "descending"), *((name, "ascending") for name in keys)])
        return ordered.rename_columns([*keys, "rows"]).slice(0, most)

    def rows_at_most(
        self, key: Mapping[str, object], bounds: Mapping[str, Bounds], time: str, most: int
    ) -> tuple[int, object]:
        times = self._restrict(key, bounds).column(time).drop_null()
        if len(times) <= most:
            return len(times), None
        return len(times), times.take(pc.sort_indices(times))[most - 1].as_py()

    def first_matches(self, plan: PatternPlan, run: RunOptions, most: int) -> pa.Table:
        raise NotImplementedError  # not asked: all rows are here

    def keep(self, matched: pa.Table, conditions: Sequence[str], arguments: Arguments) -> np.ndarray:
        tests = Projection.compile((), matched.schema, [ScalarColumn.of(one) for one in conditions], arguments)
        return np.asarray(tests.holds(matched))

    def _restrict(self, key: Mapping[str, object], bounds: Mapping[str, Bounds]) -> pa.Table:
        table = self.table
        for name, value in key.items():
            column = table.column(name)
            table = table.filter(pc.is_null(column) if value is None else pc.equal(column, _scalar(value, column)))
        for name, (least, greatest) in bounds.items():
            if least is not None:
                table = table.filter(pc.greater_equal(table.column(name), _scalar(least, table.column(name))))
            if greatest is not None:
                table = table.filter(pc.less_equal(table.column(name), _scalar(greatest, table.column(name))))
        return table


def _scalar(value: object, column: pa.ChunkedArray) -> pa.Scalar:
    """A value as one of a column's type; null if it cannot be."""
    try:
        return pa.scalar(value).cast(column.type)
    except pa.ArrowException:
        return pa.scalar(None, column.type)
