"""Syntax that all languages share: places in the query, scalar expressions, durations, output columns.

Trees are immutable and know the place in the query they came from. Scalar expressions keep the user's own text. What
episode evaluates inside them (columns, navigation, aggregates) is lifted out as an *atom* and replaced in the text by a
placeholder name, so that Spark sees the rest exactly as written. Each language has its own atoms; columns and
aggregates of labels are here, because all languages are planned in terms of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar, cast

from episode.errors import EpisodeError


@dataclass(frozen=True)
class Span:
    """Half-open range of offsets in the query text."""

    start: int
    end: int

    def covers(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end

    @property
    def beginning(self) -> Span:
        """The first character alone."""
        return Span(self.start, self.start)


NOWHERE = Span(0, 0)


class Cover:
    """The places that some spans cover, which may overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for span in sorted(spans, key=lambda one: one.start):
            if self._ends and span.start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], span.end)
            else:
                self._starts.append(span.start)
                self._ends.append(span.end)

    def __contains__(self, place: int) -> bool:
        at = bisect_right(self._starts, place) - 1
        return at >= 0 and place < self._ends[at]


class Atom(Protocol):
    """A part of a scalar expression that episode evaluates."""

    @property
    def span(self) -> Span: ...


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

    @property
    def only_atom(self) -> Atom | None:
        """The atom that is all of the expression, if it is nothing more."""
        return self.atoms[0][1] if len(self.atoms) == 1 and self.text.strip() == self.atoms[0][0] else None

    @property
    def plain_original(self) -> str:
        """The user's text on one line."""
        return " ".join(self.original.split())


@dataclass(frozen=True)
class RowKey:
    """A key that rows are partitioned or ordered by: a scalar over the columns of one row.

    name: of its output column; None: Spark's name for the expression.
    """

    expression: Scalar
    name: str | None = None

    @property
    def column(self) -> ColumnRef | None:
        """The column that it is, if it is nothing more."""
        return cast("ColumnRef | None", self.expression.only_atom)

    @property
    def span(self) -> Span:
        return self.expression.span


@dataclass(frozen=True)
class Duration:
    """`WITHIN` and the like: microseconds for calendar units, or a plain number (`unit` None) for integer time.

    parameter: the name of the parameter that gives it, which the planner binds.
    """

    amount: int
    unit: str | None
    span: Span = field(default=NOWHERE, compare=False)
    parameter: str | None = None


@dataclass(frozen=True)
class Star:
    """A `*` of SELECT that stands for columns of FROM. excepted: where the list of its EXCEPT begins, if it has one."""

    span: Span
    excepted: int | None

    @property
    def place(self) -> Span:
        """The place at which columns are taken out of it: the star itself, or the beginning of the list."""
        return self.span if self.excepted is None else Span(self.excepted, self.excepted)

    def without(self, columns: str) -> str:
        """The text at its place that takes columns out."""
        return f"* EXCEPT ({columns})" if self.excepted is None else f"{columns}, "


@dataclass(frozen=True)
class ReturnItem:
    """One output column. Its name is the alias; else the attribute or variable, if it is one alone; else its text."""

    expression: Scalar
    name: str
    span: Span = field(default=NOWHERE, compare=False)


Kind = TypeVar("Kind", bound=EpisodeError)


@dataclass(frozen=True)
class Source:
    """span: the whole query or clause inside the text. pattern: the contents of its PATTERN."""

    text: str = ""
    span: Span = NOWHERE
    pattern: Span = NOWHERE

    def text_at(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def error(self, kind: type[Kind], message: str, span: Span | None = None, hint: str | None = None) -> Kind:
        """An error of a kind that shows its place, by default where the query begins."""
        place = self.span.beginning if span is None else span
        return kind(message, source=self.text, position=place.start, length=place.end - place.start, hint=hint)

    def locate(self, error: Kind, span: Span) -> Kind:
        error.source, error.position, error.length = self.text, span.start, max(1, span.end - span.start)
        return error
