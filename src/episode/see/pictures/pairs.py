"""Two correlated patterns: the live match, the archive match, and the time between which recency relates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import Correlation
from episode.matchers.correlation.spec import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN
from episode.matchers.engines import matcher_spec
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.plan.correlation.inputs import JointInput, SideInput
from episode.plan.correlation.pairs import PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import OutputAtom
from episode.plan.schema import OWN, quote
from episode.queries.language import ARCHIVE, LIVE
from episode.queries.languages import language_of
from episode.queries.substitution import PAIRS, escape_braces, lateral, tables_text
from episode.see.input_rows import SparkRows
from episode.see.inspecting import Inspected
from episode.see.pictures.axis import Series, chosen_column, columns_in, series_of
from episode.see.pictures.choosing import ChosenKey, KeyChoice, Wish, view_of, written_pattern
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
    numbers_of,
)
from episode.see.pictures.look import Look, MatchMark, Table, named_key
from episode.see.pictures.rows import line_table, overview_tables
from episode.words import count_of

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
            there = [name for name in further if name in inspected.source.columns]
            columns = [
                *(outer for _, outer in selections),
                *(name for name in there if name not in dict(selections).values()),
            ]
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

    def order_rows(self, table: pa.Table) -> OrderedRows:
        order = matcher_spec(self.input.pair, table.schema).input_order
        events = events_of(table, order, KeyCoder(order.keys))
        return OrderedRows(events.table, events.key, events.time)

    def extents(self, rows: OrderedRows) -> PairExtents:
        found = list(self._pairs(rows, EXTENT))
        columns = {
            (role, name): np.concatenate([np.zeros(0, np.int64), *(_ints(one, role, name) for one in found)])
            for role in (LIVE, ARCHIVE)
            for name in (FIRST, LAST)
        }
        first, last = columns[ARCHIVE, FIRST], columns[LIVE, LAST]
        number = numbers_of(rows.key[first], last, first)
        nothing = np.zeros(len(first), np.bool_)
        others = columns[ARCHIVE, LAST], columns[LIVE, FIRST]
        return PairExtents(
            np.arange(len(first)), first, last, last - first + 1, number, nothing, None, None, 0, *others
        )

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
        some = self.inspected.keys_by_rows(5).select(list(self.inspected.keys)).to_pylist()
        raise EpisodeAnalysisError(
            "The input is too large to choose a key of a correlation by its pairs.",
            hint=f"Choose one: of=…, for example one of {'; '.join(named_key(one) for one in some)}.",
        )

    # ---- matching --------------------------------------------------------------------------------------------------

    def _pairs(self, rows: OrderedRows, atoms: dict[OutputAtom, str]) -> Iterator[pa.Table]:
        """The pairs in tables of bounded size, those alone for which all of the condition holds."""
        pair = self._with_output(atoms)
        table = rows.table
        for name in dict.fromkeys(outer for _, outer in _place_columns(pair.inputs)):
            table = table.append_column(name, pa.array(np.arange(len(rows), dtype=np.int64)))
        spec = matcher_spec(pair, table.schema)
        events = EventBatch(table.select(list(spec.input_columns)), rows.key, rows.time)
        matcher = spec.open()
        for found in (matcher.feed(events, END_OF_TIME), matcher.finish()):
            for one in found:
                yield self._filter(pair, one)

    def _with_output(self, atoms: dict[OutputAtom, str]) -> PairPlan:
        """The correlation with further values of either match, and a number for each row."""
        pair = self.input.pair
        sides = []
        for side in (pair.live_side, pair.archive_side):
            plan: Any = side.plan
            if not _has_rows(plan):
                raise plan.source.error(EpisodeAnalysisError, "Correlations of situations cannot be drawn.")
            every = {
                **plan.measures.atoms,
                **{atom: name for atom, name in atoms.items() if atom not in plan.measures.atoms},
            }
            output = replace(plan.output, measures=replace(plan.measures, atoms=every))
            columns, types = (*plan.input_columns, PLACE), {**plan.types, PLACE: "bigint"}
            changed = replace(plan, output=output, input_columns=columns, types=types)
            sides.append(replace(side, plan=changed))
        inputs = pair.inputs
        names = (PLACE, PLACE) if inputs.shared else (_PLACES[LIVE], _PLACES[ARCHIVE])
        live, archive = (
            _with_place(side, name) for side, name in zip((inputs.live, inputs.archive), names, strict=True)
        )
        return replace(
            pair, live_side=sides[0], archive_side=sides[1], inputs=replace(inputs, live=live, archive=archive)
        )

    def _filter(self, pair: PairPlan, matched: pa.Table) -> pa.Table:
        """Return the pairs for which the parts of the condition hold that the join does not test."""
        query: Correlation = self.inspected.placed.query
        after = [one for one in pair.conditions if isinstance(one, str)]
        tested = {(one.left, one.right) for one in query.comparisons if one.sign == "="}
        on = [one for one in query.equalities if (one.left, one.right) not in tested]
        if matched.num_rows == 0 or (not after and len(on) <= len(pair.inputs.keys)):
            return matched
        source, arguments = self.inspected.source, self.inspected.arguments
        if not isinstance(source, SparkRows):
            raise EpisodeUnsupportedError(
                "Pairs with a condition on both matches are drawn with Spark.", hint="Give the query a session: spark=…"
            )
        from episode.spark.correlation import finished_pairs
        from episode.spark.tables import run_sql

        at = f"{OWN}at"
        spark = source.frame.sparkSession
        numbered = matched.append_column(at, pa.array(range(matched.num_rows), pa.int64()))
        frame = finished_pairs(spark, numbered, self.input.pair, arguments)
        namings = [_naming(name, columns) for name, columns in zip(query.names, query.columns, strict=True)]
        sides = [lateral(frame.columns, prefix, name) for prefix, name in zip(_PREFIXES.values(), namings, strict=True)]
        texts = [escape_braces(text) for text in (*after, *(f"{_path(one.left)} = {_path(one.right)}" for one in on))]
        text = f"SELECT {PAIRS}.{at} FROM {tables_text('pairs', sides[0], sides[1], texts)}"
        held = run_sql(spark, text, {"pairs": frame}, arguments).toArrow().column(at)
        return matched.take(held.combine_chunks().sort())


def _has_rows(plan: Any) -> bool:
    return not hasattr(plan, "symbols")


def _with_place(side: SideInput, outer: str) -> SideInput:
    return SideInput((*side.columns, (PLACE, outer)), (*side.selections, (quote(PLACE), outer)))


def _place_columns(inputs: JointInput) -> list[tuple[str, str]]:
    return [pair for side in (inputs.live, inputs.archive) for pair in side.columns if pair[0] == PLACE]


def _ints(table: pa.Table, role: str, name: str) -> np.ndarray:
    return np.asarray(table.column(f"{_PREFIXES[role]}{name}").combine_chunks().fill_null(0), np.int64)


def _path(names: tuple[str, ...]) -> str:
    return ".".join(quote(name) for name in names)


def _naming(name: str | None, columns: tuple[str, ...]) -> str:
    """The alias of a pattern, with new names of its columns."""
    if name is None:
        return ""
    return f"AS {quote(name)}" + (f" ({', '.join(quote(one) for one in columns)})" if columns else "")


# ---- the picture -----------------------------------------------------------------------------------------------------


def look_at_pairs(live: Inspected, archive: Inspected, wish: Wish, zone: str) -> Look:
    """The key and the pair that are asked for: the live match, the archive matches that it has, and the recency."""
    pair: Any = live.placed.planned.pattern
    given = PairInput(live.placed, live.events, live.plan, live.source, live=live.live, pair=pair, archive=archive)
    labelling = PairLabelling(given)
    column = _column(live, wish)
    found = KeyChoice(labelling, wish, zone, () if column is None else (column,)).choose()
    notes = list(found.notes)
    view = _view(found, wish, pair.recency)
    drawn, marks = _marks(found, view, wish, notes)
    series = Series("rows", np.zeros(len(found.rows)), ("rows",))
    if column is not None and column in found.rows.table.column_names:
        series = series_of(found.rows.table, column)
    tables = {
        "line": line_table(found, series, view, wish.width, notes),
        "rows": _row_table(found, labelling, series, view),
        "matches": _match_table(found, drawn, marks),
        "recency": _recency(found, marks, pair),
    }
    if view[0] > np.nanmin(found.x) or view[1] < np.nanmax(found.x):
        tables |= overview_tables(found, series, wish.width, marks)
    where = f"{named_key(found.key)}: " if found.key else ""
    count = count_of(len(found.extents), "pair") if len(found.extents) else "no pair"
    return Look(
        kind="correlation",
        title=f"{where}{count} of {written_pattern(live, 34)} after {written_pattern(archive, 34)}",
        key=found.key,
        axis=found.axis,
        view=view,
        matches=tuple(marks),
        total=len(found.extents),
        names=(ARCHIVE, LIVE),
        lanes=(ARCHIVE, LIVE),
        series=series.name,
        categories=series.categories,
        notes=tuple(notes),
        tables=tables,
    )


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
    return min(begin, float(found.starts[found.chosen])), min(
        max(high if high < after else after, end), float(np.nanmax(found.x))
    )


def _marks(
    found: ChosenKey, view: tuple[float, float], wish: Wish, notes: list[str]
) -> tuple[list[int], list[MatchMark]]:
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
    marks = [
        MatchMark(
            int(extents.number[one]),
            float(found.starts[one]),
            float(found.ends[one]),
            int(extents.count[one]),
            lane,
            one == at,
        )
        for lane, one in enumerate(drawn)
    ]
    return drawn, marks


def _row_table(found: ChosenKey, labelling: PairLabelling, series: Series, view: tuple[float, float]) -> Table:
    """The rows of both matches of the chosen pair."""
    if found.chosen is None:
        return ()
    named = series.categories
    rows = []
    for role, places in labelling.places_of(found.rows, int(found.extents.place[found.chosen])).items():
        there = places[~np.isnan(series.y[places])]
        step = max(1, len(there) // MOST_POINTS)
        rows += [
            {
                "x": float(found.x[place]),
                "y": named[int(series.y[place])] if named else float(series.y[place]),
                "label": role,
                "chosen": True,
                "time": found.axis.text(found.x[place]),
            }
            for place in there[::step]
        ]
    return tuple(rows)


def _match_table(found: ChosenKey, drawn: Sequence[int], marks: Sequence[MatchMark]) -> Table:
    """A bar for each match: the live one once, and its archive matches."""
    extents, axis = found.extents, found.axis
    assert isinstance(extents, PairExtents)
    rows: list[dict[str, Any]] = []
    for at, mark in zip(drawn, marks):
        sides = [(ARCHIVE, extents.first[at], extents.archive_last[at])]
        sides += [(LIVE, extents.live_first[at], extents.last[at])] if mark.chosen else []
        for role, first, last in sides:
            x, x2 = float(found.x[first]), float(found.x[last])
            tip = f"{role} match: {axis.length(x2 - x)}, from {axis.text(x)} to {axis.text(x2)}"
            own = {"x": x, "x2": x2, "lane": role, "number": mark.number, "chosen": mark.chosen}
            rows.append(own | {"text": f"{role} match", "tip": tip})
    return tuple(rows)


def _recency(found: ChosenKey, marks: Sequence[MatchMark], pair: PairPlan) -> Table:
    """From when on an archive match may begin, to the end of the live match."""
    chosen = next((mark for mark in marks if mark.chosen), None)
    if chosen is None:
        return ()
    written = pair.source.text_at(pair.duration.span) or found.axis.length(found.axis.of_units(pair.recency))
    reach = found.axis.of_units(pair.recency)
    return ({"x": chosen.last - reach, "x2": chosen.last, "text": f"recency: {' '.join(written.split())}"},)
