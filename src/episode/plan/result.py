"""The columns of a result: what the matcher delivers, and what is computed around its values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from episode.lang.lexer import Kind, tokenize
from episode.lang.source import Source
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.syntax import Span
from episode.plan.output import MeasurePlan, PlannedMeasure
from episode.plan.schema import quote


def tree_of(sql: str) -> exp.Expression:
    """An expression that a plan has written, parsed."""
    return read_expression(sql, tokenize(sql)[:-1])


@dataclass(frozen=True)
class Computed:
    """A scalar expression over the columns of a table. tree: None if only Spark can read it.

    original, source, span: how it is written, and where, if the user wrote it.
    """

    tree: exp.Expression | None
    original: str = ""
    source: Source | None = None
    span: Span | None = None

    @staticmethod
    def of(sql: str, original: str = "", source: Source | None = None, span: Span | None = None) -> Computed:
        """An expression that a plan has written as SQL."""
        try:
            return Computed(tree_of(sql), original or sql, source, span)
        except Unreadable:
            return Computed(None, original or sql, source, span)


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

    @property
    def outputs(self) -> list[PlannedMeasure]:
        """All columns that come out, over those of the matcher."""
        before, after = (
            [PlannedMeasure(name, quote(name), name, self.source.span.beginning) for name in names]
            for names in (self.before, self.after)
        )
        return [*before, *self.columns, *after]

    def computed(self, measure: PlannedMeasure) -> Computed:
        """A measure, or a condition, over the matcher's columns."""
        return Computed.of(measure.sql, measure.original, self.source, measure.span)

    def values(self, wanted: Collection[str]) -> frozenset[str]:
        """The matcher's columns of which the columns with these names (in small letters) are made, and others that
        their expressions mention."""
        texts = [measure.sql for measure in self.columns if measure.name.lower() in wanted]
        texts += [condition.sql for condition in self.conditions]
        named = (token.identifier for sql in texts for token in tokenize(sql) if token.kind in (Kind.NAME, Kind.QUOTED))
        return frozenset((*(name for name in (*self.before, *self.after) if name.lower() in wanted), *named))
