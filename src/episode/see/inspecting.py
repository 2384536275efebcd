"""One pattern and its input, looked at key by key in this process: the base of plots and of `why_not`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.matchers.projection import Derivation, Projection
from episode.plan.compilable import NeedsSpark
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import ScalarColumn
from episode.plan.parameters import Arguments
from episode.plan.schema import quote
from episode.queries.origins import LocalEvents, PlacedPattern
from episode.queries.planning import PatternEvents
from episode.queries.substitution import PAIRS, escape_braces, lateral, tables_text

if TYPE_CHECKING:
    from episode.lang.correlation.syntax import Correlation
    from episode.plan.pattern import PatternPlan
    from episode.spark.inspection import Bounds, SparkRows


@dataclass(frozen=True)
class LocalRows:
    """The rows of a pattern's input in a table of this process; `spark.inspection.SparkRows` has the same methods."""

    table: pa.Table
    zone = "UTC"

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


@dataclass(frozen=True)
class Inspected:
    """A pattern that is bound to its input.

    events: as it was planned over. source: their rows; of a declared stream, all that it has had so far; live: is it
    one? plan: of the pattern over them.
    """

    placed: PlacedPattern
    events: PatternEvents | LocalEvents
    plan: PatternPlan
    source: SparkRows | LocalRows
    live: bool = field(default=False, kw_only=True)

    @property
    def arguments(self) -> Mapping[str, object]:
        return self.placed.run.arguments

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that partition the events."""
        return self.plan.keys

    @property
    def time(self) -> str | None:
        """The column that orders the events of a key."""
        order = self.plan.order
        return order[0].column if order else None

    def rows(
        self,
        key: Mapping[str, object],
        between: tuple[object, object] = (None, None),
        further: Sequence[str] = (),
        most: int | None = None,
    ) -> pa.Table:
        """The rows of a key in no order: the columns that the pattern reads (also those that are computed for it) and
        further ones of the input. between: the least and the greatest value of the time column; None: no bound."""
        read = self.plan.input_columns
        columns = [*read, *(name for name in further if name not in read)]
        bounds = {} if self.time is None else {self.time: between}
        return self.source.rows(columns, self.plan.derived, self.arguments, key, bounds, most)

    def keep(self, matched: pa.Table, conditions: Sequence[str]) -> np.ndarray:
        """Tell for which rows of a matcher's output conditions hold that the matcher does not evaluate."""
        try:
            tests = Projection.compile((), matched.schema, [ScalarColumn.of(one) for one in conditions], self.arguments)
        except NeedsSpark:
            if isinstance(self.source, LocalRows):
                raise
            return self.source.keep(matched, conditions, self.arguments)
        return np.asarray(tests.holds(matched))

    def count(self, key: Mapping[str, object]) -> int:
        """The number of rows of a key."""
        return self.source.count(key)

    def keys_by_rows(self, most: int) -> pa.Table:
        """The values of the key columns with the number of their rows (column `rows`), the greatest numbers first."""
        return self.source.keys_by_rows(self.keys, most)

    def some_keys(self) -> str:
        """A few keys with many rows, in words."""
        some = self.keys_by_rows(5).select(list(self.keys)).to_pylist()
        return "; ".join(named_key(one) for one in some)

    def key_of(self, given: object) -> dict[str, object]:
        """The values of the key columns from what a caller gives: one value, several in order, or a mapping by name."""
        if not self.keys:
            if given is not None:
                raise EpisodeAnalysisError(f"of={given!r}: the events of this pattern are not partitioned.")
            return {}
        if isinstance(given, Mapping):
            values = dict(given)
        elif len(self.keys) == 1 and (given is None or isinstance(given, str) or not isinstance(given, Sequence)):
            values = {self.keys[0]: given}
        elif isinstance(given, Sequence) and not isinstance(given, str) and len(given) == len(self.keys):
            values = dict(zip(self.keys, given, strict=True))
        else:
            raise self._wrong_key(given)
        lower = {name.lower(): name for name in self.keys}
        unknown = [name for name in values if not isinstance(name, str) or name.lower() not in lower]
        if unknown or len(values) != len(self.keys):
            raise self._wrong_key(given, unknown[0] if unknown else None)
        return {lower[name.lower()]: value for name, value in values.items()}

    def _wrong_key(self, given: object, unknown: Any = None) -> EpisodeAnalysisError:
        meant = None if not isinstance(unknown, str) else closest(unknown, self.keys)
        names = ", ".join(f"{name!r}: …" for name in self.keys)
        guess = "" if meant is None else f"Did you mean {meant}? "
        return EpisodeAnalysisError(
            f"of={given!r}: the events are partitioned by {', '.join(self.keys)}.", hint=f"{guess}Write of={{{names}}}."
        )


def named_key(key: Mapping[str, object]) -> str:
    """Return a key in words: the value of a single text column, else the columns with their values."""
    if len(key) == 1:
        (value,) = key.values()
        if isinstance(value, str):
            return value
    return ", ".join(f"{name} {'null' if value is None else value}" for name, value in key.items())


def patterns_at(placed: PlacedPattern) -> tuple[Inspected, ...]:
    """Return the pattern, or the live and the archive pattern of a correlation."""
    pattern: Any = placed.planned.pattern
    plans = (pattern.live, pattern.archive) if len(placed.events) == 2 else (pattern,)
    return tuple(_inspect(placed, events, plan) for events, plan in zip(placed.events, plans, strict=True))


def _inspect(placed: PlacedPattern, events: PatternEvents | LocalEvents, plan: PatternPlan) -> Inspected:
    ordering = {*plan.keys, *(one.column for one in plan.order)}
    computed = tuple((sql, name) for sql, name in plan.derived if name in ordering)
    arguments = placed.run.arguments
    if isinstance(events, LocalEvents):
        table = Derivation.compile(computed, events.table.schema, arguments)(events.table)
        return Inspected(placed, events, plan, LocalRows(table))
    from episode.spark.inspection import SparkRows
    from episode.spark.packing import columns_of
    from episode.spark.stores.catalog import past_of

    past = past_of(events.frame) if events.frame.isStreaming else None
    frame = events.frame if past is None else past
    if computed:
        frame = columns_of(frame, (*frame.columns, *(name for _, name in computed)), computed, arguments)
    return Inspected(placed, replace(events, frame=frame), plan, SparkRows(frame), live=past is not None)


def filter_pairs(
    frame: Any, query: Correlation, conditions: Sequence[str], columns: Sequence[str], arguments: Arguments
) -> Any:
    """Return columns of the pairs of a correlation for which conditions hold that name both patterns."""
    from episode.spark.errors import Copies
    from episode.spark.tables import run_sql

    sides = []
    for prefix, name, own in zip((LIVE_PREFIX, ARCHIVE_PREFIX), query.names, query.columns, strict=True):
        listed = f" ({', '.join(map(quote, own))})" if own else ""
        naming = "" if name is None else escape_braces(f"AS {quote(name)}{listed}")
        sides.append(lateral(frame.columns, prefix, naming))
    tables = tables_text("pairs", sides[0], sides[1], map(escape_braces, conditions))
    items = ", ".join(f"{PAIRS}.{escape_braces(quote(name))}" for name in columns)
    return run_sql(frame.sparkSession, f"SELECT {items} FROM {tables}", {"pairs": frame}, arguments, Copies("", ()))
