"""Dates and timestamps that are written out: DATE '2024-01-02' and TIMESTAMP '2024-01-02 10:30:00' in a query, and all
that Spark reads as a time."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_WRITTEN = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?", re.ASCII)
_TIME = re.compile(
    r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?P<clock>(?:[ T]+(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2}))?(?::(?P<second>\d{1,2}))?(?:\.(?P<part>\d{0,9}))?)?)"
    r"(?P<zone>\s*[A-Za-z+-].*)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{1,2}))?")
_FIRST = datetime(1970, 1, 1)
MOMENTS = ("date", "timestamp", "timestamp_ntz")


def moment_of(text: str, type_: str) -> int | None:
    """Days, or microseconds of local time, since 1970; None for texts that only Spark reads, or nobody."""
    if _WRITTEN.fullmatch(text) is None or (type_ == "date" and len(text) != len("2024-01-02")):
        return None
    day, time = text[:10], text[11:]
    seconds, _, fraction = time.partition(".")
    try:
        if type_ == "date":
            return (date.fromisoformat(day) - _FIRST.date()).days
        moment = datetime.fromisoformat(f"{day} {seconds or '00:00:00'}.{fraction.ljust(6, '0')}")
    except ValueError:
        return None
    return microseconds(moment)


def microseconds(moment: datetime) -> int:
    """Since 1970; of local time where the moment has no time zone."""
    return (moment - _FIRST.replace(tzinfo=moment.tzinfo and timezone.utc)) // timedelta(microseconds=1)


def read_time(text: str) -> tuple[datetime, str | None] | None:
    """A time in any of the ways in which Spark reads one, and the zone that it names; None: it is none."""
    found = _TIME.fullmatch(text.strip())
    if found is None or (found["zone"] and not found["clock"]):
        return None
    numbers = [int(found[name] or least) for name, least in (("year", 0), ("month", 1), ("day", 1))]
    clock = [int(found[name] or 0) for name in ("hour", "minute", "second")]
    part = int((found["part"] or "0").ljust(6, "0")[:6])
    try:
        moment = datetime(*numbers, *clock).replace(microsecond=part)  # type: ignore[arg-type]
    except ValueError:
        return None
    return moment, found["zone"] and found["zone"].strip()


def zone_of(name: str) -> tzinfo | None:
    """+1, +01:30, UTC+2, or the name of a region; None: there is no such zone."""
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return timezone.utc if name.upper() in ("Z", "UTC", "GMT", "UT") else ZoneInfo(name)
        shift = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(shift if offset["sign"] == "+" else -shift)
    except (ValueError, KeyError, OSError):
        return None
