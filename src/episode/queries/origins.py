"""Origins of matches: the patterns of a query, each with the events that it was planned over.

On Spark, the origin is noted on the DataFrame that a query returns, so that plots, reports and explanations need no
second copy of the query. DataFrames that Spark derives from it (`filter`, `select`) have no such note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from episode.errors import EpisodeAnalysisError
from episode.lang.syntax import Source
from episode.queries.language import Given, Input, Language
from episode.queries.languages import language_of
from episode.queries.planning import PatternEvents
from episode.words import count_of, plural

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from episode.matchers.protocol import MatcherSpec
    from episode.plan.correlation.pairs import PairPlan
    from episode.plan.options import RunOptions
    from episode.plan.pattern import PatternPlan
    from episode.plan.schema import EventTable, InputSchema
    from episode.spark.query import Planned

_NOTE = "_episode_origin"


@dataclass(frozen=True)
class LocalEvents:
    """The events of one pattern in this process. schema: as the pattern is bound to it. names: of their table."""

    table: pa.Table
    schema: InputSchema
    given: Given = field(default_factory=Given)
    names: tuple[str, ...] = ()
    tables: ClassVar[Mapping[str, EventTable]] = {}

    def input(self, query: object, run: RunOptions) -> Input:
        return Input(self.schema, self.names)


@dataclass(frozen=True)
class InProcessRun:
    """A pattern planned for this process. spec: of its matcher. rows: of its input."""

    pattern: PatternPlan | PairPlan
    spec: MatcherSpec
    rows: int

    @property
    def run(self) -> InProcessRun:
        return self

    @property
    def reasons(self) -> list[str]:
        return [f"in process: {count_of(self.rows, 'row')} of a table in memory, matched in one pass"]


@dataclass(frozen=True)
class PlacedPattern:
    """One pattern of a query. events: those it was planned over; of a correlation, first those of the live pattern."""

    query: Any
    events: tuple[PatternEvents, ...]
    planned: Planned
    run: RunOptions

    @property
    def language(self) -> Language[Any]:
        return language_of(self.query)

    @property
    def source(self) -> Source:
        return self.language.source(self.query)


@dataclass(frozen=True)
class LocalPattern(PlacedPattern):
    """One pattern of a query in this process."""

    events: tuple[LocalEvents, ...]  # type: ignore[assignment]  # what is only for Spark does not look here
    planned: InProcessRun  # type: ignore[assignment]


@dataclass(frozen=True)
class QueryOrigin:
    """A query that was planned. text: as it was written. spark: None, if it was planned in this process. patterns:
    those in it, in the order of their places. no_patterns: the reason, if the query has no patterns."""

    text: str
    spark: SparkSession | None
    patterns: tuple[PlacedPattern, ...]
    no_patterns: str = ""

    def pattern(self, number: int | None = None) -> PlacedPattern:
        """The pattern that is meant: the only one, or by its number from 1 on."""
        count = len(self.patterns)
        if number is None and count == 1:
            return self.patterns[0]
        if number is None or isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
            given = "" if number is None else f"pattern={number!r}: "
            hint = f"Choose one: pattern=1{'' if count == 1 else f' … {count}'}, in the order of the text."
            raise EpisodeAnalysisError(f"{given}the query has {count} {plural(count, 'pattern')}.", hint=hint)
        return self.patterns[number - 1]


def remember(frame: DataFrame, origin: QueryOrigin) -> DataFrame:
    """The DataFrame, with a note of where it comes from."""
    if origin.patterns:
        frame.__dict__[_NOTE] = origin
    return frame


def origin_of(frame: object) -> QueryOrigin:
    """Return the origin of a DataFrame, or an origin itself; raise an error if it is not known."""
    if isinstance(frame, QueryOrigin):
        return frame
    found = getattr(frame, "__dict__", {}).get(_NOTE)
    if not isinstance(found, QueryOrigin):
        what = "this DataFrame" if hasattr(frame, "sparkSession") else f"a {type(frame).__name__}"
        hint = "Give the DataFrame that episode.sql, match or correlate returned, before any filter or select."
        raise EpisodeAnalysisError(f"The query of {what} is not known.", hint=hint)
    return found


def patterns_of(frame: object) -> tuple[PlacedPattern, ...]:
    """The patterns of a DataFrame's query; none where it has none, or is not known."""
    found = getattr(frame, "__dict__", {}).get(_NOTE)
    return found.patterns if isinstance(found, QueryOrigin) else ()
