"""Positions of rows along the horizontal axis: their times, numbers or places."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError

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
