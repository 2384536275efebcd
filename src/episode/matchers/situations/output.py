"""From matches as places in buffers to tables of output columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import with_keys
from episode.matchers.situations.prepare import SituationFeed
from episode.matchers.situations.symbols import Symbol
from episode.matchers.situations.values import result, state_fields
from episode.plan.output import PlaceExists
from episode.plan.situations.plan import SituationPlan
from episode.plan.situations.returns import DETECTED_AT, MatchMoment, SituationMoment
from episode.plan.types import is_integer

DAY = 86_400_000_000


class SituationOutput:
    """Makes the tables of a matcher's matches. input_schema: of the events."""

    def __init__(self, plan: SituationPlan, schema: pa.Schema, input_schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        self.input_schema = input_schema
        self.keyed = False

    def table(self, feed: SituationFeed, symbols: Sequence[Symbol], found: np.ndarray, rows: np.ndarray) -> pa.Table:
        """found int64[matches, symbols + 1]: slots, and bits of those that last. rows int64[matches, 2]: the row with
        which a match was certain, and its group."""
        names = self.plan.symbols
        row, group = rows[:, 0], rows[:, 1]
        lasts = found[:, -1]
        starts = {name: feed.buffers.start[found[:, number]] for number, name in enumerate(names)}
        values: dict[str, pa.Array] = {}
        for symbol in symbols:
            if symbol.atoms:
                slots = found[:, symbol.number]
                lasting = lasts >> symbol.number & 1 == 1
                as_of = np.where(lasting, row, feed.buffers.last[slots])
                values |= self._results(symbol, *feed.values(symbol, slots, as_of, group))
        arrays = []
        for atom, name in self.plan.measures.atoms.items():
            kind = self.schema.field(name).type
            if isinstance(atom, SituationMoment):
                number = names.index(atom.symbol)
                missing = lasts >> number & 1 == 1 if atom.end else None
                times = feed.buffers.end[found[:, number]] if atom.end else starts[atom.symbol]
                arrays.append(self._times(times, missing, kind))
            elif isinstance(atom, MatchMoment):
                moment = feed.events.time[row] if atom.name == DETECTED_AT else np.min(list(starts.values()), axis=0)
                arrays.append(self._times(moment, None, kind))
            elif isinstance(atom, PlaceExists):
                arrays.append(pa.array(np.ones(len(found), np.bool_)))
            else:
                arrays.append(values[name])
        cast = [
            array if array.type == one.type else array.cast(one.type)
            for array, one in zip(arrays, self.schema, strict=True)
        ]
        matches = pa.Table.from_arrays(cast, schema=self.schema)
        return with_keys(matches, feed.keys[group]) if self.keyed else matches

    def _results(self, symbol: Symbol, columns: list[pa.Array], index: np.ndarray) -> dict[str, pa.Array]:
        """The atoms of a symbol, from their state columns."""
        values = {}
        at = 0
        for atom, name in symbol.atoms:
            width = len(state_fields(atom, name, self.input_schema))
            taken = [column.take(pa.array(index)) for column in columns[at : at + width]]
            values[name] = result(atom, taken, self.schema.field(name).type)
            at += width
        return values

    def _times(self, times: np.ndarray, missing: np.ndarray | None, kind: pa.DataType) -> pa.Array:
        """Images of event times as values of the time column's type."""
        if pa.types.is_date32(kind):
            return pa.array((times // DAY).astype(np.int32), mask=missing).cast(pa.int32()).view(kind)
        array = pa.array(times, mask=missing)
        return array.cast(kind) if is_integer(self.plan.time_type) else array.view(kind)
