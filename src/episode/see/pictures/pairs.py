"""Two correlated patterns: the live match, the archive match, and the time between which recency relates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import Correlation
from episode.plan.correlation.inputs import SideInput
from episode.plan.correlation.pairs import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN, PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import OutputAtom
from episode.plan.schema import OWN, quote
from episode.queries.language import ARCHIVE, LIVE
from episode.queries.languages import language_of
from episode.see.inspecting import Inspected, LocalRows, filter_pairs
from episode.see.pictures.axis import Series, chosen_column, columns_in, series_of
from episode.see.pictures.choosing import ChosenKey, KeyChoice, Wish
from episode.see.pictures.labelled import (
    EXTENT,
    FIRST,
    LAST,
    PLACE,
    PLACES,
    WHOLE,
    Labelling,
    MatchExtents,
    OrderedRows,
    ints,
    match_tables,
    numbers_of,
)
from episode.see.pictures.look import Look, MatchMark, Table
from episode.see.pictures.scene import PictureScene, mark_of, view_of, written_pattern

_PLACES = {LIVE: f"{OWN}live_place", ARCHIVE: f"{OWN}archive_place"}
_PREFIXES = {LIVE: LIVE_PREFIX, ARCHIVE: ARCHIVE_PREFIX}
MOST_POINTS = 600


@dataclass(frozen=True, kw_only=True)
class PairInput(Inspected):
    """The events of both patterns as one input. archive: those of the archive pattern, where these are others."""

    pair: PairPlan
    archive: Inspected

    @property
    def keys(self) -> tuple[str, ...]:
        return self.pair.inputs.keys

    @property
    def time(self) -> str | None:
        return self.pair.inputs.time

    def rows(
        self,
        key: Mapping[str, object],
        between: tuple[object, object] = (None, None),
        further: Sequence[str] = (),
        most: int | None = None,
    ) -> pa.Table:
        inputs = self.pair.inputs
        parts = []
        for role, inspected, side in ((LIVE, self, inputs.live), (ARCHIVE, self.archive, inputs.archive)):
            if role == ARCHIVE and inputs.shared:
                break
            selections = inputs.selections if inputs.shared else side.selections
            known = [outer for _, outer in selections]
            columns = [*known, *(one for one in further if one in inspected.source.columns and one not in known)]
            derived = tuple((sql, outer) for sql, outer in selections if sql != quote(outer))
            own = {outer: name for name, outer in side.columns}
            bounds = {own[inputs.time]: between}
            restricted = {own[name]: value for name, value in key.items()}
            part = inspected.source.rows(columns, derived, self.arguments, restricted, bounds, most)
            if not inputs.shared:
                number = LIVE_ROW if role == LIVE else ARCHIVE_ROW
                part = part.append_column(SIDE_COLUMN, pa.array([number] * part.num_rows, pa.int8()))
            parts.append(part.replace_schema_metadata(None))
        return pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]

    def count(self, key: Mapping[str, object]) -> int:
        inputs = self.pair.inputs
        sides = [(self, inputs.live), *([] if inputs.shared else [(self.archive, inputs.archive)])]
        total = 0
        for inspected, side in sides:
            own = {outer: name for name, outer in side.columns}
            total += inspected.source.count({own[name]: value for name, value in key.items()})
        return total

    def keys_by_rows(self, most: int) -> pa.Table:
        own = {outer: name for name, outer in self.pair.inputs.live.columns}
        found = self.source.keys_by_rows([own[name] for name in self.keys], most)
        return found.rename_columns([*self.keys, "rows"])


@dataclass(frozen=True)
class PairExtents(MatchExtents):
    """Pairs as matches from the start of the archive match to the end of the live match. archive_last, live_first:
    where the one ends and the other begins."""

    archive_last: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    live_first: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class PairLabelling(Labelling):
    """The pairs of a correlation, with the rows of both matches."""

    @property
    def input(self) -> PairInput:
        assert isinstance(self.inspected, PairInput)
        return self.inspected

    @property
    def plan(self) -> Any:
        return self.input.pair

    def extents(self, rows: OrderedRows) -> PairExtents:
        found = list(self._pairs(rows, EXTENT))
        first, archive_last, live_first, last = (
            np.concatenate([np.zeros(0, np.int64), *(ints(one.column(f"{_PREFIXES[role]}{name}")) for one in found)])
            for role, name in ((ARCHIVE, FIRST), (ARCHIVE, LAST), (LIVE, FIRST), (LIVE, LAST))
        )
        number = numbers_of(rows.key[first], last, first)
        place, nothing = np.arange(len(first)), np.zeros(len(first), np.bool_)
        count, sides = last - first + 1, (archive_last, live_first)
        return PairExtents(place, first, last, count, number, nothing, None, None, 0, *sides)

    def places_of(self, rows: OrderedRows, wanted: int) -> dict[str, np.ndarray]:
        """The rows of the live and the archive match of one pair."""
        passed = 0
        for table in self._pairs(rows, {**EXTENT, **WHOLE}):
            if wanted < passed + table.num_rows:
                lists = {role: table.column(f"{prefix}{PLACES}")[wanted - passed] for role, prefix in _PREFIXES.items()}
                return {role: np.sort(np.asarray(one.values, np.int64)) for role, one in lists.items()}
            passed += table.num_rows
        return {}

    def first_matches(self, most: int) -> pa.Table:
        hint = f"Choose one: of=…, for example one of {self.inspected.some_keys()}."
        raise EpisodeAnalysisError("The input is too large to choose a key of a correlation by its pairs.", hint=hint)

    def _pairs(self, rows: OrderedRows, atoms: dict[OutputAtom, str]) -> Iterator[pa.Table]:
        """The pairs in tables of bounded size, those alone for which all of the condition holds."""
        pair = self._with_output(atoms)
        table = rows.table
        columns = (*pair.inputs.live.columns, *pair.inputs.archive.columns)
        for name in dict.fromkeys(outer for inner, outer in columns if inner == PLACE):
            table = table.append_column(name, pa.array(np.arange(len(rows), dtype=np.int64)))
        for found in match_tables(pair, table, rows):
            yield self._filter(pair, found)

    def _with_output(self, atoms: dict[OutputAtom, str]) -> PairPlan:
        """The correlation with further values of either match, and a number for each row."""
        pair = self.input.pair
        sides = []
        for side in (pair.live_side, pair.archive_side):
            plan: Any = side.plan
            if hasattr(plan, "symbols"):
                raise plan.source.error(EpisodeAnalysisError, "Correlations of situations cannot be drawn.")
            every = {**atoms, **plan.measures.atoms}
            output = replace(plan.output, measures=replace(plan.measures, atoms=every))
            columns, types = (*plan.input_columns, PLACE), {**plan.types, PLACE: "bigint"}
            changed = replace(plan, output=output, input_columns=columns, types=types)
            sides.append(replace(side, plan=changed))
        inputs = pair.inputs
        names = (PLACE, PLACE) if inputs.shared else (_PLACES[LIVE], _PLACES[ARCHIVE])
        live, archive = (_with_place(side, name) for side, name in zip((inputs.live, inputs.archive), names))
        changed_inputs = replace(inputs, live=live, archive=archive)
        return replace(pair, live_side=sides[0], archive_side=sides[1], inputs=changed_inputs)

    def _filter(self, pair: PairPlan, matched: pa.Table) -> pa.Table:
        """Return the pairs for which the parts of the condition hold that the join does not test."""
        query: Correlation = self.inspected.placed.query
        after = [one for one in pair.conditions if isinstance(one, str)]
        tested = {(one.left, one.right) for one in query.comparisons if one.sign == "="}
        on = [one for one in query.equalities if (one.left, one.right) not in tested]
        if matched.num_rows == 0 or (not after and len(on) <= len(pair.inputs.keys)):
            return matched
        source, arguments = self.inspected.source, self.inspected.arguments
        if isinstance(source, LocalRows):
            raise EpisodeUnsupportedError(
                "Pairs with a condition on both matches are drawn with Spark.", hint="Give the query a session: spark=…"
            )
        from episode.spark.correlation import finished_pairs

        at = f"{OWN}at"
        numbered = matched.append_column(at, pa.array(range(matched.num_rows), pa.int64()))
        frame = finished_pairs(source.frame.sparkSession, numbered, self.input.pair, arguments)
        texts = [*after, *(f"{_path(one.left)} = {_path(one.right)}" for one in on)]
        held = filter_pairs(frame, query, texts, [at], arguments).toArrow().column(at)
        return matched.take(held.combine_chunks().sort())


def _with_place(side: SideInput, outer: str) -> SideInput:
    return SideInput((*side.columns, (PLACE, outer)), (*side.selections, (quote(PLACE), outer)))


def _path(names: tuple[str, ...]) -> str:
    return ".".join(quote(name) for name in names)


def look_at_pairs(live: Inspected, archive: Inspected, wish: Wish, zone: str) -> Look:
    """The key and the pair that are asked for: the live match, the archive matches that it has, and the recency."""
    pair: Any = live.placed.planned.pattern
    given = PairInput(live.placed, live.events, live.plan, live.source, live=live.live, pair=pair, archive=archive)
    labelling = PairLabelling(given)
    column = _column(live, wish)
    found = KeyChoice(labelling, wish, zone, () if column is None else (column,)).choose()
    notes = list(found.notes)
    drawn, marks = _marks(found, wish, notes)
    scene = PictureScene(found, wish, _view(found, wish, pair.recency), drawn, marks, notes)
    series = Series("rows", np.zeros(len(found.rows)), ("rows",))
    if column is not None and column in found.rows.table.column_names:
        series = series_of(found.rows.table, column)
    tables = {
        "line": scene.line(series),
        "rows": _row_table(scene, labelling, series),
        "matches": _match_table(scene),
        "recency": _recency(scene, pair),
    }
    patterns = f"{written_pattern(live, 34)} after {written_pattern(archive, 34)}"
    roles = (ARCHIVE, LIVE)
    return scene.look("correlation", patterns, roles, tables, roles, series, one="pair")


def _column(live: Inspected, wish: Wish) -> str | None:
    query: Correlation = live.placed.query
    scalars: list[Any] = []
    for one in (query.live, query.archive):
        scalars += language_of(one).conditions(one)
    plan = live.plan
    types = {name: type_ for name, type_ in plan.types.items() if name in live.source.columns}
    return chosen_column(types, wish.series, columns_in(scalars), [*plan.keys, *(one.column for one in plan.order)])


def _view(found: ChosenKey, wish: Wish, recency: int) -> tuple[float, float]:
    """Return the view; it includes all of the recency unless something else was asked for."""
    low, high = view_of(found, wish)
    if found.chosen is None or wish.between is not None:
        return low, high
    end = float(found.ends[found.chosen])
    begin = max(end - 1.05 * found.axis.of_units(recency), float(np.nanmin(found.x)))
    after = end + 0.12 * (end - begin)
    until = min(max(min(high, after), end), float(np.nanmax(found.x)))
    return min(begin, float(found.starts[found.chosen])), until


def _marks(found: ChosenKey, wish: Wish, notes: list[str]) -> tuple[list[int], list[MatchMark]]:
    """The chosen pair, and the others of the same live match."""
    extents = found.extents
    assert isinstance(extents, PairExtents)
    if found.chosen is None:
        return [], []
    at = found.chosen
    same = np.flatnonzero((extents.last == extents.last[at]) & (extents.live_first == extents.live_first[at]))
    order = [at, *(int(one) for one in same if one != at)]
    if len(order) > wish.most:
        notes.append(f"{wish.most} of the {len(order):,} archive matches of this live match are drawn.")
    drawn = order[: wish.most]
    return drawn, [mark_of(found, one, lane) for lane, one in enumerate(drawn)]


def _row_table(scene: PictureScene, labelling: PairLabelling, series: Series) -> Table:
    """The rows of both matches of the chosen pair."""
    found = scene.found
    if found.chosen is None:
        return ()
    rows = []
    for role, places in labelling.places_of(found.rows, int(found.extents.place[found.chosen])).items():
        there = places[~np.isnan(series.y[places])]
        some = there[:: max(1, len(there) // MOST_POINTS)]
        for place, point in zip(some, scene.points(series, some)):
            rows.append({**point, "label": role, "chosen": True, "time": scene.axis.text(found.x[place])})
    return tuple(rows)


def _match_table(scene: PictureScene) -> Table:
    """A bar for each match: the live one once, and its archive matches."""
    extents, axis, positions = scene.found.extents, scene.axis, scene.found.x
    assert isinstance(extents, PairExtents)
    rows: list[dict[str, Any]] = []
    for at, mark in zip(scene.drawn, scene.marks):
        sides = [(ARCHIVE, extents.first[at], extents.archive_last[at])]
        sides += [(LIVE, extents.live_first[at], extents.last[at])] if mark.chosen else []
        for role, first, last in sides:
            x, x2 = float(positions[first]), float(positions[last])
            tip = f"{role} match: {axis.length(x2 - x)}, from {axis.text(x)} to {axis.text(x2)}"
            own = {"x": x, "x2": x2, "lane": role, "number": mark.number, "chosen": mark.chosen}
            rows.append(own | {"text": f"{role} match", "tip": tip})
    return tuple(rows)


def _recency(scene: PictureScene, pair: PairPlan) -> Table:
    """From when on an archive match may begin, to the end of the live match."""
    if scene.chosen is None:
        return ()
    reach, end = scene.axis.of_units(pair.recency), scene.chosen.last
    written = pair.source.text_at(pair.duration.span) or scene.axis.length(reach)
    return ({"x": end - reach, "x2": end, "text": f"recency: {' '.join(written.split())}"},)
