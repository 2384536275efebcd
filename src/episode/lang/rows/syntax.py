"""Syntax trees of row patterns: immutable, with the place in the query they came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Union, cast

from episode.lang.syntax import NOWHERE, Aggregate, Atom, ColumnRef, Duration, Mode, RowKey, Scalar, Source, Span, Star


@dataclass(frozen=True)
class Label:
    """One row that satisfies the label's condition. `name` is upper case unless it was quoted."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Empty:
    """`()`: the empty match."""


@dataclass(frozen=True)
class Anchor:
    """`^` (partition start) or `$` (partition end)."""

    at_start: bool


@dataclass(frozen=True)
class Concatenation:
    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class Alternation:
    """Alternatives, most preferred first."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class Quantified:
    """`part{minimum, maximum}`; maximum None is unbounded."""

    part: Pattern
    minimum: int
    maximum: int | None
    greedy: bool = True


@dataclass(frozen=True)
class Permutation:
    """PERMUTE(parts): every order of the parts, lexicographic by their place in the list."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True)
class Exclusion:
    """`{- part -}`: rows matched inside are hidden from ALL ROWS output."""

    part: Pattern


Pattern = Union[Label, Empty, Anchor, Concatenation, Alternation, Quantified, Permutation, Exclusion]


def nodes_of(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and all parts of it, from the outside in."""
    yield pattern
    inside: tuple[Pattern, ...] = getattr(pattern, "parts", ())
    for part in (pattern.part,) if isinstance(pattern, (Quantified, Exclusion)) else inside:
        yield from nodes_of(part)


@dataclass(frozen=True)
class Classifier:
    """CLASSIFIER() or CLASSIFIER(label)."""

    label: str | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class MatchNumber:
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Navigation:
    """PREV/NEXT(FIRST/LAST(argument, logical_offset), …).

    logical: 'FIRST' or 'LAST' among the rows of the argument's label; plain `PREV(A.x)` has LAST, 0.
    physical_offset: rows to move afterwards: negative for PREV, positive for NEXT, 0 for neither.
    argument: a scalar whose atoms are ColumnRef, Classifier or MatchNumber, all of one label.
    """

    argument: Scalar
    logical: str
    logical_offset: int
    physical_offset: int
    mode: Mode | None
    span: Span = field(default=NOWHERE, compare=False)


RowAtom = Union[ColumnRef, Classifier, MatchNumber, Navigation, Aggregate]


def arguments_of(atom: Atom) -> tuple[Scalar, ...]:
    """The scalars inside an atom of a row pattern."""
    if isinstance(atom, Navigation):
        return (atom.argument,)
    return atom.arguments if isinstance(atom, Aggregate) else ()


def scalars_of(scalars: Iterable[Scalar]) -> Iterator[Scalar]:
    """The scalars and those inside them."""
    for scalar in scalars:
        yield scalar
        for _, atom in scalar.atoms:
            yield from scalars_of(arguments_of(atom))


def row_atoms(scalar: Scalar) -> dict[str, RowAtom]:
    """The atoms of a scalar of a row pattern by placeholder, in order of appearance."""
    return {name: cast(RowAtom, atom) for name, atom in scalar.atoms}


# ---- the clause -----------------------------------------------------------------------------------


class RowsPerMatch(str, Enum):
    ONE_ROW = "ONE ROW PER MATCH"
    ALL_SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


class SkipTo(str, Enum):
    PAST_LAST_ROW = "PAST LAST ROW"
    NEXT_ROW = "TO NEXT ROW"
    FIRST_LABEL = "TO FIRST"
    LAST_LABEL = "TO LAST"


class MatchMode(str, Enum):
    PREFERRED = "PREFERRED"
    MAXIMAL = "MAXIMAL MATCH"
    INCREMENTAL = "INCREMENTAL MATCH"
    ALL = "ALL MATCHES"


@dataclass(frozen=True)
class OrderItem:
    key: RowKey
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Measure:
    expression: Scalar
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Subset:
    name: str
    labels: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Definition:
    label: str
    condition: Scalar
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class MatchRecognize:
    """The clause, as written. Names of labels are normalised; nothing is resolved yet.

    timed_out: where EMIT TIMED OUT MATCHES stands, if it does.
    """

    partition_by: tuple[RowKey, ...]
    order_by: tuple[OrderItem, ...]
    measures: tuple[Measure, ...]
    rows_per_match: RowsPerMatch
    skip_to: SkipTo
    skip_label: str | None
    match_mode: MatchMode
    pattern: Pattern
    within: Duration | None
    timed_out: Span | None
    subsets: tuple[Subset, ...]
    definitions: tuple[Definition, ...]
    source: Source = field(default=Source(), compare=False, repr=False)
    skip_span: Span = field(default=NOWHERE, compare=False)
    rows_span: Span = field(default=NOWHERE, compare=False)
    mode_span: Span = field(default=NOWHERE, compare=False)


# Syntax trees of row patterns in windows: immutable, with the places in the statement that they came from.
#
# A `WindowedSelect` is one SELECT with calls over windows that have a row pattern. It has a `PatternWindow` for each of
# these windows: how rows get their matches (`clause`, `frame`, `search`), and the values asked of the match of each row
# (`calls`). docs/reference-windows.md explains their meaning.


# ---- a window -------------------------------------------------------------------------------------------


class Search(str, Enum):
    """The start of the match of a row: the row alone, or the first row of its frame that matches."""

    INITIAL = "INITIAL"
    SEEK = "SEEK"


@dataclass(frozen=True)
class Frame:
    """`ROWS BETWEEN CURRENT ROW AND …`: the rows in which the match of the current row lies, the full frame.

    following: how many rows after the current one; 0 is CURRENT ROW, None is UNBOUNDED FOLLOWING.
    bound: the expression that gives it, which the planner evaluates.
    """

    following: int | None
    bound: Scalar | None = None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class MeasureCall:
    """`measure OVER w`. measure: the name of one of the clause's measures, as MEASURES writes it.

    column: the output column of the window that holds the value. span: of the call, with OVER and what follows it.
    """

    measure: str
    column: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class FunctionCall:
    """`sum(x) OVER w`: a function over the reduced frame, all rows of the match.

    expression: nothing but one atom, an Aggregate or a Navigation (FIRST or LAST, with the offset of nth_value), whose
    columns have no label. column, span: as of a MeasureCall.
    """

    expression: Scalar
    column: str
    span: Span = field(default=NOWHERE, compare=False)


WindowCall = Union[MeasureCall, FunctionCall]


@dataclass(frozen=True)
class PatternWindow:
    """One window with a row pattern.

    clause: PARTITION BY, ORDER BY, MEASURES, AFTER MATCH SKIP, PATTERN, SUBSET and DEFINE, as of MATCH_RECOGNIZE. Its
    rows_per_match is ONE ROW (measures are over the whole match), its match mode PREFERRED, and it has no WITHIN.
    calls: what is asked of it, in the order of the statement.
    """

    clause: MatchRecognize
    frame: Frame
    search: Search
    calls: tuple[WindowCall, ...] = ()

    @property
    def source(self) -> Source:
        return self.clause.source


# ---- the SELECT around windows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Naming:
    """The end of an item of SELECT without an alias, and the name for its column."""

    position: int
    name: str


@dataclass(frozen=True)
class WindowedSelect:
    """One SELECT with row patterns in windows.

    span: from SELECT to its end. windows: those that are called. tables: the contents of FROM; condition: of WHERE, if
    any; from_where: the two with their words; rows: the same without FROM. alias, name: of the table, if it has
    them; plain: it is a name of one part and at most an alias. definitions: the WINDOW clause, and kept: those windows
    in it that are Spark's. items: SELECT's list. namings: of those items that have calls and no name. stars: all that
    mean columns of FROM.
    """

    span: Span
    items: Span
    tables: Span
    condition: Span | None
    from_where: Span
    rows: Span
    alias: str | None
    name: str | None
    plain: bool
    windows: tuple[PatternWindow, ...]
    definitions: Span | None = None
    kept: tuple[Span, ...] = ()
    namings: tuple[Naming, ...] = ()
    stars: tuple[Star, ...] = ()

    @property
    def calls(self) -> tuple[WindowCall, ...]:
        return tuple(call for window in self.windows for call in window.calls)
