"""Syntax trees of row patterns in windows: immutable, with the places in the statement that they came from.

A `WindowedSelect` is one SELECT with calls over windows that have a row pattern. It has a `PatternWindow` for each of
these windows, which says how rows get their matches (`clause`, `frame`, `search`), and what is asked of the match of
each row (`calls`). docs/reference-windows.md says what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Union

from episode.lang.rows.syntax import MatchRecognize
from episode.lang.source import Source
from episode.lang.syntax import NOWHERE, Scalar, Span

# ---- a window -------------------------------------------------------------------------------------------


class Search(str, Enum):
    """Where the match of a row may begin: at the row alone, or at the first row of its frame that matches."""

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
class WindowStar:
    """A `*` that stands for columns of FROM. excepted: where the list of its EXCEPT begins, if it has one."""

    span: Span
    excepted: int | None


@dataclass(frozen=True)
class Naming:
    """An item of SELECT without a name of its own: it ends here, and its column is to be called this."""

    position: int
    name: str


@dataclass(frozen=True)
class WindowedSelect:
    """One SELECT with row patterns in windows.

    span: from SELECT to its end. windows: those that are called. tables: what stands in FROM; condition: of WHERE, if
    any; from_where: the two with their words; rows: the same without FROM. alias, name: of the table, where it has
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
    stars: tuple[WindowStar, ...] = ()

    @property
    def calls(self) -> tuple[WindowCall, ...]:
        """All calls, window by window."""
        return tuple(call for window in self.windows for call in window.calls)
