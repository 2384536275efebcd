"""The one pattern of a query that is sized, bound to a table in process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from episode.errors import EpisodeUnsupportedError
from episode.lang.statement import TablePattern, parse_statement
from episode.lang.table_patterns import TableQuery
from episode.matchers.projection import Derivation
from episode.matchers.protocol import MatcherSpec
from episode.matchers.spark_types import retyped
from episode.plan.event_time import EventTime
from episode.plan.types import is_event_time
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.queries.local import local_schema
from episode.queries.options import Options

ONE_PATTERN = "Sizing is of one pattern over one table: MATCH_RECOGNIZE, EVENTS ( … ), SITUATIONS ( … ), or one alone."
WITHOUT = "Without --sample and --columns it is sized by the stored constants of its language."


@dataclass(frozen=True)
class SizedQuery:
    """A parsed pattern. names: of its table, which may stand before columns."""

    query: object
    names: tuple[str, ...] = ()

    @property
    def language(self) -> str:
        return language_of(self.query).name


@dataclass(frozen=True)
class BoundQuery:
    """A pattern over a table. table: the columns that it reads, derived ones too. within: in units of event time; time:
    the column of that, where rows are in its order."""

    spec: MatcherSpec
    table: pa.Table
    within: int | None
    time: EventTime | None

    @property
    def units_per_second(self) -> int:
        return 1000 * self.time.units_per_millisecond if self.time is not None else 1


def read_pattern(text: str) -> SizedQuery:
    """The pattern in a statement, or a pattern alone."""
    statement = parse_statement(text)
    if statement.whole is not None:
        return SizedQuery(statement.whole)
    every: list[TablePattern | TableQuery] = [*statement.patterns, *statement.tables]
    if len(every) != 1 or statement.windowed:
        found = "a correlation" if statement.recencies else "row patterns in windows" if statement.windowed else None
        number = found or ("no pattern" if not every else f"{len(every)} patterns")
        verb = "are" if number.endswith(("patterns", "windows")) else "is"
        raise EpisodeUnsupportedError(f"There {verb} {number} in this query.", hint=ONE_PATTERN)
    one = every[0]
    if isinstance(one, TablePattern):
        return SizedQuery(one.query, tuple(name for name in (one.alias or one.name,) if name))
    return SizedQuery(one.query)


def bound_to(
    query: SizedQuery, table: pa.Table, given: Given, arguments: Mapping[str, object] | None = None
) -> BoundQuery:
    """Plan the pattern for a table."""
    language = language_of(query.query)
    table = retyped(table)
    values = dict(arguments or {})
    schema = local_schema(table.schema, language.source(query.query), values)
    try:
        bound = language.bind(query.query, Input(schema, query.names), given, Options().run(1, values))
    except EpisodeUnsupportedError as error:
        error.hint = f"{error.hint or ''} {WITHOUT}".strip()
        raise
    table = Derivation.compile(bound.derived, table.schema, values)(table)
    spec = bound.spec(table.schema)
    plan = bound.plan
    types = {**schema.columns, **plan.types}
    times = [one for one in plan.order[:1] if one.ascending and is_event_time(types[one.column])]
    time = EventTime(times[0].column, types[times[0].column]) if times else None
    return BoundQuery(spec, table.select(list(spec.input_columns)), plan.within, time)
