"""Interface of a pattern language: its name, the options it uses, and how its queries become plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, Union

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.syntax import Scalar, Source, Span
from episode.plan.options import Detect, RunOptions
from episode.plan.output import Extent
from episode.plan.pattern import PatternPlan
from episode.plan.schema import EventTable, InputSchema, key_columns
from episode.plan.sections import Section

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.lang.events.syntax import EventInput
    from episode.lang.situations.syntax import SituationInput
    from episode.lang.table_patterns import TableLanguage
    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.plan.correlation.pairs import PairPlan
    from episode.queries.languages.class_names import Rows
    from episode.see.inspecting import Inspected
    from episode.see.pictures.choosing import Wish
    from episode.see.pictures.look import Look
    from episode.see.reasons.finding import Expectation, Finding


class PlacedQuery(Protocol):
    """A parsed query."""

    @property
    def source(self) -> Source: ...


Query = TypeVar("Query", bound=PlacedQuery)
LIVE, ARCHIVE = "live", "archive"
"""Roles of two correlated patterns."""

Length = Union[str, int, timedelta]
"""A duration: a text, a timedelta, or a number where event time is one."""


@dataclass(frozen=True)
class Given:
    """Arguments of `match` that describe the events of a pattern. interval: `time`, if that is a pair of columns."""

    time: str | None = None
    start: str | None = None
    key: tuple[str, ...] = ()
    type_column: str | None = None
    strategy: str | None = None
    detect: Detect | None = None
    interval: tuple[str, str] | None = None
    granularity: Length | None = None
    probabilities: str | None = None
    interval_width: Length | None = None


@dataclass(frozen=True)
class Input:
    """The events of a pattern. names: of their table, which may qualify columns. tables: if each class has a table, the
    part that each of them has in the stream."""

    schema: InputSchema
    names: tuple[str, ...] = ()
    tables: Mapping[str, EventTable] = field(default_factory=dict)


class Language(ABC, Generic[Query]):
    """One kind of patterns: what code that is for all languages asks of each.

    syntax, plans: the classes of its parsed queries and of their plans. name: what patterns of it are. called: how a
    message speaks of the one in the query. options: names of public options that it uses and other languages may not.
    arguments: those of `match` that it uses. times: the measures that hold the start and the end of a match that is
    correlated with others. method: of DataFrames, for patterns of it alone.
    grammar: what reads its patterns, if `lang` does not know the language.
    """

    syntax: ClassVar[type]
    plans: ClassVar[tuple[type[PatternPlan | PairPlan], ...]]
    name: ClassVar[str]
    called: ClassVar[str]
    options: ClassVar[frozenset[str]] = frozenset()
    arguments: ClassVar[frozenset[str]] = frozenset()
    times: ClassVar[tuple[str, str]]
    method: ClassVar[str | None] = None
    grammar: ClassVar[TableLanguage | None] = None

    @property
    def one(self) -> str:
        """One pattern of it, with its article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def source(self, query: Query) -> Source:
        """The text that the query is in, and its place there."""
        return query.source

    @abstractmethod
    def bind(self, query: Query, events: Input, given: Given, run: RunOptions) -> PatternPlan:
        """Bind a query to its input, check it, choose how it is evaluated."""

    @abstractmethod
    def spec(self, plan: Any, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        """Return what workers open matchers from, for input columns of an Arrow schema. limit: of the rows held for a
        key."""

    @abstractmethod
    def section(self, plan: Any, reports: Sequence[str] | None = None, query: Query | None = None) -> Section:
        """Build the section of `explain`. reports: of a run (JSON). query: to draw what the plan no longer has."""

    def table(self, query: Query) -> tuple[str, Span] | None:
        """The table of all events that the query itself names, and where it does."""
        return None

    def classes(self, query: Query) -> dict[str, Span]:
        """Return the classes that have a table each, and their places, if the query names no table of all events."""
        return {}

    def unite(self, query: Query, schemas: Mapping[str, InputSchema], given: Given) -> dict[str, EventTable]:
        """The parts that the tables of classes have in one stream of events."""
        raise NotImplementedError  # asked only of a language with `classes`

    def check_given_events(self, query: Query) -> None:
        """Raise an error if the query names a table though its events are given (in `match`)."""
        return

    def warn_of_rows(self, query: Query, given: Given, rows: Rows) -> None:
        """Warn of names in the query that do not fit the values of its input."""
        return

    def with_extent(self, plan: Any) -> tuple[PatternPlan, Extent]:
        """Return a plan that also delivers keys and times of matches, and where: for one among many rules."""
        raise NotImplementedError  # asked only of a language of rules

    def no_extent(self, plan: Any) -> str | None:
        """Return why matches have no key and no times, if they have none."""
        return None

    def rule_arguments(self, query: Query, given: Given) -> Given:
        """Return the arguments of a rule set that this rule does not set itself."""
        return Given()

    def conditions(self, query: Query) -> list[Scalar]:
        """Return what the query tests."""
        return []

    def expand(self, query: Query) -> tuple[Query, dict[str, bool]]:
        """Return the query over events that have their variables already, and these: is each a closure?"""
        hint = "Give it the text of the pattern."
        raise EpisodeAnalysisError("expand is for event patterns, whose results can be collapsed.", hint=hint)

    def sides(self, query: Query) -> tuple[tuple[str | None, Any], ...]:
        """Return the patterns that have their own matches, with their roles if they are correlated."""
        return ((None, query),)

    def reasons(self, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
        """Find the reasons for a missing match."""
        raise inspected.placed.source.error(EpisodeUnsupportedError, f"why_not cannot answer for {self.one}.")

    def look(self, sides: tuple[Inspected, ...], wish: Wish, zone: str) -> Look:
        """Return what a picture shows of the matches. zone: the clock that times are shown by."""
        source = sides[0].placed.source
        message = f"{self.called[0].upper()}{self.called[1:]} is not drawn."
        hint = "Write the pattern as MATCH_RECOGNIZE, and plot its result."
        raise source.error(EpisodeUnsupportedError, message, source.pattern, hint)

    def role(self, query: Query) -> str | None:
        """Return the role that the query declares in a correlation, LIVE or ARCHIVE; None if it may have either."""
        return None

    def check_correlated(self, query: Query, role: str) -> None:
        """Raise an error with the remedy if the query cannot have this role in a correlation."""
        return

    def check_arguments(self, given: Given) -> None:
        """Each argument of `match` that was given must have a meaning."""
        for one in fields(given):
            value = getattr(given, one.name)
            if value != one.default and one.name not in self.arguments:
                name = "time" if one.name == "interval" else one.name
                raise EpisodeAnalysisError(f"{name}={value!r} has no meaning for {self.one}.")


def keys_of_input(schema: InputSchema, own: EventInput | SituationInput, given: Given) -> tuple[str, ...]:
    """Return the columns of the key: those of the call, or else those of the pattern's own clauses."""
    return key_columns(schema, given.key) if given.key else key_columns(schema, own.partition_by, own.expressions)


def given_for_input(own: EventInput | SituationInput, given: Given) -> Given:
    """Return the given time and key, without those that the pattern's own clauses set."""
    return Given(time=None if own.time is not None else given.time, key=() if own.partition_by else given.key)
