"""An event pattern's matches: events as points on lanes by class, what each match takes of them, what it forbids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError
from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventClass,
    EventPattern,
    EventQuery,
    Negation,
    classes_of,
    nodes_of,
)
from episode.lang.events.syntax import Sequence as EventSequence
from episode.matchers.scalars import Scalars
from episode.matchers.spark_types import to_spark_types
from episode.plan.events.alternatives import MARK
from episode.plan.events.plan import EventPlan
from episode.plan.schema import OWN
from episode.see.inspecting import Inspected
from episode.see.pictures.axis import Series, thin_rows
from episode.see.pictures.choosing import ChosenKey, KeyChoice, Wish, marks_of, title_of, view_of, written_pattern
from episode.see.pictures.labelled import LabelledMatch, Labelling
from episode.see.pictures.look import Look, MatchMark, Table
from episode.see.pictures.rows import match_table, overview_tables
from episode.words import count_of

MOST_EVENTS = 1_500
"""Events outside of matches that are drawn one by one; of more, the first of each class in a column is drawn."""
MOST_VALUES = 4
"""Values of an event that are shown with it, at most."""


@dataclass(frozen=True)
class Lane:
    """A row of the picture. variables: those whose events lie on it. negated: must there be none?"""

    name: str
    variables: tuple[str, ...]
    negated: bool


def look_at_events(inspected: Inspected, wish: Wish, zone: str) -> Look:
    """The key and the match that are asked for, and the events around them."""
    query: EventQuery = inspected.placed.query
    plan = inspected.plan
    if not isinstance(plan, EventPlan):
        raise query.source.error(
            EpisodeAnalysisError,
            "AGGREGATE gives no matches that could be drawn.",
            None if query.aggregate is None else query.aggregate.span,
            "Write RETURN in its place.",
        )
    if wish.series is not None:
        raise EpisodeAnalysisError(f"series={wish.series!r}: events lie on lanes by class, not on a series.")
    labelling = Labelling.of(inspected)
    found = KeyChoice(labelling, wish, zone).choose()
    notes = list(found.notes)
    view = view_of(found, wish)
    drawn, marks = marks_of(found, view, wish.most, notes)
    matches = labelling.label_matches(found.rows, found.extents.place[drawn])
    typed = bool(inspected.events.tables) or (inspected.events.given.type_column or query.input.type_column) is not None
    lanes = lanes_of(query, typed)
    drawing = EventDrawing(found, plan, lanes, _starts(found, plan))
    within = None if plan.within is None else found.axis.of_units(plan.within)
    tables = {
        "events": drawing.events(view, wish.width, typed, notes),
        "taken": drawing.taken_events(matches, marks),
        "links": drawing.links(matches, marks),
        "closures": drawing.closures(matches, marks, query.pattern),
        "stretches": drawing.stretches(matches, marks, query.pattern, within),
        "matches": match_table(found, marks),
    }
    if view[0] > np.nanmin(found.x) or view[1] < np.nanmax(found.x):
        tables |= overview_tables(found, Series("", np.zeros(len(found.rows))), wish.width, marks)
    return Look(
        kind="events",
        title=title_of(written_pattern(inspected), found.key, len(found.extents)),
        key=found.key,
        axis=found.axis,
        view=_widen_view(view, tables["stretches"], found),
        matches=tuple(marks),
        total=len(found.extents),
        names=tuple(dict.fromkeys(name for lane in lanes if not lane.negated for name in lane.variables)),
        lanes=tuple(lane.name for lane in lanes),
        notes=tuple(notes),
        tables=tables,
    )


def _starts(found: ChosenKey, plan: EventPlan) -> np.ndarray | None:
    """Return the starts of events that last, or whose time is imprecise; None for other events."""
    return None if plan.times.start is None else found.axis.positions(found.rows.table, plan.times.start)


def _widen_view(view: tuple[float, float], stretches: Table, found: ChosenKey) -> tuple[float, float]:
    """A forbidden stretch before or after a match is in the picture as far as there are events."""
    x = found.x[~np.isnan(found.x)]
    low = min([view[0], *(one["x"] for one in stretches)])
    high = max([view[1], *(one["x2"] for one in stretches)])
    return max(low, min(view[0], float(x.min()))), min(high, max(view[1], float(x.max())))


def lanes_of(query: EventQuery, typed: bool) -> tuple[Lane, ...]:
    """A lane for each class, where events have one, else for each variable; in the order of the pattern."""
    negated = {
        one.variable for node in nodes_of(query.pattern) if isinstance(node, Negation) for one in classes_of(node)
    }
    by_name: dict[tuple[str, bool], dict[str, None]] = {}
    for one in classes_of(query.pattern):
        is_negated = one.variable in negated
        name = one.name if typed else one.variable
        by_name.setdefault((name, is_negated), {})[one.variable] = None
    return tuple(Lane(_lane_name(name, tuple(own), no), tuple(own), no) for (name, no), own in by_name.items())


def _lane_name(name: str, variables: tuple[str, ...], negated: bool) -> str:
    others = [variable for variable in variables if variable != name]
    return f"{'no ' if negated else ''}{name}{' ' + ', '.join(others) if others else ''}"


@dataclass(frozen=True)
class EventDrawing:
    """The tables of a picture. starts: of events that last."""

    found: ChosenKey
    plan: EventPlan
    lanes: tuple[Lane, ...]
    starts: np.ndarray | None

    def lane(self, label: str) -> str:
        name = label.split(MARK)[0]
        return next(lane.name for lane in self.lanes if name in lane.variables)

    # ---- events that are there ---------------------------------------------------------------------------------------

    def events(self, view: tuple[float, float], width: int, typed: bool, notes: list[str]) -> Table:
        """Events of the classes: those that qualify by themselves, and those of the class that do not."""
        rows: list[dict[str, Any]] = []
        scalars = Scalars(to_spark_types(self.found.rows.table))
        left_out = 0
        for lane in self.lanes:
            qualifies, member = self._masks(scalars, lane, typed)
            for mask, fits in ((qualifies, True), (member & ~qualifies, False)):
                places = np.flatnonzero(mask)
                x = self.found.x[places]
                at = places[thin_rows(x, np.zeros(len(x), np.int64), view, width // 3, MOST_EVENTS // len(self.lanes))]
                left_out += int(np.count_nonzero((x >= view[0]) & (x <= view[1]))) - len(at)
                rows += [self._event(place, lane.name) | {"fits": fits} for place in at]
        if left_out:
            notes.append(f"{count_of(left_out, 'event')} lie so close to others that they are not drawn.")
        return tuple(rows)

    def _masks(self, scalars: Scalars, lane: Lane, typed: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return masks of the rows that qualify for a variable of the lane, and of those of its class."""
        none = np.zeros(len(self.found.rows), np.bool_)
        qualifies, member = none.copy(), none.copy()
        for name, parts in self.plan.local.items():
            if name.split(MARK)[0] not in lane.variables:
                continue
            held = [np.asarray(pc.fill_null(scalars.run(part), False), np.bool_) for part in parts]
            qualifies |= np.logical_and.reduce(held) if held else ~none
            member |= held[0] if typed and held else ~none if typed else none
        return qualifies, member

    def _event(self, place: int, lane: str) -> dict[str, Any]:
        x = float(self.found.x[place])
        start = x if self.starts is None else float(self.starts[place])
        return {"x": x, "x0": start, "lane": lane, "time": self.found.axis.text(x)}

    # ---- matches -----------------------------------------------------------------------------------------------------

    def taken_events(self, matches: Sequence[LabelledMatch], marks: Sequence[MatchMark]) -> Table:
        """The events of the matches, with their variables and some of their values."""
        columns = [name for name in self.plan.input_columns if not self._is_known(name)][:MOST_VALUES]
        rows = []
        for match, mark in zip(matches, marks):
            for place, label in zip(match.places, match.labels):
                values = [f"{name} {self.found.rows.table.column(name)[int(place)].as_py()}" for name in columns]
                rows.append(
                    self._event(int(place), self.lane(label))
                    | {"variable": label.split(MARK)[0], "match": mark.number, "chosen": mark.chosen}
                    | {"values": ", ".join(values)}
                )
        return tuple(rows)

    def _is_known(self, name: str) -> bool:
        """Is it shown by where the event lies?"""
        times = self.plan.times
        return name in (*self.plan.keys, times.end, times.start) or name.startswith(OWN)

    def links(self, matches: Sequence[LabelledMatch], marks: Sequence[MatchMark]) -> Table:
        """From event to event of a match, in the order of time."""
        return tuple(
            {
                "x": float(self.found.x[match.places[at]]),
                "lane": self.lane(match.labels[at]),
                "match": mark.number,
                "chosen": mark.chosen,
                "order": at,
            }
            for match, mark in zip(matches, marks)
            for at in range(len(match.places))
        )

    def closures(self, matches: Sequence[LabelledMatch], marks: Sequence[MatchMark], pattern: EventPattern) -> Table:
        """The events that a closure gathers in a match, as one stretch of its lane."""
        gathering = {
            one.variable for node in nodes_of(pattern) if isinstance(node, Closure) for one in classes_of(node)
        }
        rows = []
        for match, mark in zip(matches, marks):
            bases = [label.split(MARK)[0] for label in match.labels]
            for name in dict.fromkeys(base for base in bases if base in gathering):
                x = self.found.x[match.places[[base == name for base in bases]]]
                own = {"x": float(x.min()), "x2": float(x.max()), "lane": self.lane(name), "variable": name}
                rows.append(
                    own | {"text": f"{name} ×{len(x):,}", "match": mark.number, "chosen": mark.chosen, "count": len(x)}
                )
        return tuple(rows)

    def stretches(
        self, matches: Sequence[LabelledMatch], marks: Sequence[MatchMark], pattern: EventPattern, within: float | None
    ) -> Table:
        """Return the spans in which the chosen match allows no event of a negated class."""
        rows = []
        for match, mark in zip(matches, marks):
            if not mark.chosen:
                continue
            times = self._times(match)
            every = [time for own in times.values() for time in own]
            first, last = min(low for low, _ in every), max(high for _, high in every)
            x = self.found.x[~np.isnan(self.found.x)]
            reach = (last - within, first + within) if within is not None else (float(x.min()), float(x.max()))
            for negation, low, high in _forbidden(pattern, times, reach):
                for one in classes_of(negation):
                    own = {"lane": self.lane(one.variable), "text": f"no {one.name}", "match": mark.number}
                    rows.append({"x": low, "x2": high} | own)
        return tuple(rows)

    def _times(self, match: LabelledMatch) -> dict[str, list[tuple[float, float]]]:
        """When the events of each variable begin and end."""
        found: dict[str, list[tuple[float, float]]] = {}
        for place, label in zip(match.places, match.labels):
            end = float(self.found.x[place])
            start = end if self.starts is None else float(self.starts[place])
            found.setdefault(label.split(MARK)[0], []).append((start, end))
        return found


Times = Mapping[str, list[tuple[float, float]]]


def _forbidden(
    pattern: EventPattern, times: Times, reach: tuple[float, float]
) -> Iterator[tuple[Negation, float, float]]:
    """The negations of a pattern, each with the stretch of a match between its neighbours. reach: what lies around."""
    if isinstance(pattern, Negation):
        yield pattern, *reach
    elif isinstance(pattern, EventSequence):
        extents = [_extent(part, times) for part in pattern.parts]
        if all(extent is None for extent in extents):
            return
        for at, part in enumerate(pattern.parts):
            before = [extent[1] for extent in extents[:at] if extent is not None]
            after = [extent[0] for extent in extents[at + 1 :] if extent is not None]
            yield from _forbidden(part, times, (max(before, default=reach[0]), min(after, default=reach[1])))
    elif isinstance(pattern, (Conjunction, Disjunction)):
        for part in pattern.parts:
            if isinstance(pattern, Conjunction) or _extent(part, times) is not None:
                yield from _forbidden(part, times, reach)


def _extent(pattern: EventPattern, times: Times) -> tuple[float, float] | None:
    """When the events of a part of the pattern begin and end in a match; None where it has none."""
    if isinstance(pattern, Negation):
        return None
    names = [one.variable for one in classes_of(pattern) if isinstance(one, EventClass)]
    own = [time for name in names for time in times.get(name, [])]
    return (min(low for low, _ in own), max(high for _, high in own)) if own else None
