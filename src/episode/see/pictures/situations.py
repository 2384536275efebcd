"""A situation pattern's matches: a bar for each situation, the relations that held, and when a match was certain."""

from __future__ import annotations

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
from episode.see.pictures.axis import Axis, chosen_column, columns_in, series_of, thin_rows
from episode.see.pictures.choosing import Wish
from episode.see.pictures.labelled import FIRST, LAST, PLACE, Labelling, MatchExtents, OrderedRows, key_name, numbers_of
from episode.see.pictures.look import Look, MatchMark, Table
from episode.see.pictures.scene import PictureScene, written_pattern
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
    scene = PictureScene.of(labelling, wish, zone, column)
    rows = scene.found.rows
    starts, detected = labelling.moments(rows)
    drawing = SituationDrawing(scene, plan, labelling.situations(rows), starts, scene.axis.of_values(detected))
    tables = {
        "situations": drawing.bars(),
        "relations": drawing.relations(query),
        "detections": drawing.detections(),
        "matches": scene.brackets(),
    }
    series = None if column is None else series_of(rows.table, column)
    if series is not None:
        tables["line"] = scene.line(series)
    return scene.look("situations", written_pattern(inspected), plan.symbols, tables, plan.symbols, series)


@dataclass(frozen=True)
class SituationDrawing:
    """The tables of a picture. starts: of each match, the first row of the situation of each symbol. detected: when
    each was certain, as positions."""

    scene: PictureScene
    plan: SituationPlan
    every: dict[str, Situations]
    starts: dict[str, np.ndarray]
    detected: np.ndarray

    @property
    def axis(self) -> Axis:
        return self.scene.axis

    def bars(self) -> Table:
        """The situations in the view: those of matches, and the others that are long enough, or too short."""
        rows: list[dict[str, Any]] = []
        left_out, view, most = 0, self.scene.view, MOST_BARS // len(self.plan.symbols)
        order = sorted(zip(self.scene.drawn, self.scene.marks), key=lambda pair: pair[1].chosen)  # the last one wins
        for number, symbol in enumerate(self.plan.symbols):
            own = self.every[symbol]
            x, x2 = self.scene.found.x[own.first], self.scene.found.x[own.end]
            inside = np.flatnonzero((x2 >= view[0]) & (x <= view[1]))
            of_match = {int(own.at(self.starts[symbol][[at]])[0]): mark for at, mark in order}
            whole = min(view[0], float(x[inside].min(initial=view[0]))), view[1]
            group = np.zeros(len(inside), np.int64)
            some = inside[thin_rows(x[inside], group, whole, self.scene.wish.width // 3, most)]
            chosen = np.union1d(some, np.array(sorted(of_match), np.int64)).astype(np.int64)
            left_out += len(inside) - len(np.intersect1d(chosen, inside))
            for at in chosen:
                mark = of_match.get(int(at))
                rows.append(self._bar(symbol, number, float(x[at]), float(x2[at]), bool(own.open[at]), mark))
        if left_out:
            self.scene.notes.append(f"{count_of(left_out, 'situation')} of no match are not drawn.")
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
            time = self.scene.found.rows.time
            found[symbol] = int(time[own.first[one]]), int(time[own.end[one]]), bool(own.open[one])
        return found

    def relations(self, query: SituationQuery) -> Table:
        """Return the relation in the chosen match of each pair that the pattern constrains."""
        rows = []
        for at, mark in zip(self.scene.drawn, self.scene.marks):
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
                row = int(np.searchsorted(self.scene.found.rows.time, max(start, other)))
                rows.append({"x": float(self.scene.found.x[row]), "left": left, "right": right, "text": text})
        return tuple(rows)

    def detections(self) -> Table:
        """When each match was certain, and how long before the end of its last situation."""
        rows = []
        for at, mark in zip(self.scene.drawn, self.scene.marks):
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
