"""Syntax trees of row patterns: immutable, with the place in the query they came from.

Scalar expressions keep the user's own text. What episode evaluates inside them (navigation, aggregates,
columns of labels) is lifted out as an *atom* and a placeholder name stands in the text instead, so that
Spark sees the rest exactly as written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union


@dataclass(frozen=True)
class Span:
    """Half-open range of offsets in the query text."""

    start: int
    end: int


NOWHERE = Span(0, 0)


# ---- patterns -------------------------------------------------------------------------------------


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


# ---- scalar expressions ---------------------------------------------------------------------------


class Mode(str, Enum):
    """RUNNING: rows of the match up to the current row; FINAL: all rows of the match."""

    RUNNING = "RUNNING"
    FINAL = "FINAL"


@dataclass(frozen=True)
class ColumnRef:
    """`A.price` or `price`; label None means any label. `path` is the column and its struct fields, as written."""

    label: str | None
    path: tuple[str, ...]
    span: Span = field(default=NOWHERE, compare=False)


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


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over the rows of a label. `function` is lower case.

    count(*) has no arguments and star_label None; count(A.*) has star_label 'A'.
    """

    function: str
    arguments: tuple[Scalar, ...]
    star: bool
    star_label: str | None
    mode: Mode | None
    span: Span = field(default=NOWHERE, compare=False)


Atom = Union[ColumnRef, Classifier, MatchNumber, Navigation, Aggregate]


@dataclass(frozen=True)
class Scalar:
    """A scalar Spark SQL expression.

    text: the user's text with every atom replaced by its placeholder `__episode_<n>`.
    tree: `text` parsed by sqlglot (Spark dialect); placeholders are plain unqualified columns in it.
    atoms: atom of each placeholder, in order of appearance.
    """

    text: str
    tree: Any = field(compare=False, repr=False)
    atoms: tuple[tuple[str, Atom], ...]
    original: str = ""
    span: Span = field(default=NOWHERE, compare=False)


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
    column: ColumnRef
    ascending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Measure:
    expression: Scalar
    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True)
class Duration:
    """`WITHIN`: microseconds for calendar units, or a plain number (`unit` None) for integer time."""

    amount: int
    unit: str | None
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

    partition_by: tuple[ColumnRef, ...]
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
    source: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False)
    skip_span: Span = field(default=NOWHERE, compare=False)
    pattern_span: Span = field(default=NOWHERE, compare=False)
    rows_span: Span = field(default=NOWHERE, compare=False)
    mode_span: Span = field(default=NOWHERE, compare=False)
