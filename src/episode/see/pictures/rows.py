"""A row pattern's matches over the series of a key: its line, the rows of the matches with their labels, brackets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from episode.lang.rows.syntax import MatchRecognize
from episode.see.inspecting import Inspected
from episode.see.pictures.axis import Series, chosen_column, columns_in, line_rows, series_of, thin_rows
from episode.see.pictures.choosing import ChosenKey, KeyChoice, Wish, marks_of, title_of, view_of, written_pattern
from episode.see.pictures.labelled import LabelledMatch, Labelling
from episode.see.pictures.look import Look, MatchMark, Table
from episode.words import count_of

MOST_POINTS = 1_500
"""Rows of matches that are drawn one by one; of more, a few are drawn for each column of the screen."""


def look_at_rows(inspected: Inspected, wish: Wish, zone: str) -> Look:
    """The key and the match that are asked for, and what lies around them."""
    query: MatchRecognize = inspected.placed.query
    labelling = Labelling.of(inspected)
    column = series_column(inspected, query, wish)
    further = () if column is None else (column,)
    found = KeyChoice(labelling, wish, zone, further).choose()
    notes = list(found.notes)
    view = view_of(found, wish)
    drawn, marks = marks_of(found, view, wish.most, notes)
    labels = labelling.plan.labels.names
    series = series_of(found.rows.table, column) if column is not None else _of_labels(found, labels)
    matches = labelling.label_matches(found.rows, found.extents.place[drawn])
    tables = {
        "line": line_table(found, series, view, wish.width, notes),
        "rows": row_table(found, series, matches, marks, view, wish.width, notes),
        "matches": match_table(found, marks),
    }
    if view[0] > np.nanmin(found.x) or view[1] < np.nanmax(found.x):
        tables |= overview_tables(found, series, wish.width, marks)
    return Look(
        kind="rows",
        title=title_of(written_pattern(inspected), found.key, len(found.extents)),
        key=found.key,
        axis=found.axis,
        view=view,
        matches=tuple(marks),
        total=len(found.extents),
        names=labels,
        series=series.name,
        categories=series.categories,
        notes=tuple(notes),
        tables=tables,
    )


def series_column(inspected: Inspected, query: MatchRecognize, wish: Wish) -> str | None:
    """The column that the conditions are about, or else the measures."""
    defined = columns_in(definition.condition for definition in query.definitions)
    measured = columns_in(measure.expression for measure in query.measures)
    plan = inspected.plan
    never = [*plan.keys, *(one.column for one in plan.order)]
    types = {name: type_ for name, type_ in plan.types.items() if name in inspected.source.columns}
    return chosen_column(types, wish.series, [*defined, *measured], never)


def _of_labels(found: ChosenKey, labels: tuple[str, ...]) -> Series:
    """Return a single lane with all rows, for a query without a column that can be drawn."""
    return Series("rows", np.zeros(len(found.rows)), ("rows",))


def line_table(found: ChosenKey, series: Series, view: tuple[float, float], width: int, notes: list[str]) -> Table:
    """The series inside the view."""
    if series.categories:
        codes = np.where(np.isnan(series.y), len(series.categories), series.y).astype(np.int64)
        at = thin_rows(found.x, codes, view, width // 2, MOST_POINTS)
        at = at[~np.isnan(series.y[at])]
    else:
        at = line_rows(found.x, series.y, view, width // 2)
    inside = int(np.count_nonzero((found.x >= view[0]) & (found.x <= view[1]) & ~np.isnan(series.y)))
    if len(at) < inside:
        notes.append(f"{count_of(inside, 'row')} are drawn as the extremes of {count_of(width // 2, 'column')}.")
    return points(found, series, at)


def points(found: ChosenKey, series: Series, at: np.ndarray) -> Table:
    named = series.categories
    return tuple({"x": float(x), "y": named[int(y)] if named else float(y)} for x, y in zip(found.x[at], series.y[at]))


def row_table(
    found: ChosenKey,
    series: Series,
    matches: Sequence[LabelledMatch],
    marks: Sequence[MatchMark],
    view: tuple[float, float],
    width: int,
    notes: list[str],
) -> Table:
    """The rows of the matches, each once: with its label in the chosen match, or in the first that has it."""
    order = sorted(range(len(marks)), key=lambda at: (not marks[at].chosen, marks[at].number))
    if not order:
        return ()
    places = np.concatenate([matches[at].places for at in order])
    of_match = np.repeat(order, [len(matches[at].places) for at in order])
    labels = np.array([label for at in order for label in matches[at].labels])
    kept = np.sort(np.unique(places, return_index=True)[1])
    kept = kept[np.argsort(places[kept], kind="stable")]
    inside = (found.x[places[kept]] >= view[0]) & (found.x[places[kept]] <= view[1])
    kept = kept[inside & ~np.isnan(series.y[places[kept]])]
    if len(kept) > MOST_POINTS:
        names, codes = np.unique(labels[kept], return_inverse=True)
        x, y = found.x[places[kept]], series.y[places[kept]]
        few = [np.flatnonzero(codes == code) for code in range(len(names))]
        some = np.sort(np.concatenate([one[line_rows(x[one], y[one], view, width // 8)] for one in few]))
        notes.append(f"{count_of(len(some), 'row')} of the {len(kept):,} in the matches are marked.")
        kept = kept[some]
    named = series.categories
    return tuple(
        {
            "x": float(found.x[place]),
            "y": named[int(series.y[place])] if named else float(series.y[place]),
            "label": str(label),
            "match": marks[at].number,
            "chosen": marks[at].chosen,
            "time": found.axis.text(found.x[place]),
        }
        for place, label, at in zip(places[kept], labels[kept], of_match[kept])
    )


def match_table(found: ChosenKey, marks: Sequence[MatchMark]) -> Table:
    """The brackets of matches."""
    axis = found.axis
    return tuple(
        {
            "number": mark.number,
            "x": mark.first,
            "x2": mark.last,
            "lane": mark.lane,
            "chosen": mark.chosen,
            "text": f"match {mark.number}",
            "tip": f"match {mark.number}: {count_of(mark.rows, 'row')}, {axis.length(mark.last - mark.first)}, "
            f"from {axis.text(mark.first)} to {axis.text(mark.last)}{', ' + mark.note if mark.note else ''}",
        }
        for mark in marks
    )


def overview_tables(found: ChosenKey, series: Series, width: int, marks: Sequence[MatchMark]) -> dict[str, Table]:
    """All of the key in small: its series, and where matches are."""
    whole = float(np.nanmin(found.x)), float(np.nanmax(found.x))
    numbers = replace(series, categories=())
    at = line_rows(found.x, numbers.y, whole, width // 3)
    chosen = next((mark for mark in marks if mark.chosen), None)
    step = (whole[1] - whole[0]) / width
    starts, ends = found.starts, found.ends
    order = np.argsort(starts, kind="stable")
    column = ((starts[order] - whole[0]) / max(step, 1e-9)).astype(np.int64)
    first = np.unique(column, return_index=True)[1]
    merged: list[list[float]] = []
    for begin, end in _ranges(starts[order], ends[order], first):
        if merged and begin <= merged[-1][1] + step:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    spans: list[dict[str, Any]] = [{"x": begin, "x2": max(end, begin + step), "chosen": False} for begin, end in merged]
    if chosen is not None:
        spans.append({"x": chosen.first, "x2": max(chosen.last, chosen.first + step), "chosen": True})
    return {"overview": points(found, numbers, at), "overview_matches": tuple(spans)}


def _ranges(starts: np.ndarray, ends: np.ndarray, bucket: np.ndarray) -> list[tuple[float, float]]:
    """The matches that begin in one column of the screen, as one."""
    latest = np.maximum.reduceat(ends, bucket) if len(bucket) else ends
    return list(zip(starts[bucket].tolist(), latest.tolist()))
