"""An event pattern's matches: events as points on lanes by class, what each match takes of them, what it forbids."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from episode.see.pictures.axis import thin_rows
from episode.see.pictures.choosing import ChosenKey, Wish
from episode.see.pictures.labelled import LabelledMatch, Labelling
from episode.see.pictures.look import Look, Table
from episode.see.pictures.scene import PictureScene, written_pattern
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
        message = "AGGREGATE gives no matches that could be drawn."
        place = None if query.aggregate is None else query.aggregate.span
        raise query.source.error(EpisodeAnalysisError, message, place, "Write RETURN in its place.")
    if wish.series is not None:
        raise EpisodeAnalysisError(f"series={wish.series!r}: events lie on lanes by class, not on a series.")
    labelling = Labelling.of(inspected)
    scene = PictureScene.of(labelling, wish, zone)
    found = scene.found
    matches = labelling.label_matches(found.rows, found.extents.place[scene.drawn])
    typed = bool(inspected.events.tables) or (inspected.events.given.type_column or query.input.type_column) is not None
    lanes = lanes_of(query, typed)
    starts = None if plan.times.start is None else found.axis.positions(found.rows.table, plan.times.start)
    drawing = EventDrawing(scene, plan, query.pattern, lanes, starts, matches)
    tables = {
        "events": drawing.events(typed),
        "taken": drawing.taken_events(),
        "links": drawing.links(),
        "closures": drawing.closures(),
        "stretches": drawing.stretches(),
        "matches": scene.brackets(),
    }
    names = tuple(dict.fromkeys(name for lane in lanes if not lane.negated for name in lane.variables))
    seen = scene.look("events", written_pattern(inspected), names, tables, tuple(lane.name for lane in lanes))
    return replace(seen, view=_widen_view(scene, tables["stretches"]))


def _widen_view(scene: PictureScene, stretches: Table) -> tuple[float, float]:
    """A forbidden stretch before or after a match is in the picture as far as there are events."""
    x, view = scene.found.x, scene.view
    low = min([view[0], *(one["x"] for one in stretches)])
    high = max([view[1], *(one["x2"] for one in stretches)])
    return max(low, min(view[0], float(np.nanmin(x)))), min(high, max(view[1], float(np.nanmax(x))))


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
    lanes = []
    for (name, is_negated), variables in by_name.items():
        others = ", ".join(variable for variable in variables if variable != name)
        lanes.append(Lane(f"{'no ' if is_negated else ''}{name} {others}".rstrip(), tuple(variables), is_negated))
    return tuple(lanes)


@dataclass(frozen=True)
class EventDrawing:
    """The tables of a picture. starts: of events that last, or whose time is imprecise. matches: those that are drawn,
    with their events."""

    scene: PictureScene
    plan: EventPlan
    pattern: EventPattern
    lanes: tuple[Lane, ...]
    starts: np.ndarray | None
    matches: Sequence[LabelledMatch]

    @property
    def found(self) -> ChosenKey:
        return self.scene.found

    def lane(self, label: str) -> str:
        name = label.split(MARK)[0]
        return next(lane.name for lane in self.lanes if name in lane.variables)

    def events(self, typed: bool) -> Table:
        """Events of the classes: those that qualify by themselves, and those of the class that do not."""
        rows: list[dict[str, Any]] = []
        scalars = Scalars(to_spark_types(self.found.rows.table))
        left_out, buckets, most = 0, self.scene.wish.width // 3, MOST_EVENTS // len(self.lanes)
        for lane in self.lanes:
            qualifies, member = self._masks(scalars, lane, typed)
            for mask, fits in ((qualifies, True), (member & ~qualifies, False)):
                places = np.flatnonzero(mask)
                x = self.found.x[places]
                at = places[thin_rows(x, np.zeros(len(x), np.int64), self.scene.view, buckets, most)]
                left_out += int(np.count_nonzero(self.scene.in_view(x))) - len(at)
                rows += [self._event(place, lane.name) | {"fits": fits} for place in at]
        if left_out:
            self.scene.notes.append(f"{count_of(left_out, 'event')} lie so close to others that they are not drawn.")
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

    def _each(self) -> Iterator[tuple[LabelledMatch, dict[str, Any]]]:
        """Yield the matches that are drawn, and how rows of tables name them."""
        for match, mark in zip(self.matches, self.scene.marks):
            yield match, {"match": mark.number, "chosen": mark.chosen}

    def taken_events(self) -> Table:
        """The events of the matches, with their variables and some of their values."""
        times, table = self.plan.times, self.found.rows.table
        known = (*self.plan.keys, times.end, times.start)  # shown by where the event lies
        columns = [name for name in self.plan.input_columns if name not in known and not name.startswith(OWN)]
        rows = []
        for match, own in self._each():
            for place, label in zip(match.places, match.labels):
                values = [f"{name} {table.column(name)[int(place)].as_py()}" for name in columns[:MOST_VALUES]]
                event = self._event(int(place), self.lane(label)) | {"variable": label.split(MARK)[0]}
                rows.append(event | own | {"values": ", ".join(values)})
        return tuple(rows)

    def links(self) -> Table:
        """From event to event of a match, in the order of time."""
        return tuple(
            {"x": float(self.found.x[place]), "lane": self.lane(label), **own, "order": at}
            for match, own in self._each()
            for at, (place, label) in enumerate(zip(match.places, match.labels))
        )

    def closures(self) -> Table:
        """The events that a closure gathers in a match, as one stretch of its lane."""
        closed = [node for node in nodes_of(self.pattern) if isinstance(node, Closure)]
        gathering = {one.variable for node in closed for one in classes_of(node)}
        rows = []
        for match, own in self._each():
            bases = [label.split(MARK)[0] for label in match.labels]
            for name in dict.fromkeys(base for base in bases if base in gathering):
                x = self.found.x[match.places[[base == name for base in bases]]]
                span = {"x": float(x.min()), "x2": float(x.max()), "lane": self.lane(name), "variable": name}
                rows.append(span | {"text": f"{name} ×{len(x):,}"} | own | {"count": len(x)})
        return tuple(rows)

    def stretches(self) -> Table:
        """Return the spans in which the chosen match allows no event of a negated class."""
        rows = []
        within = None if self.plan.within is None else self.found.axis.of_units(self.plan.within)
        for match, own in self._each():
            if not own["chosen"]:
                continue
            times = self._times(match)
            every = [time for of_variable in times.values() for time in of_variable]
            first, last = min(low for low, _ in every), max(high for _, high in every)
            reach = float(np.nanmin(self.found.x)), float(np.nanmax(self.found.x))
            if within is not None:
                reach = last - within, first + within
            for negation, low, high in _forbidden(self.pattern, times, reach):
                for one in classes_of(negation):
                    span = {"x": low, "x2": high, "lane": self.lane(one.variable), "text": f"no {one.name}"}
                    rows.append(span | {"match": own["match"]})
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
