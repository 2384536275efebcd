"""Syntax trees of event patterns (`PATTERN … WHERE … WITHIN … RETURN …`): immutable, with their place in the query.

Both concrete syntaxes give one tree: ZStream's `A; !B; C*; D` and SASE's `SEQ(A a, ~B b, C+ c[], D d)`. They differ in
the meaning of a closure, and a Closure holds which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Union, cast

from episode.lang.syntax import NOWHERE, Duration, ReturnItem, RowKey, Scalar, Source, Span


class Strategy(str, Enum):
    """Event selection: the events that a match may pass over."""

    STRICT = "strict-contiguity"
    PARTITION = "partition-contiguity"
    NEXT = "skip-till-next-match"
    ANY = "skip-till-any-match"


@dataclass(frozen=True)
class EventClass:
    """One event. `variable` is what conditions call it: the name given, else the name of the class.

    others: further classes that it may be of, where planning has made one of several alternatives.
    """

    name: str
    variable: str
    span: Span = field(default=NOWHERE, compare=False)
    variable_span: Span = field(default=NOWHERE, compare=False)
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.others)


@dataclass(frozen=True)
class Sequence:
    """`A; B; C` or `SEQ(A, B, C)`: each part begins strictly after the part before it has ended."""

    parts: tuple[EventPattern, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Conjunction:
    """`A & B`: all parts, in any order."""

    parts: tuple[EventPattern, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Disjunction:
    """`A | B`, or `SEQ(…) U SEQ(…)`: one of the parts."""

    parts: tuple[EventPattern, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Negation:
    """`!A` or `~A`: no such event (or sub-pattern) between the neighbours."""

    part: EventPattern
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Closure:
    """`A*` (minimum 0), `A+` (minimum 1), `A^n` (minimum and count n).

    groups: ZStream's meaning (outside SEQ): `*` and `+` take all qualifying events between the neighbours,
    `^n` every run of n successive ones. Otherwise SASE's meaning (inside SEQ): every choice of events, in order.
    """

    part: EventPattern
    minimum: int
    count: int | None
    groups: bool
    span: Span = field(default=NOWHERE, compare=False)


EventPattern = Union[EventClass, Sequence, Conjunction, Disjunction, Negation, Closure]


def children(pattern: EventPattern) -> tuple[EventPattern, ...]:
    if isinstance(pattern, EventClass):
        return ()
    return (pattern.part,) if isinstance(pattern, (Negation, Closure)) else pattern.parts


def nodes_of(pattern: EventPattern) -> Iterator[EventPattern]:
    """The pattern and all parts of it, from the outside in."""
    yield pattern
    for part in children(pattern):
        yield from nodes_of(part)


def classes_of(pattern: EventPattern) -> Iterator[EventClass]:
    """Iterate over all classes of a pattern, also negated ones, in order of appearance."""
    if isinstance(pattern, EventClass):
        yield pattern
    for part in children(pattern):
        yield from classes_of(part)


class Index(str, Enum):
    """The event of a variable that a column refers to.

    PLAIN: `a.x`, no brackets. EACH: `b[i].x`. BACK: `b[i-k].x`. AT: `b[k].x`, counted from 1. LAST: `b[last].x`.
    ALL: `b[].x`.
    """

    PLAIN = "plain"
    EACH = "i"
    BACK = "i-k"
    AT = "k"
    LAST = "last"
    ALL = "all"


@dataclass(frozen=True)
class EventColumn:
    """An attribute of an event of a variable; `path` is the column and its struct fields, as written.

    number: the k of BACK and AT, else 0.
    """

    variable: str
    index: Index
    number: int
    path: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


class Reach(str, Enum):
    """The events of a variable that an aggregate covers.

    ALL: `sum(b[].x)`, `sum(b.x)`. BEFORE: `max(b[..i-1].x)` or `max(b[1..i-1].x)`. CURRENT: `max(b[..i].x)`.
    """

    ALL = "all"
    BEFORE = "before"
    CURRENT = "current"


@dataclass(frozen=True)
class EventAggregate:
    """An aggregate over the events of one variable. `function` is lower case, synonyms resolved as in row patterns.

    arguments: scalars whose atoms are EventColumns of that variable with Index.PLAIN. `count(b[])`, `count(b)` and
    `count(b.*)` count events: no arguments.
    """

    function: str
    variable: str
    reach: Reach
    arguments: tuple[Scalar, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class WholeEvent:
    """`a` or `b[]` in RETURN: the event as a struct, the events of a closure as an array of structs.

    index: PLAIN, ALL (`b[]`), AT (`b[2]`) or LAST.
    """

    variable: str
    index: Index
    number: int
    span: Span = field(default=NOWHERE, compare=False)


EventAtom = Union[EventColumn, EventAggregate, WholeEvent]


def event_atoms(scalar: Scalar) -> tuple[EventAtom, ...]:
    """The atoms of a scalar of an event pattern, in order of appearance."""
    return tuple(cast(EventAtom, atom) for _, atom in scalar.atoms)


# ---- aggregates over all matches ---------------------------------------------------------------------


@dataclass(frozen=True)
class MatchCount:
    """`count(*)` in AGGREGATE: the number of matches."""

    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class GroupAttribute:
    """`a.symbol [AS name]` after GROUP BY."""

    column: EventColumn
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class MatchAggregates:
    """`AGGREGATE items [GROUP BY attributes] [EVERY duration]`. Atoms of items are EventAggregates and MatchCounts."""

    items: tuple[ReturnItem, ...]
    group_by: tuple[GroupAttribute, ...] = ()
    every: Duration | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class SameAttribute:
    """`[attr]`: equal in all events of the match, also those of closures and negations."""

    path: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Interval:
    """`TIME BETWEEN lo AND hi [PROBABILITIES p] [GRANULARITY d] [WIDTH d]`: imprecise time, between two columns.

    probabilities: the column with an array of them, one for each possible time. granularity: from one possible time to
    the next. width: the longest interval that an event may have.
    """

    lo: str
    hi: str
    probabilities: str | None = None
    granularity: Duration | None = None
    width: Duration | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Confidence:
    """`CONFIDENCE >= value`, or the name of the parameter that gives it. clause: where all of it stands."""

    value: float
    span: Span = field(default=NOWHERE, compare=False)
    parameter: str | None = None
    clause: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class EventInput:
    """`FROM table [PARTITION BY …] [ORDER BY time] [START BY column] [TIME BETWEEN …] [TYPE BY column]` before PATTERN,
    in SQL; all may be left out.

    expressions: of the keys that are not plain columns, with their names. start: where events last, the column of their
    start; time is their end.
    """

    table: str | None = None
    table_span: Span = field(default=NOWHERE, compare=False)
    partition_by: tuple[str, ...] = ()
    time: str | None = None
    type_column: str | None = None
    type_span: Span = field(default=NOWHERE, compare=False)
    start: str | None = None
    interval: Interval | None = None
    expressions: tuple[RowKey, ...] = ()


@dataclass(frozen=True)
class EventQuery:
    """The query as written; nothing is resolved yet.

    conditions: the conjuncts of WHERE, chained equalities (`a.x = b.x = c.x`) split into pairs, percentages as numbers.
    returns: None without RETURN: every event that is not negated, as structs. collapsed: the place at which RETURN asks
    for intermediate matches.
    aggregate: AGGREGATE in RETURN's place: aggregates over all matches.
    """

    pattern: EventPattern
    conditions: tuple[Scalar, ...]
    same: tuple[SameAttribute, ...]
    strategy: Strategy | None
    within: Duration | None
    returns: tuple[ReturnItem, ...] | None
    input: EventInput = EventInput()
    source: Source = field(default=Source(), compare=False, repr=False)
    strategy_span: Span = field(default=NOWHERE, compare=False)
    collapsed: Span | None = None
    aggregate: MatchAggregates | None = None
    confidence: Confidence | None = None
