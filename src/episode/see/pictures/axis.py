"""Positions of rows along the horizontal axis: their times, numbers or places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.syntax import ColumnRef, Scalar
from episode.plan.schema import OWN

TIME, NUMBER, PLACE = "time", "number", "place"
_EPOCH = datetime(1970, 1, 1)
_UNITS = (("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1_000.0), ("ms", 1.0))


@dataclass(frozen=True)
class Axis:
    """The column that orders the rows, and what its values are as positions.

    kind: 'time' (positions are milliseconds since 1970 on the clock of `zone`), 'number', or 'place' (the rows, counted
    from 0 on, where the order is by something else). zone: None where times have none.
    """

    name: str | None
    kind: str
    zone: str | None = None

    @staticmethod
    def of(name: str | None, schema: pa.Schema, zone: str) -> Axis:
        if name is None:
            return Axis(None, PLACE)
        kind = schema.field(name).type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return Axis(name, TIME, zone if pa.types.is_timestamp(kind) and kind.tz is not None else None)
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        return Axis(name, NUMBER if number else PLACE)

    @property
    def title(self) -> str:
        if self.name is None or self.kind == PLACE:
            return "row" if self.name is None else f"row, in the order of {self.name}"
        return self.name if self.zone is None else f"{self.name} ({self.zone.removeprefix('Etc/')})"

    def day(self, view: tuple[float, float]) -> str:
        """The day, or the days, of times that are shown without it."""
        if self.kind != TIME:
            return ""
        first, last = (str((_EPOCH + timedelta(milliseconds=float(one))).date()) for one in view)
        return f", {first}" if first == last else f", {first} to {last}"

    def positions(self, table: pa.Table, column: str | None = None) -> np.ndarray:
        """float64: of each row; NaN where its time is null. column: another one of the same type."""
        if self.kind == PLACE:
            return np.arange(table.num_rows, dtype=np.float64)
        return self.of_values(table.column(column or self.name or ""))

    def of_values(self, values: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """float64: of values of the column."""
        if self.kind == NUMBER:
            found = pc.cast(values, pa.float64(), safe=False)
            return np.asarray(pc.fill_null(found, float("nan")), np.float64)
        kind = values.type
        if pa.types.is_date(kind):
            values = pc.cast(values, pa.timestamp("us"))
        elif kind.tz is not None and self.zone not in (None, "UTC", "Etc/UTC"):
            values = pc.local_timestamp(pc.cast(values, pa.timestamp("us", tz=self.zone)))
        micros = pc.cast(pc.cast(values, pa.timestamp("us", tz=values.type.tz)), pa.int64())
        return np.asarray(pc.fill_null(pc.cast(micros, pa.float64()), float("nan")), np.float64) / 1_000

    def of_units(self, units: float) -> float:
        """A length in the units of event time (microseconds, or the number itself) along the axis."""
        return units / 1_000 if self.kind == TIME else units

    def at(self, value: object, argument: str) -> float:
        """The position of a value that a caller gives."""
        if self.kind == TIME:
            return self._at_time(value, argument)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            what = "a number" if self.kind == NUMBER else "the number of a row"
            raise EpisodeAnalysisError(f"{argument}={value!r}: {what} is needed.")
        return float(value)

    def _at_time(self, value: object, argument: str) -> float:
        given = value
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                value = None
        if isinstance(value, np.datetime64):
            value = value.astype("datetime64[us]").item()
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime):
            raise EpisodeAnalysisError(
                f"{argument}={given!r}: a time is needed.", hint="Write a datetime, or '2026-03-02 09:30:00'."
            )
        if value.tzinfo is not None:
            value = value.astimezone(ZoneInfo(self.zone or "UTC")).replace(tzinfo=None)
        return (value - _EPOCH) / timedelta(milliseconds=1)

    def value(self, position: float) -> object:
        """A value of the column at a position, as Spark takes it."""
        if self.kind != TIME:
            return position
        moment = _EPOCH + timedelta(milliseconds=position)
        return moment if self.zone is None else moment.replace(tzinfo=ZoneInfo(self.zone)).astimezone(timezone.utc)

    def text(self, position: float) -> str:
        """A position as people read it."""
        if self.kind == TIME:
            moment = _EPOCH + timedelta(milliseconds=float(position))
            written = moment.isoformat(sep=" ", timespec="milliseconds" if moment.microsecond else "seconds")
            return written.removesuffix(" 00:00:00")
        return f"{position:,.10g}"

    def length(self, difference: float) -> str:
        """A distance as people read it."""
        if self.kind != TIME:
            return f"{difference:,.10g}" + (" rows" if self.kind == PLACE else "")
        for (unit, milliseconds), (smaller, less) in pairwise(_UNITS):
            if unit != "s" and difference >= milliseconds:
                whole, rest = divmod(round(difference / less), round(milliseconds / less))
                return f"{whole:,} {unit}" + (f" {rest} {smaller}" if rest else "")
            if difference >= milliseconds:
                return f"{difference / milliseconds:.4g} s"
        if difference >= 1:
            return f"{difference:.4g} ms"
        return f"{difference * 1_000:,.4g} µs" if difference else "0 s"


MOST_CATEGORIES = 12
OTHERS = "others"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TEXTS = ("string", "boolean", "varchar", "char")


@dataclass(frozen=True)
class Series:
    """A column and its values for the rows that are drawn. y: numbers, or places among the categories; NaN for null."""

    name: str
    y: np.ndarray
    categories: tuple[str, ...] = ()


def chosen_column(
    types: Mapping[str, str], wished: str | None, mentioned: Iterable[str], never: Iterable[str]
) -> str | None:
    """The column to draw: the one that was asked for; else the first number, else the first text, that the query
    mentions; else the first number that there is. types: of the input's columns. never: keys, and the time."""
    if wished is not None:
        found = next((name for name in types if name.lower() == wished.lower()), None)
        if found is None or not types[found].startswith((*_NUMBERS, *_TEXTS)):
            guess = closest(wished, types)
            known = ", ".join(name for name in types if not name.startswith(OWN))
            what = "There is no such column." if found is None else f"It is of type {types[found]}."
            hint = (f"Did you mean {guess}? " if guess and found is None else "") + f"Columns of the input: {known}."
            raise EpisodeAnalysisError(f"series={wished!r}: a column of numbers or texts is needed. {what}", hint=hint)
        return found
    barred = {name.lower() for name in never}
    by_lower = {name.lower(): name for name in types if name.lower() not in barred and not name.startswith(OWN)}
    read = [by_lower[name.lower()] for name in mentioned if name.lower() in by_lower]
    for names, kinds in ((read, _NUMBERS), (read, _TEXTS), (list(by_lower.values()), _NUMBERS)):
        one = next((name for name in names if types[name].startswith(kinds)), None)
        if one is not None:
            return one
    return None


def series_of(table: pa.Table, name: str) -> Series:
    column = table.column(name)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = pc.cast(column, pa.float64(), safe=False)
        return Series(name, np.asarray(pc.fill_null(values, float("nan")), np.float64))
    encoded = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1), np.int64)
    names = encoded.dictionary
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    kept = sorted(np.argsort(-counts, kind="stable")[: MOST_CATEGORIES - (len(names) > MOST_CATEGORIES)])
    place = np.full(len(names) + 1, len(kept), np.float64)
    place[kept] = np.arange(len(kept))
    place[-1] = np.nan
    rest = (OTHERS,) if len(names) > len(kept) else ()
    return Series(name, place[codes], (*(names[one].as_py() for one in kept), *rest))


def columns_in(scalars: Iterable[Scalar]) -> Iterator[str]:
    """Yield the columns that scalars of a query mention, in order, also those inside of calls."""
    for scalar in scalars:
        for _, atom in scalar.atoms:
            if isinstance(atom, ColumnRef) or hasattr(atom, "path"):
                yield from atom.path[:2]  # the first may be the name of the table
            elif hasattr(atom, "argument"):
                yield from columns_in([atom.argument])
            elif hasattr(atom, "arguments"):
                yield from columns_in(atom.arguments)


# Points that a screen can show: of the rows in each of its columns the first, the least, the greatest, the last.


def line_rows(x: np.ndarray, y: np.ndarray, view: tuple[float, float], buckets: int) -> np.ndarray:
    """Return the places (int64) of the rows that a line through all rows of the view needs, in the order of x.

    All of them where these are no more than four for each bucket. Rows without a value are left out, the neighbours of
    the view are in, so that the line continues to its edges.
    """
    order, low, high = _inside(x, view)
    at = order[max(low - 1, 0) : high + 1]
    at = at[~np.isnan(y[at])]
    if len(at) <= 4 * buckets:
        return at
    edges = np.flatnonzero(np.diff(_bucket(x[at], view, buckets), prepend=-2))  # where the rows of buckets begin
    values = y[at]
    lengths = np.diff(np.append(edges, len(at)))
    kept = [edges, np.append(edges[1:], len(at)) - 1]
    for extreme in (np.minimum, np.maximum):
        best = np.repeat(extreme.reduceat(values, edges), lengths)
        candidates = np.flatnonzero(values == best)
        kept.append(candidates[np.searchsorted(candidates, edges)])
    return at[np.unique(np.concatenate(kept))]


def thin_rows(x: np.ndarray, group: np.ndarray, view: tuple[float, float], buckets: int, most: int) -> np.ndarray:
    """Return the places (int64) of the rows in the view: all, or if they are many the first of a group in a bucket."""
    order, low, high = _inside(x, view)
    at = order[low:high]
    if len(at) <= most:
        return at
    pair = _bucket(x[at], view, buckets) * (int(group.max(initial=0)) + 1) + group[at]
    return at[np.sort(np.unique(pair, return_index=True)[1])]


def _inside(x: np.ndarray, view: tuple[float, float]) -> tuple[np.ndarray, int, int]:
    """Return the places (int64) of numbers in their order, without those of NaN, and which of them are in the view."""
    at = np.flatnonzero(~np.isnan(x))
    if not np.all(np.diff(x[at]) >= 0):
        at = at[np.argsort(x[at], kind="stable")]
    return at, int(np.searchsorted(x[at], view[0], "left")), int(np.searchsorted(x[at], view[1], "right"))


def _bucket(x: np.ndarray, view: tuple[float, float], buckets: int) -> np.ndarray:
    """Return the bucket of each row; rows before and after the view have their own buckets."""
    width = max(view[1] - view[0], 1e-9)
    inside = np.clip((x - view[0]) / width * buckets, 0, buckets - 1).astype(np.int64)
    return np.where(x < view[0], -1, np.where(x > view[1], buckets, inside))


def lanes_of(first: np.ndarray, last: np.ndarray, gap: float) -> np.ndarray:
    """Return for intervals in order of their starts the lowest lane (int64) in which each is free of those before."""
    ends: list[float] = []
    found = np.zeros(len(first), np.int64)
    for at, (begin, end) in enumerate(zip(first, last)):
        lane = next((one for one, until in enumerate(ends) if until + gap <= begin), len(ends))
        ends[lane : lane + 1] = [float(end)]
        found[at] = lane
    return found
