"""What is known of the situations of one symbol between two feeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.columns import take
from episode.matchers.held import KeptRows
from episode.matchers.protocol import EventBatch
from episode.matchers.situations.values import state_fields, symbol_of
from episode.plan.output import OutputAtom
from episode.plan.situations.plan import SituationPlan

START, SEEN, KEY = "__start", "__seen", "__key"


@dataclass
class Symbol:
    """The situations of one symbol, with the state of their aggregates.

    number: of the symbol in the plan. atoms: what is asked of its situations, and the name of the output column.
    fields: the state columns of the atoms.
    finished: rows sorted by key and start; `time` is the end, the table has the start and the state columns.
    lasting: a row for each key whose situation lasts, sorted by key: start, was it visible, and state columns.
    """

    number: int
    atoms: tuple[tuple[OutputAtom, str], ...]
    fields: tuple[pa.Field, ...]
    finished: EventBatch
    lasting: pa.Table
    kept: KeptRows

    @property
    def lasting_key(self) -> np.ndarray:
        return integers(self.lasting, KEY)

    def keep_finished(self, rows: np.ndarray) -> None:
        """Of the finished situations, only these."""
        old = self.finished
        self.kept.select(rows)
        self.finished = EventBatch(take(old.table, rows), old.key[rows], old.time[rows])


def nothing_of(plan: SituationPlan, number: int, schema: pa.Schema) -> Symbol:
    """A symbol without situations, over events of the given schema."""
    symbol = plan.symbols[number]
    atoms = tuple((atom, name) for atom, name in plan.measures.atoms.items() if symbol_of(atom) == symbol)
    fields = tuple(one for atom, name in atoms for one in state_fields(atom, name, schema))
    finished = pa.schema([pa.field(START, pa.int64()), *fields]).empty_table()
    lasting = [pa.field(KEY, pa.int64()), pa.field(START, pa.int64()), pa.field(SEEN, pa.bool_()), *fields]
    nothing = np.zeros(0, np.int64)
    kept = KeptRows(f"finished.{number}.")
    return Symbol(
        number, atoms, fields, EventBatch(finished, nothing, nothing), pa.schema(lasting).empty_table(), kept
    )  # fmt: skip


def integers(table: pa.Table, name: str) -> np.ndarray:
    return np.array(table.column(name), dtype=np.int64)
