"""The plan of a correlation: two planned patterns, their joint input, and the conditions on pairs of matches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Union

from episode.errors import EpisodeAnalysisError
from episode.lang.correlation.syntax import Correlation, Equality, Operand
from episode.lang.syntax import Duration, Source
from episode.plan.correlation.inputs import JointInput
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX, CorrelationPlan
from episode.plan.event_time import UNBOUNDED, Delays, EventTime, plain_values, widest
from episode.plan.output import MATCH_END, MATCH_START, ColumnAtPlace
from episode.plan.pattern import PatternPlan
from episode.plan.schema import OWN, quote
from episode.plan.types import INTEGERS

SIDE_COLUMN = f"{OWN}side"
"""The input column with the number of a row's side."""
LIVE_ROW, ARCHIVE_ROW, ROW_OF_BOTH = 1, 2, 3
"""Its values: what an event is an event of."""


# Conditions over pairs that the join tests itself, so that pairs that fail are never built.

Value = Union[str, int, float]
"""A column of a pair, with the prefix of its side, or a number."""

DOUBLE = "double"
TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})
_MOST_EXACT = 1 << 53


@dataclass(frozen=True)
class PairTest:
    """`left sign right`, of numbers or times. A pair is left out if this certainly does not hold: if it is false, or a
    value is null. (Most conditions on NaN are left to the query around the pair.) text: as written."""

    left: Value
    sign: str
    right: Value
    text: str


@dataclass(frozen=True)
class PairColumns:
    """The output of one pattern. names: of its columns. values: of those that are values of an input column, by name in
    lower case: the column of the matcher, and the type."""

    names: tuple[str, ...]
    values: Mapping[str, tuple[str, str]]


def pair_tests(
    query: Correlation, sides: tuple[PairColumns, PairColumns], keys: Collection[Equality]
) -> list[PairTest | str]:
    """The conjuncts of the condition: those that the join tests, and the text of those that are tested after it. Those
    that make keys equal are left out."""
    found: list[PairTest | str] = []
    equal = [(one.left, one.right) for one in keys]
    for one in query.comparisons:
        if one.sign == "=" and (one.left, one.right) in equal:
            continue
        left, right = (None if one.sign is None else _value(side, query, sides) for side in (one.left, one.right))
        if one.sign is None or left is None or right is None or not _comparable(left, right):
            found.append(one.text)
        else:
            found.append(PairTest(left[0], one.sign, right[0], one.text))
    return found


def _comparable(left: tuple[Value, str], right: tuple[Value, str]) -> bool:
    """Is this comparison the same for Spark and for the join?"""
    columns = [kind for value, kind in (left, right) if isinstance(value, str)]
    numbers = [value for value, _ in (left, right) if not isinstance(value, str)]
    if not columns or (numbers and columns[0] in TIMES):
        return False
    if numbers and isinstance(numbers[0], float):
        return columns[0] == DOUBLE
    kinds = {*columns}
    return kinds <= {*INTEGERS, DOUBLE} or (len(kinds) == 1 and kinds <= TIMES)


def _value(operand: Operand, query: Correlation, sides: tuple[PairColumns, PairColumns]) -> tuple[Value, str] | None:
    """Return the value of an operand and its type; None if it may be something else than a column or number."""
    if not isinstance(operand, tuple):
        return (operand, "") if abs(operand) < _MOST_EXACT else None
    meant: list[tuple[Value, str] | None] = []
    for number, (prefix, side) in enumerate(zip((LIVE_PREFIX, ARCHIVE_PREFIX), sides, strict=True)):
        name = pattern_column(operand, query, number, side.names)
        if name is not None:
            value = side.values.get(name)
            meant.append(None if value is None else (prefix + value[0], value[1]))
    return meant[0] if len(meant) == 1 else None


def pattern_column(path: tuple[str, ...], query: Correlation, number: int, names: Sequence[str]) -> str | None:
    """The column of a pattern (0: live, 1: archive) that a path may mean, in lower case; names: of its columns."""
    alias = query.names[number]
    if len(path) > 2 or (len(path) == 2 and (alias is None or path[0].lower() != alias.lower())):
        return None
    if path[-1].lower() in (MATCH_START, MATCH_END) and len(path) == 1:  # may be those of the pair
        return None
    known = {new.lower(): old.lower() for new, old in zip(query.columns[number] or tuple(names), names, strict=False)}
    return known.get(path[-1].lower())


@dataclass(frozen=True)
class PairSide:
    """One of the patterns. start, end: measures that hold the times of a match, and the matcher's columns of them."""

    plan: PatternPlan
    start: tuple[str, str]
    end: tuple[str, str]

    @staticmethod
    def of(plan: PatternPlan, times: tuple[str, str]) -> PairSide:
        """A planned pattern. times: the measures with the start and the end of a match."""
        columns = {name: plan.measures.atoms[atom] for name, atom in plain_values(plan.measures)}
        start, end = times
        return PairSide(plan, (start, columns[start]), (end, columns[end]))

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.plan.result.outputs]

    @property
    def partition_columns(self) -> dict[str, str]:
        """Columns of its output that have the value of a partition column, by lower-cased name."""
        found = {name.lower(): name for name in self.plan.result.before if name in self.plan.keys}
        found |= {name.lower(): column for column, name in self.plan.output.leading if column in self.plan.keys}
        for name, atom in plain_values(self.plan.measures):
            if isinstance(atom, ColumnAtPlace) and atom.column in self.plan.keys:
                found[name.lower()] = atom.column
        return found

    @property
    def pair_columns(self) -> PairColumns:
        """Its columns as conditions on pairs see them."""
        atoms = self.plan.measures.atoms
        values = {
            name.lower(): (atoms[atom], self.plan.types[atom.column])
            for name, atom in plain_values(self.plan.measures)
            if isinstance(atom, ColumnAtPlace)
        }
        return PairColumns(tuple(self.names), values)

    def delay(self, which: tuple[str, str]) -> int | None:
        """Return how long after its start or its end a match may be reported."""
        return self.plan.delays().get(which[0], UNBOUNDED)


@dataclass(frozen=True)
class PairPlan:
    """Two patterns over their inputs, and their correlation. conditions: on pairs: those that the join tests, and
    those, as written, that are tested after it. history: what workers read of the archive's events as they need them;
    closed: are these all of them?"""

    live_side: PairSide
    archive_side: PairSide
    inputs: JointInput
    recency: int
    duration: Duration
    source: Source
    plan: CorrelationPlan
    conditions: tuple[PairTest | str, ...] = ()
    history: object | None = None
    closed: bool = False

    def check_buffer(self) -> PairPlan:
        """Refuse a recent buffer if what it does not hold cannot be read again."""
        if self.plan.recent_buffer is not None and (self.history is None or self.closed):
            raise EpisodeAnalysisError(
                f"Tuning(recent_buffer={self.plan.recent_buffer}): older rows are read from an archive, and there is "
                "none here.",
                hint="It is for a declared stream with its archive. Leave it out: what recency needs is kept.",
            )
        return self

    @property
    def archive_columns(self) -> dict[str, str]:
        """The columns of the archive's table by those of the input; not those that are computed."""
        quoted = {quote(name): name for name, _ in self.inputs.archive.columns}
        return {outer: quoted[sql] for sql, outer in self.inputs.archive.selections if sql in quoted}

    @property
    def live(self) -> PatternPlan:
        return self.live_side.plan

    @property
    def archive(self) -> PatternPlan:
        return self.archive_side.plan

    @property
    def shared(self) -> bool:
        """Is every row of the input an event of both?"""
        return self.inputs.shared

    @property
    def selections(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """(SQL, column of the input) over the table of either pattern, if rows are events of one of them."""
        return self.inputs.live.selections, self.inputs.archive.selections

    @property
    def input_columns(self) -> tuple[str, ...]:
        return (*self.inputs.columns, *(() if self.inputs.shared else (SIDE_COLUMN,)))

    @property
    def derived(self) -> tuple[tuple[str, str], ...]:
        """(SQL, name) of input columns that are computed before matching."""
        if not self.inputs.shared:
            return ()
        return tuple((sql, name) for sql, name in self.inputs.selections if sql != quote(name))

    def event_time(self, limited: bool) -> EventTime:
        for plan in (self.live, self.archive):
            plan.event_time(limited)
        return EventTime(self.inputs.time, self.live.types[self.live.order[0].column])

    def delays(self) -> Delays:
        """A pair is reported when both matches are certain, and the archive's ends before the live one. In order, it
        also waits for all matches that come before it."""
        live, archive = self.live_side, self.archive_side
        ends = [live.delay(live.end), archive.delay(archive.end)]
        waited = widest([*ends, archive.delay(archive.start)] if self.plan.ordered else ends)
        if waited is UNBOUNDED:
            return {MATCH_START: UNBOUNDED, MATCH_END: UNBOUNDED}
        late = waited + (self.recency if self.plan.ordered else 0)
        return {MATCH_START: late + self.recency, MATCH_END: late}


def equal_keys(query: Correlation, sides: tuple[PairSide, PairSide]) -> dict[Equality, tuple[str, str]]:
    """Conjuncts that make partition columns equal, and these, of the live and the archive pattern."""
    found: dict[Equality, tuple[str, str]] = {}
    for equality in query.equalities:
        one, other = (_resolve(query, path, sides) for path in (equality.left, equality.right))
        if one is not None and other is not None and one[0] != other[0]:
            pair = sorted((one, other))
            found[equality] = pair[0][1], pair[1][1]
    return found


def _resolve(query: Correlation, path: tuple[str, ...], sides: tuple[PairSide, PairSide]) -> tuple[int, str] | None:
    """The side and the partition column of it that a name in the condition means, if it means one for sure."""
    meant = []
    for number, side in enumerate(sides):
        name = pattern_column(path, query, number, side.names)
        if name is not None:
            meant.append((number, side.partition_columns.get(name)))
    if len(meant) != 1 or meant[0][1] is None:
        return None
    return meant[0][0], meant[0][1]
