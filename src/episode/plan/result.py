"""The columns of a result: what the matcher delivers, and what is computed around its values."""

from __future__ import annotations

from dataclasses import dataclass

from episode.lang.source import Source
from episode.plan.output import MeasurePlan, PlannedMeasure


@dataclass(frozen=True)
class Result:
    """What comes out: columns of the matcher, and around its values the expressions that are finished outside of it.

    measures: all that is computed from values of the match; `columns` of them come out, between the matcher's own
    columns `before` and `after`, for the matches for which `conditions` hold. what: what one is called in an error,
    before its text or name.
    """

    source: Source
    measures: MeasurePlan
    columns: tuple[PlannedMeasure, ...]
    conditions: tuple[PlannedMeasure, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    what: str = ""

    def name_of(self, measure: PlannedMeasure) -> str:
        return f"{self.what}{measure.name}" if self.what else measure.original
