"""A situation pattern's matches: a bar for each situation, the relations that held, and when a match was certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.lang.situations.allen import constraint_text, relation_of
from episode.lang.situations.syntax import SituationQuery
from episode.matchers.scalars import Scalars
from episode.matchers.spark_types import to_spark_types
from episode.plan.output import ColumnAtPlace, RowPlace
from episode.plan.schema import OWN
from episode.plan.situations.plan import DETECTED_AT, MATCH_START, MatchMoment, SituationPlan
from episode.see.inspecting import Inspected
from episode.see.pictures.axis import Axis, Series, chosen_column, columns_in, series_of, thin_rows
from episode.see.pictures.choosing import ChosenKey, KeyChoice, Wish, marks_of, title_of, view_of, written_pattern
from episode.see.pictures.labelled import FIRST, LAST, PLACE, Labelling, MatchExtents, OrderedRows, key_name, numbers_of
from episode.see.pictures.look import Look, MatchMark, Table
from episode.see.pictures.rows import line_table, match_table, overview_tables
from episode.words import count_of

_DETECTED = f"{OWN}detected"
MOST_BARS = 600


@dataclass(frozen=True)
class Situations:
    """All situations of one symbol among rows: they begin with a row, and end with the first that does not hold.

    end: of a situation that lasts to the last row of its key, the number of that row; open is then true.
    """

    first: np.ndarray
    end: np.ndarray
    open: np.ndarray

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the numbers of the situations that have these rows."""
        return np.searchsorted(self.first, places, "right") - 1


@dataclass(frozen=True)
class SituationLabelling(Labelling):
    """The matches of situations: instead of labels, rows have the situations that they belong to."""

    @staticmethod
    def of(inspected: Inspected) -> SituationLabelling:
        return SituationLabelling(inspected)

    @property
    def situation_plan(self) -> SituationPlan:
        plan = self.plan
        assert isinstance(plan, SituationPlan)
        return plan

    def situations(self, rows: OrderedRows) -> dict[str, Situations]:
        """The situations of each symbol, of whatever duration."""
        scalars = Scalars(to_spark_types(rows.table))
        boundary = np.diff(rows.key, prepend=rows.key[:1] - 1) != 0
        last = np.append(boundary[1:], True)
        found = {}
        for symbol, condition in self.plan.conditions.items():
            held = np.ones(len(rows), np.bool_)
            for part in condition.row_local:
                held &= np.asarray(pc.fill_null(scalars.run(part), False), np.bool_)
            before = np.append(False, held[:-1]) & ~boundary
            first = np.flatnonzero(held & ~before)
            ends = np.flatnonzero(held & (np.append(~held[1:], True) | last))
            is_open = last[ends]
            found[symbol] = Situations(first, np.where(is_open, ends, ends + 1), is_open)
        return found

    def moments(self, rows: OrderedRows) -> tuple[dict[str, np.ndarray], pa.Array]:
        """Return, for each match, the first row of the situation of each symbol, and when it was certain."""
        symbols = self.situation_plan.symbols
        atoms: dict[Any, str] = {
            ColumnAtPlace(PLACE, RowPlace(frozenset((symbol,)), True, 0, 0, True)): f"{OWN}{number}"
            for number, symbol in enumerate(symbols)
        }
        atoms[MatchMoment(DETECTED_AT)] = _DETECTED
        tables = list(self._match_rows(rows, atoms))
        if not tables:
            kind = rows.table.schema.field(self.situation_plan.time).type
            return {symbol: np.zeros(0, np.int64) for symbol in symbols}, pa.array([], kind)
        table = pa.concat_tables(tables)
        starts = {symbol: np.asarray(table.column(f"{OWN}{number}"), np.int64) for number, symbol in enumerate(symbols)}
        return starts, table.column(_DETECTED).combine_chunks()

    def extents(self, rows: OrderedRows) -> MatchExtents:
        starts, _ = self.moments(rows)
        every = self.situations(rows)
        first = np.min(list(starts.values()), axis=0)
        ends = [every[symbol].end[every[symbol].at(places)] for symbol, places in starts.items()]
        last = np.max(ends, axis=0).astype(np.int64)
        number = numbers_of(rows.key[first], first, last)
        nothing = np.zeros(len(first), np.bool_)
        return MatchExtents(np.arange(len(first)), first, last, last - first, number, nothing)

    def keys_and_times(self) -> dict[Any, str]:
        place = RowPlace(frozenset((self.situation_plan.symbols[0],)), True, 0, 0, True)
        atoms: dict[Any, str] = {ColumnAtPlace(key, place): key_name(at) for at, key in enumerate(self.plan.keys)}
        return atoms | {MatchMoment(MATCH_START): FIRST, MatchMoment(DETECTED_AT): LAST}


def look_at_situations(inspected: Inspected, wish: Wish, zone: str) -> Look:
    """The key and the match that are asked for, and the situations around them."""
    query: SituationQuery = inspected.placed.query
    labelling = SituationLabelling.of(inspected)
    plan = labelling.situation_plan
    types = {name: type_ for name, type_ in plan.types.items() if name in inspected.source.columns}
    mentioned = columns_in(definition.condition for definition in query.definitions)
    column = chosen_column(types, wish.series, mentioned, [*plan.keys, plan.time])
    found = KeyChoice(labelling, wish, zone, () if column is None else (column,)).choose()
    notes = list(found.notes)
    view = view_of(found, wish)
    drawn, marks = marks_of(found, view, wish.most, notes)
    starts, detected = labelling.moments(found.rows)
    drawing = SituationDrawing(found, plan, labelling.situations(found.rows), starts, found.axis.of_values(detected))
    tables = {
        "situations": drawing.bars(view, wish.width, drawn, marks, notes),
        "relations": drawing.relations(query, drawn, marks),
        "detections": drawing.detections(drawn, marks),
        "matches": match_table(found, marks),
    }
    series = None if column is None else series_of(found.rows.table, column)
    if series is not None:
        tables["line"] = line_table(found, series, view, wish.width, notes)
    if view[0] > np.nanmin(found.x) or view[1] < np.nanmax(found.x):
        tables |= overview_tables(found, series or Series("", np.zeros(len(found.rows))), wish.width, marks)
    return Look(
        kind="situations",
        title=title_of(written_pattern(inspected), found.key, len(found.extents)),
        key=found.key,
        axis=found.axis,
        view=view,
        matches=tuple(marks),
        total=len(found.extents),
        names=plan.symbols,
        lanes=plan.symbols,
        series=None if series is None else series.name,
        categories=() if series is None else series.categories,
        notes=tuple(notes),
        tables=tables,
    )


@dataclass(frozen=True)
class SituationDrawing:
    """The tables of a picture. starts: of each match, the first row of the situation of each symbol. detected: when
    each was certain, as positions."""

    found: ChosenKey
    plan: SituationPlan
    every: dict[str, Situations]
    starts: dict[str, np.ndarray]
    detected: np.ndarray

    @property
    def axis(self) -> Axis:
        return self.found.axis

    def bars(
        self, view: tuple[float, float], width: int, drawn: Sequence[int], marks: Sequence[MatchMark], notes: list[str]
    ) -> Table:
        """The situations in the view: those of matches, and the others that are long enough, or too short."""
        rows: list[dict[str, Any]] = []
        left_out = 0
        for number, symbol in enumerate(self.plan.symbols):
            own = self.every[symbol]
            x, x2 = self.found.x[own.first], self.found.x[own.end]
            inside = np.flatnonzero((x2 >= view[0]) & (x <= view[1]))
            order = sorted(zip(drawn, marks), key=lambda pair: pair[1].chosen)  # the chosen one last: it wins
            of_match = {int(own.at(self.starts[symbol][[at]])[0]): mark for at, mark in order}
            whole = min(view[0], float(x[inside].min(initial=view[0]))), view[1]
            most = MOST_BARS // len(self.plan.symbols)
            some = inside[thin_rows(x[inside], np.zeros(len(inside), np.int64), whole, width // 3, most)]
            chosen = np.union1d(some, np.array(sorted(of_match), np.int64)).astype(np.int64)
            left_out += len(inside) - len(np.intersect1d(chosen, inside))
            for at in chosen:
                mark = of_match.get(int(at))
                rows.append(self._bar(symbol, number, float(x[at]), float(x2[at]), bool(own.open[at]), mark))
        if left_out:
            notes.append(f"{count_of(left_out, 'situation')} of no match are not drawn.")
        return tuple(rows)

    def _bar(
        self, symbol: str, number: int, x: float, x2: float, is_open: bool, mark: MatchMark | None
    ) -> dict[str, Any]:
        role = "of no match" if mark is None else "of the chosen match" if mark.chosen else "of another match"
        text = f"{self.axis.length(x2 - x)}{' and on' if is_open else self._off(number, x2 - x)}"
        tip = f"{symbol}: {text}, from {self.axis.text(x)} to {self.axis.text(x2)}"
        return {"lane": symbol, "x": x, "x2": x2, "open": is_open, "role": role, "text": text, "tip": tip}

    def _off(self, number: int, length: float) -> str:
        """Is a situation of this length shorter or longer than the query allows?"""
        least, most = self.plan.at_least[number], self.plan.at_most[number]
        if least is not None and length < self.axis.of_units(least):
            return ", too short"
        return ", too long" if most is not None and length > self.axis.of_units(most) else ""

    def _intervals(self, at: int) -> dict[str, tuple[int, int, bool]]:
        """The situations of a match: images of their start and end, and whether they last on."""
        found = {}
        for symbol, places in self.starts.items():
            own = self.every[symbol]
            one = int(own.at(places[[at]])[0])
            time = self.found.rows.time
            found[symbol] = int(time[own.first[one]]), int(time[own.end[one]]), bool(own.open[one])
        return found

    def relations(self, query: SituationQuery, drawn: Sequence[int], marks: Sequence[MatchMark]) -> Table:
        """Return the relation in the chosen match of each pair that the pattern constrains."""
        rows = []
        for at, mark in zip(drawn, marks):
            if not mark.chosen:
                continue
            intervals = self._intervals(at)
            for left, right in dict.fromkeys((one.left, one.right) for one in query.constraints):
                (start, end, lasts), (other, until, goes_on) = intervals[left], intervals[right]
                if lasts and goes_on:
                    allowed = [one.relations for one in query.constraints if (one.left, one.right) == (left, right)]
                    text = f"{constraint_text(left, right, allowed[0])} (both still last)"
                else:
                    later = max(end, until) + 1
                    held = relation_of(start, later if lasts else end, other, later if goes_on else until)
                    text = constraint_text(left, right, [held])
                begin = max(start, other)
                rows.append({"x": self._position(begin), "left": left, "right": right, "text": text})
        return tuple(rows)

    def _position(self, image: int) -> float:
        at = int(np.searchsorted(self.found.rows.time, image))
        return float(self.found.x[at])

    def detections(self, drawn: Sequence[int], marks: Sequence[MatchMark]) -> Table:
        """When each match was certain, and how long before the end of its last situation."""
        rows = []
        for at, mark in zip(drawn, marks):
            moment = float(self.detected[at])
            lasts = any(goes_on for _, _, goes_on in self._intervals(at).values())
            gained = mark.last - moment
            if lasts:
                text = "detected; it still lasts"
            elif gained > 0:
                text = f"detected {self.axis.length(gained)} before the end"
            else:
                text = "detected at the end"
            own = {"x": moment, "x2": mark.last, "match": mark.number, "chosen": mark.chosen, "text": text}
            rows.append(own | {"tip": f"match {mark.number}: {text}, at {self.axis.text(moment)}"})
        return tuple(rows)
