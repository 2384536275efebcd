"""One pattern and its input, looked at key by key in this process: the base of plots and of `why_not`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.matchers.projection import Derivation
from episode.queries.origins import LocalEvents, PlacedPattern
from episode.queries.planning import PatternEvents
from episode.see.input_rows import InputRows, LocalRows, SparkRows

if TYPE_CHECKING:
    from episode.plan.pattern import PatternPlan


@dataclass(frozen=True)
class Inspected:
    """A pattern that is bound to its input.

    events: as it was planned over. source: their rows; of a declared stream, all that it has had so far; live: is it
    one? plan: of the pattern over them.
    """

    placed: PlacedPattern
    events: PatternEvents | LocalEvents
    plan: PatternPlan
    source: InputRows
    live: bool = field(default=False, kw_only=True)

    @property
    def arguments(self) -> Mapping[str, object]:
        """The values of parameters."""
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
        return self.source.keep(matched, conditions, self.arguments)

    def count(self, key: Mapping[str, object]) -> int:
        """The number of rows of a key."""
        return self.source.count(key)

    def keys_by_rows(self, most: int) -> pa.Table:
        """The values of the key columns with the number of their rows (column `rows`), the greatest numbers first."""
        return self.source.keys_by_rows(self.keys, most)

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
            f"of={given!r}: the events are partitioned by {', '.join(self.keys)}.",
            hint=f"{guess}Write of={{{names}}}.",
        )


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
    from episode.spark.packing import columns_of
    from episode.spark.stores.catalog import past_of

    past = past_of(events.frame) if events.frame.isStreaming else None
    frame = events.frame if past is None else past
    if computed:
        frame = columns_of(frame, (*frame.columns, *(name for _, name in computed)), computed, arguments)
    return Inspected(placed, replace(events, frame=frame), plan, SparkRows(frame), live=past is not None)
