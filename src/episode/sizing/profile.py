"""Costs of a query for each row of its input, on one core: measured on data, or taken from stored constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from episode.errors import EpisodeUnsupportedError
from episode.lang.statement import parse_statement
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import Derivation
from episode.matchers.protocol import MatcherSpec
from episode.matchers.spark_types import to_spark_types
from episode.plan.event_time import EventTime
from episode.plan.options import Options
from episode.plan.types import is_event_time
from episode.queries.bound_statement import BoundStatement, OnePattern, StatementPattern
from episode.queries.language import Given, Input
from episode.queries.local import local_schema
from episode.sizing.constants import Constants

SIZING = OnePattern(
    "a query that is sized",
    "cannot be sized",
    "Sizing is of one pattern over one table: MATCH_RECOGNIZE, EVENTS ( … ), SITUATIONS ( … ), or one alone.",
)
WITHOUT = "Without --sample and --columns it is sized by the stored constants of its language."


@dataclass(frozen=True)
class BoundSample:
    """A pattern bound to a table in process. table: the columns that it reads, including derived ones. within: in units
    of event time; time: the event time, if rows are in its order."""

    spec: MatcherSpec
    table: pa.Table
    within: int | None
    time: EventTime | None

    @property
    def units_per_second(self) -> int:
        return 1000 * self.time.units_per_millisecond if self.time is not None else 1


def read_pattern(text: str) -> StatementPattern:
    """Parse the pattern in a statement, or a pattern alone."""
    return BoundStatement.of(parse_statement(text)).only(SIZING)


def bind_to(
    pattern: StatementPattern, table: pa.Table, given: Given, arguments: Mapping[str, object] | None = None
) -> BoundSample:
    """Plan the pattern for a table."""
    table = to_spark_types(table)
    values = dict(arguments or {})
    schema = local_schema(table.schema, pattern.source, values)
    try:
        plan = pattern.language.bind(pattern.query, Input(schema, pattern.names), given, Options().run(1, values))
    except EpisodeUnsupportedError as error:
        error.hint = f"{error.hint or ''} {WITHOUT}".strip()
        raise
    table = Derivation.compile(plan.derived, table.schema, values)(table)
    spec = matcher_spec(plan, table.schema)
    types = {**schema.columns, **plan.types}
    times = [one for one in plan.order[:1] if one.ascending and is_event_time(types[one.column])]
    time = EventTime(times[0].column, types[times[0].column]) if times else None
    return BoundSample(spec, table.select(list(spec.input_columns)), plan.within, time)


ROWS, EVENTS, SITUATIONS = "row pattern", "event pattern", "situation pattern"
MATCH = {ROWS: "match_rows", EVENTS: "match_events", SITUATIONS: "match_situations"}
"""The constant for the matching of a query that was not measured, by language."""


@dataclass(frozen=True)
class HeldPerKey:
    """Rows that a matcher holds of a key.

    rows: of a key, at the rate of the sample. in_window: rows of a key that came within the window there. elasticity:
    growth of the held rows with those in the window: 1: in proportion, 0: none. bytes: of a held row in a snapshot.
    measured: if False, all rows of the window are assumed to be held, which is the maximum.
    """

    rows: float
    in_window: float
    elasticity: float
    bytes: float
    measured: bool

    def of_key(self, in_window: float) -> float:
        """Rows held of a key with `in_window` rows in the window."""
        if not self.measured:
            return in_window
        grown = self.rows * (in_window / self.in_window) ** self.elasticity if self.in_window else self.rows
        return min(grown, in_window)


@dataclass(frozen=True)
class QueryProfile:
    """Nanoseconds of a core for each row, and sizes.

    rows: number of measured rows; 0: not measured. scan, pack: for each row that is read (pack: with the screen).
    passing: the share of rows that are moved. order, match: for each row that is moved; order: with opening envelopes.
    envelope_bytes: of a row that is moved; wire_share: the share that LZ4, Spark's shuffle, leaves of it. matches: for
    each row that is read. hottest: the share of the key with the most rows, of `keys` keys. bounded: whether the length
    of a match is bounded, by time or by rows. within: seconds that a match may take, by the query.
    """

    language: str
    origin: str
    rows: int
    row_bytes: float
    scan: float
    pack: float
    passing: float
    envelope_bytes: float
    wire_share: float
    order: float
    match: float
    matches: float
    held: HeldPerKey
    hottest: float | None = None
    keys: int = 1
    keyed: bool = True
    bounded: bool = True
    within: float | None = None


def assumed_profile(language: str, constants: Constants, origin: str) -> QueryProfile:
    """The profile of a query that was not measured: the tick query's, with the matching of its language's example."""
    row_bytes = constants["row_bytes"]
    return QueryProfile(
        language=language,
        origin=origin,
        rows=0,
        row_bytes=row_bytes,
        scan=constants["scan"] * row_bytes,
        pack=constants["pack"],
        passing=1.0,
        envelope_bytes=constants["envelope_bytes"],
        wire_share=constants["wire_share"],
        order=constants["order"],
        match=constants[MATCH[language]],
        matches=constants["matches"],
        held=HeldPerKey(0.0, 0.0, 1.0, constants["state_bytes"], measured=False),
    )
