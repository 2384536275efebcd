"""Dates and timestamps that a query writes out: DATE '2024-01-02', TIMESTAMP '2024-01-02 10:30:00'."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

_WRITTEN = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?", re.ASCII)
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
    return (moment - _FIRST) // timedelta(microseconds=1)
