"""A rule as one of many: whatever its language, its matches are a key, two times, and its own columns as JSON.

What Spark computes around a single query's matcher is computed here: rules come and go while Spark's plan stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import pyarrow as pa

from episode.errors import EpisodeDataError, EpisodeError, kind_of
from episode.matchers.protocol import KEY_COLUMN, EventBatch, Matcher, MatcherSpec
from episode.matchers.quarantine import Feed
from episode.plan.pattern import CarriedReport

# Errors that name their rule.


def of_rule(error: EpisodeError, rule: str) -> EpisodeError:
    """The error of one rule among many."""
    message = f"Rule {rule}: {error.message}"
    return kind_of(error)(message, source=error.source, position=error.position, length=error.length, hint=error.hint)


# What the matchers of a set of rules have done, for `explain`.


@dataclass
class RuleSetReport(CarriedReport):
    """conditions: how often one was evaluated, tested: over how many rows in all. rows: those that rules were fed,
    feeds: in how many batches. skipped: how often a rule was not fed, as none of its rows were there. opened: rules
    with a matcher. prefixes: how often the events of a prefix of several rules were found for all of them."""

    rules: int
    events: int = 0
    batches: int = 0
    conditions: int = 0
    tested: int = 0
    rows: int = 0
    feeds: int = 0
    skipped: int = 0
    opened: int = 0
    prefixes: int = 0

    def count_batch(self, events: int, conditions: int, tested: int) -> None:
        self.events += events
        self.batches += 1
        self.conditions += conditions
        self.tested += tested

    @staticmethod
    def total(reports: list[RuleSetReport]) -> RuleSetReport:
        total = RuleSetReport(max((one.rules for one in reports), default=0))
        for one in reports:
            for name in ("events", "batches", "conditions", "tested", "rows", "feeds", "skipped", "prefixes"):
                setattr(total, name, getattr(total, name) + getattr(one, name))
            total.opened = max(total.opened, one.opened)
        return total


# The columns in which the matches of all rules are returned.
#
# Each rule puts its i-th value of a type into the i-th column of that type, so that there are only the
# columns that the widest rules need, not those of all rules together.

RULE_COLUMN = "__episode_rule"
"""The number of the rule that a match is of."""
POOLED = "__episode_value_"


class Pool:
    """Columns by type. Fields with other metadata are of other types: the metadata hold Spark's type."""

    def __init__(self) -> None:
        self._places: dict[tuple[pa.DataType, tuple[tuple[bytes, bytes], ...]], list[pa.Field]] = {}
        self._fields: list[pa.Field] = []

    def take(self, schema: pa.Schema, first: Sequence[str] = ()) -> tuple[str, ...]:
        """The columns that hold values of this schema, in its order. first: columns that are given theirs before the
        others, so that they are the same in many rules."""
        taken: dict[object, int] = {}
        names: dict[str, str] = {}
        for one in [*(schema.field(name) for name in first), *(one for one in schema if one.name not in first)]:
            kind = one.type, tuple(sorted((one.metadata or {}).items()))
            places = self._places.setdefault(kind, [])
            at = taken.get(kind, 0)
            if at == len(places):
                places.append(one.with_name(f"{POOLED}{len(self._fields)}").with_nullable(True))
                self._fields.append(places[-1])
            taken[kind] = at + 1
            names[one.name] = places[at].name
        return tuple(names[one.name] for one in schema)

    @property
    def schema(self) -> pa.Schema:
        """The number of the rule, and all columns."""
        return pa.schema([pa.field(RULE_COLUMN, pa.int32(), nullable=False), *self._fields])


def pool_matches(matches: pa.Table, number: int, columns: Sequence[str], schema: pa.Schema, keyed: bool) -> pa.Table:
    count = matches.num_rows
    own = {name: matches.column(at) for at, name in enumerate(columns)}
    arrays: list[pa.Array | pa.ChunkedArray] = [pa.repeat(pa.scalar(number, pa.int32()), count)]
    for one in list(schema)[1:]:
        column = own.get(one.name)
        arrays.append(pa.nulls(count, one.type) if column is None else column.cast(one.type))
    table = pa.Table.from_arrays(arrays, schema=schema)
    return table.append_column(KEY_COLUMN, matches.column(KEY_COLUMN)) if keyed else table


# Changes of a rule set that is at work: what is added, replaced and removed, as data that travel with the events.

FORMAT = 1


@dataclass(frozen=True)
class RuleChange:
    """One change of a rule set: a rule's text from now on; None: the rule is removed.

    number: changes are numbered in the order in which they were made; the number is also the version of the rule.
    """

    number: int
    name: str
    text: str | None

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)

    @staticmethod
    def from_json(written: str) -> RuleChange:
        fields = json.loads(written)
        if fields.pop("format", None) != FORMAT:
            raise EpisodeDataError(
                f"A change of a rule is not of format {FORMAT}, which this version reads.",
                hint="Run it with the version that wrote the rule log.",
            )
        return RuleChange(**fields)


@dataclass(frozen=True)
class Effect:
    """When a change took effect: for events after this time, in units of event time (None: for all events).

    query: Spark's id of the streaming query. Every query that reads a rule log takes its changes in its own time.
    """

    number: int
    after: int | None
    query: str


@dataclass(frozen=True)
class Failure:
    """A rule that has failed on data of a shard. keys: the number of keys it is disabled for; until, reason: up to when
    the first of them was matched, and why it failed."""

    number: int
    name: str
    keys: int
    until: int
    reason: str


MATCH_START, MATCH_END, RESULT = "match_start", "match_end", "result"
Computing = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class RuleSpec:
    """A planned rule: the spec of its pattern, and what is computed before and after it.

    derives: the names of columns that `derive` adds to events, for the pattern to read. finish: from the matcher's
    tables the keys, match_start, match_end and result of matches, some of which may be left out; output_schema: of
    these. result_schema: of what the result is made of.
    """

    inner: MatcherSpec
    derives: tuple[str, ...]
    derive: Computing
    finish: Computing
    output_schema: pa.Schema
    result_schema: pa.Schema


@dataclass(frozen=True)
class RuleFeed(Feed):
    """A feed of the matcher of a rule's pattern, with what the rule computes before and after it."""

    rule: RuleSpec

    def into(self, matcher: Matcher) -> Iterator[pa.Table]:
        for table in Feed(self._read(), self.until, self.final, self.done).into(matcher):
            with _errors_of_data():
                finished = self.rule.finish(table)
            if finished.num_rows:
                yield finished

    def _read(self) -> EventBatch:
        """Return the events with the columns that the pattern reads."""
        events = self.events
        columns = self.rule.inner.input_columns or tuple(events.table.column_names[:1])
        if not self.rule.derives:
            return events.select(columns)
        with _errors_of_data():
            return EventBatch(self.rule.derive(events.table).select(columns), events.key, events.time)


@contextmanager
def _errors_of_data() -> Iterator[None]:
    """Raise what Arrow refuses to compute as an error of the data."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise EpisodeDataError(f"A value of the rule cannot be computed: {error}") from None
