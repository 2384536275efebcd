"""The plan, the spec and the matcher of `EVERY n ROWS`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import KEY_COLUMN, EventBatch, InputOrder, OrderKey, Snapshot, StateChunk, Traits
from episode.plan.pattern import PatternPlan


@dataclass(frozen=True, kw_only=True)
class EveryPlan(PatternPlan):
    """number: which rows of a key are matches."""

    number: int


@dataclass(frozen=True)
class EverySpec:
    plan: EveryPlan
    input_schema: pa.Schema

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def input_order(self) -> InputOrder:
        return InputOrder(self.plan.keys, tuple(OrderKey(one.column) for one in self.plan.order), needs_time=True)

    @property
    def output_schema(self) -> pa.Schema:
        atoms = self.plan.measures.atoms
        return pa.schema([self.input_schema.field(atom.column).with_name(name) for atom, name in atoms.items()])

    @property
    def fingerprint(self) -> str:
        return f"every {self.plan.number}"

    @property
    def traits(self) -> Traits:
        return Traits()

    def open(self) -> EveryMatcher:
        return EveryMatcher(self)


class EveryMatcher:
    """Counts the rows of each key."""

    keyed = False
    state_rows = given_up = 0
    wakes_at = None

    def __init__(self, spec: EverySpec) -> None:
        self.spec, self.counts = spec, Counter[int]()

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        rows = []
        for row, key in enumerate(events.key.tolist()):
            self.counts[key] += 1
            if self.counts[key] % self.spec.plan.number == 0:
                rows.append(row)
        found = events.table.take(pa.array(rows, pa.int64()))
        columns = [found.column(atom.column) for atom in self.spec.plan.measures.atoms]
        table = pa.Table.from_arrays(columns, schema=self.spec.output_schema)
        yield table.append_column(KEY_COLUMN, pa.array(events.key[rows])) if self.keyed else table

    def finish(self) -> Iterator[pa.Table]:
        return iter(())

    def snapshot(self) -> Snapshot:
        return Snapshot((StateChunk("counts", 1, json.dumps(list(self.counts.items())).encode()),))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.counts.update(dict(json.loads(chunks[0].data)))

    @property
    def live_keys(self) -> np.ndarray:
        return np.array(sorted(self.counts), np.int64)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        return self.live_keys, np.zeros(len(self.counts), np.int64)
