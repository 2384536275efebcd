"""Numbers, times and lengths of time as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from episode.words import duration

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Clock:
    """How values of a time column are read. clock: are they microseconds since 1970, or bare numbers? zone: of the
    clock that is shown."""

    clock: bool
    zone: str = "UTC"

    @property
    def zone_name(self) -> str:
        return self.zone.removeprefix("Etc/")

    def moment(self, value: float) -> str:
        """A time in full."""
        if not self.clock:
            return number(value)
        try:
            found = self.at(value)
        except OverflowError:
            return f"{value:,.0f} µs"
        return found.isoformat(sep=" ", timespec="auto" if found.microsecond % 1000 else _precision(found))

    def at(self, value: float) -> datetime:
        """A time as the clock on the wall shows it."""
        return (_EPOCH + timedelta(microseconds=int(value))).astimezone(zone_of(self.zone)).replace(tzinfo=None)

    def wall(self, value: float) -> float:
        """A time as microseconds on that clock, or the number itself."""
        if not self.clock:
            return value
        try:
            return (self.at(value) - _EPOCH.replace(tzinfo=None)) / timedelta(microseconds=1)
        except OverflowError:
            return value

    def length(self, value: float) -> str:
        """A length of time."""
        return duration(value) if self.clock else number(value)


def zone_of(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return timezone.utc


def _precision(moment: datetime) -> str:
    return "milliseconds" if moment.microsecond else "seconds"


def number(value: float) -> str:
    """With thousands set apart; whole numbers without a point."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"


def share(part: float, whole: float) -> str:
    """In per cent, never rounded to nothing or to all."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %" if percent < 99.95 else "100 %"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s"
