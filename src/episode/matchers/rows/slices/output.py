"""The matches that a slice of time owns, of all that were found in its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows
from episode.matchers.rows.output import RowOutput
from episode.matchers.rows.slices.overlap import owned_by_end
from episode.matchers.slicing import SliceBounds
from episode.plan.rows.plan import RowPatternPlan


class OwnedOutput(RowOutput):
    """Makes the tables of the matches of one slice."""

    def __init__(self, plan: RowPatternPlan, label_of: np.ndarray, schema: pa.Schema, bounds: SliceBounds) -> None:
        super().__init__(plan, label_of, schema)
        self.bounds = bounds
        self._by_end = owned_by_end(plan)

    def wanted(self, matches: MatchRows, part: np.ndarray, time: np.ndarray) -> tuple[MatchRows, np.ndarray]:
        decisive = matches.start + matches.length - 1 if self._by_end else matches.start
        owned = np.flatnonzero(self.bounds.owns(time[decisive]))
        return selected(matches, owned), part[owned]


def selected(matches: MatchRows, which: np.ndarray) -> MatchRows:
    """Some of the matches, in the order of their numbers here."""
    names = ("kind", "start", "length", "number", "path_from", "part_lo", "part_hi")
    return replace(matches, **{name: getattr(matches, name)[which] for name in names})
