"""The columns of a result: what the matcher delivers, and what is computed around its values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from episode.lang.lexer import Kind, tokenize
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

    def values(self, wanted: Collection[str]) -> frozenset[str]:
        """The matcher's columns of which the columns with these names (in small letters) are made, and others that
        their expressions mention."""
        texts = [measure.sql for measure in self.columns if measure.name.lower() in wanted]
        texts += [condition.sql for condition in self.conditions]
        named = (token.identifier for sql in texts for token in tokenize(sql) if token.kind in (Kind.NAME, Kind.QUOTED))
        return frozenset((*(name for name in (*self.before, *self.after) if name.lower() in wanted), *named))
