"""The oracle for row patterns in windows: slow, obvious Python written straight from docs/reference-windows.md.

`evaluate(window, rows, columns=[...])` gives every row of the input with the values of the window's calls. What a
pattern means from one start row inside one frame is the oracle of MATCH_RECOGNIZE (`row_patterns`), which is given the
rows of the full frame and no others: so nothing beyond the frame is seen, neither by the match nor by PREV and NEXT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from episode.errors import EpisodeDataError
from episode.lang.rows.syntax import FunctionCall, MeasureCall, PatternWindow, Search, SkipTo
from tests.reference.row_patterns import Path, Row, _Budget, _members, _ordered, _partitions, _Paths, _Table, _View
from tests.reference.scalars import fail


@dataclass(frozen=True)
class Match:
    """The match of a row. start: counted from the row whose match it is. A path without steps is the empty match."""

    start: int
    path: Path


def evaluate(window: PatternWindow, rows: list[Row], *, columns: list[str], budget: int | None = None) -> list[Row]:
    """The rows with the values of all calls, partition by partition and in order within each."""
    table = _Table(columns)
    steps = _Budget(budget)
    output: list[Row] = []
    for partition in _partitions(window.clause, rows, table):
        ordered = _ordered(window.clause, partition, table)
        goes_on_at = 0  # rows before it are skipped
        for current, row in enumerate(ordered):
            frame = _full_frame(window, ordered, current)
            match = None if current < goes_on_at else _found(window, frame, table, steps)
            if match is not None:
                goes_on_at = _next_row(window, current, match)
            output.append({**row, **_values(window, frame, table, match)})
    return output


def _full_frame(window: PatternWindow, rows: list[Row], current: int) -> list[Row]:
    following = window.frame.following
    return rows[current:] if following is None else rows[current : current + following + 1]


def _found(window: PatternWindow, frame: list[Row], table: _Table, budget: _Budget) -> Match | None:
    """INITIAL tries the current row alone, SEEK every row of the frame: the preferred match of the first with one."""
    starts = range(1) if window.search is Search.INITIAL else range(len(frame))
    for start in starts:
        path = next(iter(_Paths(window.clause, frame, table, start, None, budget).complete()), None)
        if path is not None:
            return Match(start, path)
    return None


def _next_row(window: PatternWindow, current: int, match: Match) -> int:
    """The row with which to go on; those between the current one and it are skipped."""
    if not match.path:
        return current + 1
    match window.clause.skip_to:
        case SkipTo.NEXT_ROW:
            return current + 1
        case SkipTo.PAST_LAST_ROW:
            return current + match.start + len(match.path)
    label = window.clause.skip_label
    assert label is not None
    members = _members(window.clause, label)
    places = [i for i, step in enumerate(match.path) if step.label in members]
    if not places:
        raise EpisodeDataError(f"AFTER MATCH SKIP: no row of the match is mapped to {label}")
    place = places[0] if window.clause.skip_to is SkipTo.FIRST_LABEL else places[-1]
    if place == 0:
        raise EpisodeDataError(f"AFTER MATCH SKIP to {label} leads to the first row of the match")
    return current + match.start + place


def _values(window: PatternWindow, frame: list[Row], table: _Table, match: Match | None) -> dict[str, Any]:
    shown = match or Match(0, ())
    view = _View(window.clause, frame, table, shown.start, shown.path, len(shown.path), None, fail)
    measures = {measure.name: measure.expression for measure in window.clause.measures}
    values: dict[str, Any] = {}
    for call in window.calls:
        match call:
            case MeasureCall(name, column):
                # Of a row without a match all measures are null, constants too.
                values[column] = None if match is None else view.value(measures[name])
            case FunctionCall(expression, column):
                # Over no rows counts are 0, arrays are empty, and everything else is null.
                values[column] = view.value(expression)
    return values
