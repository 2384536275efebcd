"""The part of a key's rows and matches that a picture shows, and what all pictures draw of it: lines, brackets, the
whole in small."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from episode.see.inspecting import Inspected, named_key
from episode.see.pictures.axis import Axis, Series, lanes_of, line_rows, thin_rows
from episode.see.pictures.choosing import ChosenKey, KeyChoice, Wish, range_of
from episode.see.pictures.labelled import Labelling
from episode.see.pictures.look import Look, MatchMark, Table
from episode.words import count_of

WHOLE, SMALL = 60, 0.15
"""A key with no more rows is shown whole, unless the match is a smaller part of it."""
AROUND = 12
"""Rows before and after the match that are shown at least."""
MOST_POINTS = 1_500
"""Rows that are drawn one by one; of more, a few are drawn for each column of the screen."""


@dataclass(frozen=True)
class PictureScene:
    """A key, and what is drawn of it. view: positions between which things are drawn. drawn: the matches, by their
    places among the extents; marks: how they are drawn. notes: what the picture does not show; drawing adds to them."""

    found: ChosenKey
    wish: Wish
    view: tuple[float, float]
    drawn: list[int]
    marks: list[MatchMark]
    notes: list[str]

    @staticmethod
    def of(labelling: Labelling, wish: Wish, zone: str, column: str | None = None) -> PictureScene:
        """Choose the key and the match that are asked for. column: one to draw along the time."""
        found = KeyChoice(labelling, wish, zone, () if column is None else (column,)).choose()
        view, notes = view_of(found, wish), list(found.notes)
        drawn, marks = _marks_of(found, view, wish.most, notes)
        return PictureScene(found, wish, view, drawn, marks, notes)

    @property
    def axis(self) -> Axis:
        return self.found.axis

    @property
    def chosen(self) -> MatchMark | None:
        return next((mark for mark in self.marks if mark.chosen), None)

    def look(
        self,
        kind: str,
        pattern: str,
        names: tuple[str, ...],
        tables: dict[str, Table],
        lanes: tuple[str, ...] = (),
        series: Series | None = None,
        one: str = "match",
    ) -> Look:
        """Return the contents of the picture, with all of the key in small if the view is a part of it. pattern: as it
        was written. one: the name of a match."""
        x, total = self.found.x, len(self.found.extents)
        where = f"{named_key(self.found.key)}: " if self.found.key else ""
        if self.view[0] > np.nanmin(x) or self.view[1] < np.nanmax(x):
            tables |= self._overview(series or Series("", np.zeros(len(x))))
        return Look(
            kind=kind,
            title=f"{where}{count_of(total, one) if total else f'no {one}'} of {pattern}",
            key=self.found.key,
            axis=self.axis,
            view=self.view,
            matches=tuple(self.marks),
            total=total,
            names=names,
            lanes=lanes,
            series=None if series is None else series.name,
            categories=() if series is None else series.categories,
            notes=tuple(self.notes),
            tables=tables,
        )

    def line(self, series: Series) -> Table:
        x, y, buckets = self.found.x, series.y, self.wish.width // 2
        if series.categories:
            codes = np.where(np.isnan(y), len(series.categories), y).astype(np.int64)
            at = thin_rows(x, codes, self.view, buckets, MOST_POINTS)
            at = at[~np.isnan(y[at])]
        else:
            at = line_rows(x, y, self.view, buckets)
        inside = int(np.count_nonzero(self.in_view(x) & ~np.isnan(y)))
        if len(at) < inside:
            self.notes.append(f"{count_of(inside, 'row')} are drawn as the extremes of {count_of(buckets, 'column')}.")
        return self.points(series, at)

    def points(self, series: Series, at: np.ndarray) -> Table:
        """Positions of rows along the axis and the series."""
        named = series.categories
        pairs = zip(self.found.x[at], series.y[at])
        return tuple({"x": float(x), "y": named[int(y)] if named else float(y)} for x, y in pairs)

    def in_view(self, x: np.ndarray) -> np.ndarray:
        return (x >= self.view[0]) & (x <= self.view[1])

    def brackets(self) -> Table:
        axis = self.axis
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
            for mark in self.marks
        )

    def _overview(self, series: Series) -> dict[str, Table]:
        """All of the key in small: its series, and where matches are; those of one column of the screen as one."""
        found, width = self.found, self.wish.width
        whole = float(np.nanmin(found.x)), float(np.nanmax(found.x))
        numbers = replace(series, categories=())
        at = line_rows(found.x, numbers.y, whole, width // 3)
        step = (whole[1] - whole[0]) / width
        order = np.argsort(found.starts, kind="stable")
        starts, ends = found.starts[order], found.ends[order]
        column = np.unique(((starts - whole[0]) / max(step, 1e-9)).astype(np.int64), return_index=True)[1]
        latest = np.maximum.reduceat(ends, column) if len(column) else ends
        merged: list[list[float]] = []
        for begin, end in zip(starts[column].tolist(), latest.tolist()):
            if merged and begin <= merged[-1][1] + step:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        spans = [{"x": begin, "x2": max(end, begin + step), "chosen": False} for begin, end in merged]
        if self.chosen is not None:
            first, last = self.chosen.first, self.chosen.last
            spans.append({"x": first, "x2": max(last, first + step), "chosen": True})
        return {"overview": self.points(numbers, at), "overview_matches": tuple(spans)}


def view_of(found: ChosenKey, wish: Wish) -> tuple[float, float]:
    """The positions between which things are drawn: what was asked for, all of a short key, or the match with as much
    again around it."""
    x = found.x[~np.isnan(found.x)]
    if len(x) == 0:
        return 0.0, 1.0
    if wish.between is not None:
        return range_of(found, wish)
    margin = 0.02 * float(x.max() - x.min())
    whole = float(x.min()) - margin, float(x.max()) + margin  # nothing lies on the edge
    at = found.chosen
    if at is None:
        return whole
    first, last = int(found.extents.first[at]), int(found.extents.last[at])
    around = found.x[np.clip((first - AROUND, last + AROUND), 0, len(found.x) - 1)]
    begin, end = float(found.starts[at]), float(found.ends[at])
    if len(found.rows) <= WHOLE and end - begin >= SMALL * (whole[1] - whole[0]):
        return whole
    pad, far = 0.75 * (end - begin), (end - begin) or np.inf
    around = np.clip(around, begin - far, end + far)
    low, high = float(np.nanmin([begin - pad, *around])), float(np.nanmax([end + pad, *around]))
    return max(low, whole[0]), min(high, whole[1])


def _marks_of(
    found: ChosenKey, view: tuple[float, float], most: int, notes: list[str]
) -> tuple[list[int], list[MatchMark]]:
    """The matches that are drawn, by their places among the extents, and how: the chosen one, and its nearest
    neighbours in the view."""
    inside = np.flatnonzero((found.ends >= view[0]) & (found.starts <= view[1]))
    if found.chosen is not None:
        middle = 0.5 * (found.starts[found.chosen] + found.ends[found.chosen])
        far = np.abs(0.5 * (found.starts[inside] + found.ends[inside]) - middle)
        far[inside == found.chosen] = -1.0
        drawn = inside[np.argsort(far, kind="stable")[:most]]
    else:
        drawn = inside[:most]
    if len(drawn) < len(inside):
        notes.append(f"{len(drawn):,} of the {len(inside):,} matches in this range are drawn.")
    drawn = drawn[np.lexsort((found.ends[drawn], found.starts[drawn]))]
    lanes = lanes_of(found.starts[drawn], found.ends[drawn], 0.01 * (view[1] - view[0]))
    return [int(at) for at in drawn], [mark_of(found, int(at), int(lane)) for at, lane in zip(drawn, lanes)]


def mark_of(found: ChosenKey, at: int, lane: int) -> MatchMark:
    """Return how a match is drawn, by its place among the extents."""
    extents = found.extents
    note = ""
    if extents.timed_out[at]:
        note = "timed out"
    elif extents.final is not None:
        note = f"stands for {extents.final[at]:,.15g} matches"
    elif extents.confidence is not None:
        note = f"confidence {extents.confidence[at]:.3g}"
    first, last = float(found.starts[at]), float(found.ends[at])
    return MatchMark(int(extents.number[at]), first, last, int(extents.count[at]), lane, at == found.chosen, note)


def written_pattern(inspected: Inspected, longest: int = 70) -> str:
    """The pattern as it was written, on one line."""
    source: Any = inspected.plan.source
    text = " ".join(source.text_at(source.pattern).split())
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
