"""Choice of the key and the match that a picture is about, and the rows that are read for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.see.inspecting import Inspected, LocalRows, named_key
from episode.see.pictures.axis import PLACE, Axis
from episode.see.pictures.labelled import FIRST, LAST, Labelling, MatchExtents, OrderedRows, key_name
from episode.words import count_of

LONGEST, SHORTEST, RAREST = "longest", "shortest", "rarest key"
CHOICES = (LONGEST, SHORTEST, RAREST)

MOST_ROWS = 4_000_000
"""Rows of one key that are read; of a larger key, its first rows."""
ALL_KEYS = 1_000_000
"""Rows of all keys up to which the choice is among the matches of all of them."""
FEW_MATCHES = 200
"""Matches among which the choice is if there are more rows: the first that Spark finds."""


@dataclass(frozen=True)
class Wish:
    """Arguments of `plot`. of: the value of the key. width: of the picture in pixels."""

    of: object = None
    between: tuple[object, object] | None = None
    match: int | None = None
    choose: str = LONGEST
    series: str | None = None
    most: int = 12
    width: int = 760

    def __post_init__(self) -> None:
        if self.choose not in CHOICES:
            raise EpisodeAnalysisError(
                f"choose={self.choose!r} is unknown.", hint=f"There are: {', '.join(repr(one) for one in CHOICES)}."
            )
        if self.between is not None and (not isinstance(self.between, (tuple, list)) or len(self.between) != 2):
            hint = "Write between=(first, last); None: no bound."
            raise EpisodeAnalysisError(f"between={self.between!r}: two times are needed.", hint=hint)
        for name, least in (("match", 1), ("most", 1), ("width", 100)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise EpisodeAnalysisError(f"{name}={value!r}: a number from {least} on is needed.")
        if self.series is not None and not isinstance(self.series, str):
            raise EpisodeAnalysisError(f"series={self.series!r}: the name of a column is needed.")


@dataclass(frozen=True)
class ChosenKey:
    """A key that was chosen, its rows and its matches. x: positions of the rows. chosen: which match the picture is
    about, by its place among the extents. notes: in sentences."""

    key: Mapping[str, object]
    rows: OrderedRows
    axis: Axis
    x: np.ndarray
    extents: MatchExtents
    chosen: int | None
    notes: tuple[str, ...] = ()

    @property
    def starts(self) -> np.ndarray:
        return np.fmin(self.x[self.extents.first], self.x[self.extents.last])

    @property
    def ends(self) -> np.ndarray:
        return np.fmax(self.x[self.extents.first], self.x[self.extents.last])


@dataclass
class KeyChoice:
    """Search for the key and the match of a wish. zone: the clock that times are shown by. further: columns to bring
    in addition to those that the pattern reads."""

    labelling: Labelling
    wish: Wish
    zone: str
    further: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def choose(self) -> ChosenKey:
        inspected = self.labelling.inspected
        if self.wish.of is not None or not inspected.keys:
            return self._in_key(inspected.key_of(self.wish.of))
        if isinstance(inspected.source, LocalRows) or inspected.source.count({}) <= ALL_KEYS:
            return self._in_all_keys()
        return self._in_key(self._key_by_spark())

    def _in_key(self, key: Mapping[str, object]) -> ChosenKey:
        table = self._rows_of(key)
        if table.num_rows == 0:
            some = self.labelling.inspected.some_keys() if key else ""
            raise EpisodeAnalysisError(
                f"The key {named_key(key)} has no rows." if key else "The pattern's input has no rows.",
                hint=(f"Some keys with many rows: {some}." if some else "There are no rows.") if key else None,
            )
        return self._choose_match(key, self.labelling.order_rows(table))

    def _rows_of(self, key: Mapping[str, object]) -> pa.Table:
        inspected = self.labelling.inspected
        if inspected.count(key) <= MOST_ROWS:  # counting is a fraction of reading; a limit would cost more
            return inspected.rows(key, further=self.further)
        schema = inspected.rows(key, further=self.further, most=1).schema
        return self._first_rows(inspected, key, Axis.of(inspected.time, schema, self.zone))

    def _first_rows(self, inspected: Inspected, key: Mapping[str, object], axis: Axis) -> pa.Table:
        """Read the rows of a large key between the bounds that were asked for, or its first ones."""
        given = self.wish.between or (None, None)
        first, last = (None if one is None else axis.value(axis.at(one, "between")) for one in given)
        if axis.name is None:
            raise EpisodeAnalysisError(
                f"More than {MOST_ROWS:,} rows without an order cannot be drawn.", hint="Add ORDER BY to the pattern."
            )
        count, until = inspected.source.rows_at_most(key, {axis.name: (first, last)}, axis.name, MOST_ROWS)
        if until is not None:
            self.notes.append(f"Only the first {MOST_ROWS:,} of {count:,} rows are looked at; between=… shows others.")
            last = until
        elif (first, last) != (None, None):
            self.notes.append("Rows outside of the range are not looked at: the key has too many.")
        return inspected.rows(key, (first, last), further=self.further)

    def _choose_match(self, key: Mapping[str, object], rows: OrderedRows) -> ChosenKey:
        axis = Axis.of(self.labelling.inspected.time, rows.table.schema, self.zone)
        x = axis.positions(rows.table)
        extents = self.labelling.extents(rows)
        if extents.empty:
            self.notes.append(f"{count_of(extents.empty, 'match')} without rows cannot be drawn.")
        found = ChosenKey(key, rows, axis, x, extents, None, tuple(self.notes))
        return replace(found, chosen=self._match_of(found))

    def _match_of(self, found: ChosenKey) -> int | None:
        extents, wish = found.extents, self.wish
        if wish.match is not None:
            at = np.flatnonzero(extents.number == wish.match)
            if len(at) == 0:
                raise EpisodeAnalysisError(
                    f"match={wish.match}: the key has {count_of(len(extents), 'match')}.",
                    hint=f"They are counted from 1 to {extents.number.max()}." if len(extents) else None,
                )
            return int(at[0])
        lengths = found.ends - found.starts
        if wish.between is not None:
            low, high = range_of(found, wish)
            lengths = np.where((found.ends < low) | (found.starts > high), np.nan, lengths)
        return _best(lengths, extents.count, wish.choose)

    def _in_all_keys(self) -> ChosenKey:
        inspected = self.labelling.inspected
        table = inspected.rows({}, further=self.further)
        if table.num_rows == 0:
            raise EpisodeAnalysisError("The pattern's input has no rows.")
        rows = self.labelling.order_rows(table)
        extents = self.labelling.extents(rows)
        bounds = np.append(np.flatnonzero(np.diff(rows.key, prepend=rows.key[0] - 1)), len(rows))
        keys = len(bounds) - 1
        if len(extents) == 0:
            part = int(np.argmax(np.diff(bounds)))
            self.notes.append(
                f"No match in {count_of(len(rows), 'row')} of {count_of(keys, 'key')}; this one has most."
            )
        else:
            axis = Axis.of(inspected.time, rows.table.schema, self.zone)
            part = self._part_of(rows, extents, axis, bounds)
            self.notes.append(self._why(f"{count_of(keys, 'key')}"))
        low, high = int(bounds[part]), int(bounds[part + 1])
        own = OrderedRows(rows.table.slice(low, high - low), rows.key[low:high], rows.time[low:high])
        key = {name: rows.table.column(name)[low].as_py() for name in inspected.keys}
        return self._choose_match(key, own)

    def _part_of(self, rows: OrderedRows, extents: MatchExtents, axis: Axis, bounds: np.ndarray) -> int:
        """The key of the best match, by its place among the keys."""
        x = axis.positions(rows.table)
        part = np.searchsorted(bounds, extents.first, "right") - 1
        lengths = np.abs(x[extents.last] - x[extents.first])
        if self.wish.choose == RAREST:
            counts = np.bincount(part, minlength=len(bounds) - 1)
            lengths = np.where(counts[part] == counts[counts > 0].min(), lengths, np.nan)
        if self.wish.match is not None:  # a key that has such a match
            there = np.isin(part, part[extents.number == self.wish.match])
            if not there.any():
                raise EpisodeAnalysisError(
                    f"match={self.wish.match}: no key has that many matches.", hint="Choose the key: of=…"
                )
            lengths = np.where(there, lengths, np.nan)
        best = _best(lengths, extents.count, self.wish.choose)
        return int(part[best if best is not None else 0])

    def _why(self, among: str) -> str:
        rarest = self.wish.choose == RAREST
        reason = "as one with the fewest matches" if rarest else f"for the {self.wish.choose} match"
        return f"Chosen {reason} of {among}."

    def _key_by_spark(self) -> dict[str, object]:
        """The key of the best among the first matches that Spark finds; without any, the key with the most rows."""
        inspected = self.labelling.inspected
        found = self.labelling.first_matches(FEW_MATCHES)
        if found.num_rows == 0:
            self.notes.append("There is no match; this key has the most rows.")
            first = inspected.keys_by_rows(1)
            return {name: first.column(name)[0].as_py() for name in inspected.keys}
        lengths = np.zeros(found.num_rows)
        if inspected.time is not None:
            times = found.select([FIRST, LAST])
            axis = Axis.of(inspected.time, times.rename_columns([inspected.time, LAST]).schema, self.zone)
            if axis.kind != PLACE:
                lengths = axis.of_values(times.column(LAST)) - axis.of_values(times.column(FIRST))
        best = _best(lengths, np.ones(found.num_rows), self.wish.choose)
        self.notes.append(self._why(f"the first {count_of(found.num_rows, 'match')} that Spark found"))
        return {name: found.column(key_name(at))[best or 0].as_py() for at, name in enumerate(inspected.keys)}


def _best(lengths: np.ndarray, counts: np.ndarray, choose: str) -> int | None:
    """Return the longest one, or the shortest; of equal ones by rows. NaN: not a choice."""
    known = ~np.isnan(lengths)
    if not known.any():
        return None
    sign = 1 if choose == SHORTEST else -1
    order = np.lexsort((sign * counts, sign * np.where(known, lengths, np.nan)))
    return int(order[0])


def range_of(found: ChosenKey, wish: Wish) -> tuple[float, float]:
    """The range that a caller asks for, as positions."""
    x = found.x[~np.isnan(found.x)]
    low, high = wish.between or (None, None)
    first = float(x.min()) if low is None else found.axis.at(low, "between")
    last = float(x.max()) if high is None else found.axis.at(high, "between")
    if first > last:
        raise EpisodeAnalysisError(f"between={wish.between!r}: the first is after the last.")
    return first, last
