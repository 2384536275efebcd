"""Syntax trees of correlations: immutable, with the places in the statement that they came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union

from episode.lang.syntax import Duration, Source, Span, Star


@dataclass(frozen=True)
class CorrelatedTable:
    """One of the two patterns in FROM.

    span: of the pattern. alias: its name in the statement, and new names for its columns, if given. naming: where these
    stand, with AS (an empty span if they do not).
    """

    span: Span
    alias: str | None
    naming: Span
    columns: tuple[str, ...] = ()


Operand = Union[tuple[str, ...], int, float]
"""A path of names, as written, or a number."""


@dataclass(frozen=True)
class Equality:
    """`l.symbol = a.symbol`, a conjunct: two paths of names, as written."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class ColumnComparison:
    """A conjunct. text: as written. left, right: two sides of `left sign right`, paths of names or numbers; sign: None
    if it is anything else."""

    text: str
    left: Operand = ()
    sign: str | None = None
    right: Operand = ()


@dataclass(frozen=True)
class Recency:
    """`RECENCY = 7 seconds [ORDERED]` over the two patterns of a FROM.

    tables: in the order in which they stand. span: from the first pattern to the end of ON or WHERE. place: where
    RECENCY itself stands. conditions: those of ON and WHERE, in pieces between which RECENCY stood; all of them hold.
    equalities: conjuncts that make two columns equal. comparisons: all conjuncts. stars: of the SELECT.
    """

    source: Source
    tables: tuple[CorrelatedTable, CorrelatedTable]
    duration: Duration
    ordered: bool
    span: Span
    place: Span
    conditions: tuple[Span, ...] = ()
    equalities: tuple[Equality, ...] = ()
    comparisons: tuple[ColumnComparison, ...] = ()
    stars: tuple[Star, ...] = ()


@dataclass(frozen=True)
class Correlation:
    """Two parsed patterns, of any language, that are correlated by recency.

    equalities: conjuncts of the condition that make two columns equal; comparisons: all of its conjuncts. names: of the
    live and the archive pattern, which may qualify their columns. columns: new names of these, if given.
    """

    live: Any
    archive: Any
    duration: Duration
    ordered: bool = False
    equalities: tuple[Equality, ...] = ()
    comparisons: tuple[ColumnComparison, ...] = ()
    source: Source = field(default=Source(), compare=False, repr=False)
    names: tuple[str | None, str | None] = (None, None)
    columns: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
