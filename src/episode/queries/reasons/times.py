"""Times that a caller gives, as values of the column of event time."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from episode.errors import EpisodeAnalysisError
from episode.plan.types import is_integer


def time_value(argument: str, given: object, column: str, type_: str, zone: str | None) -> Any:
    """Return a caller's value as a value of a column: timestamps get the zone of the session, TIMESTAMP_NTZ has none.
    argument: its name, for errors."""
    wrong = EpisodeAnalysisError(
        f"{argument}={given!r} does not fit the column {column} of type {type_}.",
        hint=f"Write for example {_example(type_)}.",
    )
    if type_ in ("timestamp", "timestamp_ntz"):
        value = _datetime(given, wrong)
        if type_ == "timestamp_ntz":
            if value.tzinfo is not None:
                raise wrong
            return value
        return value if value.tzinfo is not None else value.replace(tzinfo=_zone(zone))
    if type_ == "date":
        return _date(given, wrong)
    if is_integer(type_):
        if isinstance(given, bool) or not isinstance(given, int):
            raise wrong
        return given
    return given


def earlier(time: Any, amount: int) -> Any:
    """Return a time that is an amount before another: microseconds, or units of a number."""
    if isinstance(time, datetime):
        return time - timedelta(microseconds=amount)
    if isinstance(time, date):
        return time - timedelta(days=-(-amount // 86_400_000_000) if amount > 0 else amount // 86_400_000_000)
    return time - amount


def later(time: Any, amount: int) -> Any:
    """Return a time that is an amount after another; None if there is no such time."""
    try:
        return earlier(time, -amount)
    except OverflowError:
        return None


def _datetime(given: object, wrong: EpisodeAnalysisError) -> datetime:
    if isinstance(given, str):
        try:
            return datetime.fromisoformat(given)
        except ValueError:
            raise wrong from None
    if isinstance(given, datetime):  # also a Timestamp of pandas
        return given.to_pydatetime(warn=False) if hasattr(given, "to_pydatetime") else given
    if isinstance(given, date):
        return datetime(given.year, given.month, given.day)
    raise wrong


def _date(given: object, wrong: EpisodeAnalysisError) -> date:
    if isinstance(given, str):
        try:
            return date.fromisoformat(given)
        except ValueError:
            raise wrong from None
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    raise wrong


def _zone(name: str | None) -> Any:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError):
        raise EpisodeAnalysisError(
            f"The zone of the session, {name}, is not known here.", hint="Give times with a zone of their own."
        ) from None


def _example(type_: str) -> str:
    if is_integer(type_):
        return "at=1200"
    return "at='2026-01-31'" if type_ == "date" else "at='2026-01-31 10:04:00'"
