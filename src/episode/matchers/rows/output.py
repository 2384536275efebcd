"""From matches as the kernel found them to tables of output columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import Matches, PathLabels, output_tables
from episode.matchers.prepare import Prepared
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.state import Here
from episode.matchers.rows.work import WorkArrays
from episode.plan.rows.plan import MatchMode, RowPatternPlan


class Output:
    """Makes the tables of a matcher's matches."""

    def __init__(self, plan: RowPatternPlan, label_of: np.ndarray, schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        excluded = np.array([instruction.excluded for instruction in plan.program.instructions], np.bool_)
        self.path = PathLabels(label_of, excluded)
        self.keyed = False

    def tables(self, events: EventBatch, prepared: Prepared, work: WorkArrays, here: Here) -> Iterator[pa.Table]:
        """What the kernel has found, as rows, in tables of bounded size."""
        matches = self._in_order(work, here)
        if self.keyed:
            matches = replace(matches, key=events.key[matches.part_lo])
        yield from output_tables(self.plan, self.schema, self.path, events.table, prepared, matches)

    def _in_order(self, work: WorkArrays, here: Here) -> Matches:
        """By partition, and there by start row; INCREMENTAL MATCH: by number, which is the order of end rows."""
        kind, start, length, number, path_from, path = work.matches()
        part = np.searchsorted(here.lo, start, side="right") - 1
        if self.plan.rules.mode is MatchMode.INCREMENTAL:
            order = np.lexsort((number, part))
            kind, start, length, number, path_from, part = (
                array[order] for array in (kind, start, length, number, path_from, part)
            )
        return Matches(kind, start, length, number, path_from, path, here.lo[part], here.hi[part])
