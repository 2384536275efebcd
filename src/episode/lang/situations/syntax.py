"""Syntax trees of situation patterns (`DEFINE … PATTERN … WITHIN … RETURN …`): immutable, with their places."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Union, cast

from episode.lang.situations.allen import Relation
from episode.lang.syntax import NOWHERE, Duration, ReturnItem, RowKey, Scalar, Source, Span


@dataclass(frozen=True)
class SituationColumn:
    """A column of the event, with its struct fields, as written; the qualifier is removed.

    In DEFINE it is the event at hand, inside an aggregate each event of the aggregate's situation.
    """

    path: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class SituationAggregate:
    """An aggregate over the events of one situation, in RETURN.

    function: first_value, last_value, count, sum, avg, min, max or stddev_samp, synonyms resolved as in row patterns.
    arguments: one scalar whose atoms are SituationColumns; `count(A)`, `count(A.*)` count events: no arguments.
    """

    symbol: str
    function: str
    arguments: tuple[Scalar, ...]
    span: Span = field(default=NOWHERE, compare=False)


class Moment(str, Enum):
    """A value of the interval of a situation, for RETURN."""

    START = "start"
    END = "end"
    DURATION = "duration"


@dataclass(frozen=True)
class SituationTime:
    """`A.start`, `A.end` or `A.duration` in RETURN."""

    symbol: str
    what: Moment
    span: Span = field(default=NOWHERE, compare=False)


SituationAtom = Union[SituationColumn, SituationAggregate, SituationTime]


def situation_atoms(scalar: Scalar) -> tuple[SituationAtom, ...]:
    """The atoms of a scalar of a situation pattern, in order of appearance."""
    return tuple(cast(SituationAtom, atom) for _, atom in scalar.atoms)


@dataclass(frozen=True)
class SituationDefinition:
    """`A AS condition [AT LEAST d | AT MOST d | BETWEEN d AND d]`: the atoms of the condition are SituationColumns."""

    symbol: str
    condition: Scalar
    at_least: Duration | None = None
    at_most: Duration | None = None
    span: Span = field(default=NOWHERE, compare=False)
    symbol_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Constraint:
    """The relations that `left` may have to `right`: the alternatives of one pair, turned to the first one's direction.

    relations: without duplicates, in the order of the enum. Several constraints may be about the same pair.
    """

    left: str
    right: str
    relations: tuple[Relation, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class SituationInput:
    """`FROM table [[AS] alias] [PARTITION BY …] [ORDER BY time]` before DEFINE; all may be left out.

    expressions: of the keys that are not plain columns, with their names.
    """

    table: str | None = None
    alias: str | None = None
    table_span: Span = field(default=NOWHERE, compare=False)
    partition_by: tuple[str, ...] = ()
    time: str | None = None
    expressions: tuple[RowKey, ...] = ()


@dataclass(frozen=True)
class SituationQuery:
    """The query as written; its columns are not resolved yet.

    definitions: in the order of DEFINE, each used in a constraint; symbols elsewhere are spelt as here.
    returns: None without RETURN.
    """

    definitions: tuple[SituationDefinition, ...]
    constraints: tuple[Constraint, ...]
    within: Duration | None = None
    returns: tuple[ReturnItem, ...] | None = None
    input: SituationInput = SituationInput()
    source: Source = field(default=Source(), compare=False, repr=False)
    define_span: Span = field(default=NOWHERE, compare=False)
    return_span: Span = field(default=NOWHERE, compare=False)

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(definition.symbol for definition in self.definitions)

    def components(self) -> tuple[tuple[str, ...], ...]:
        """Symbols that constraints connect, directly or over others: one tuple if the pattern is connected."""
        group = {symbol: number for number, symbol in enumerate(self.symbols)}
        for constraint in self.constraints:
            old, new = group[constraint.right], group[constraint.left]
            group = {symbol: new if number == old else number for symbol, number in group.items()}
        numbers = dict.fromkeys(group.values())
        return tuple(tuple(symbol for symbol in self.symbols if group[symbol] == number) for number in numbers)
