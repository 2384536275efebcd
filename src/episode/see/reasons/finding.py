"""Findings of every language as data, as text with carets into the query and as HTML, and the words that they use."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, place_of
from episode.lang.syntax import Source, Span
from episode.plan.types import is_integer
from episode.words import DAY, duration_cut


@dataclass(frozen=True)
class Expectation:
    """The key and the times between which a match was expected: to begin (rows and events), or to be (situations). Both
    times are included, and values of the time column; None: no bound. One time alone is both."""

    key: Mapping[str, object]
    first: Any
    last: Any


@dataclass(frozen=True)
class Finding:
    """One reason, or one fact, in an answer.

    kind: one of few words ('condition', 'end of rows', 'skipped', 'window', 'found', 'missing' …).
    message: one sentence. span: the place in the query's text that the sentence is about, if there is one.
    at: the time of the event that the sentence is about. values: the columns that matter, by their names in the query.
    count: how many attempts, events or candidates the sentence is true of.
    data: further values by name, for programs.
    """

    kind: str
    message: str
    span: Span | None = None
    at: Any = None
    values: Mapping[str, object] = field(default_factory=dict)
    count: int | None = None
    data: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self, source: Source) -> dict[str, object]:
        """Return JSON values. source: the text that the span is in."""
        span = self.span
        return {
            "kind": self.kind,
            "message": self.message,
            "span": None if span is None else [span.start, span.end],
            "text": None if span is None else source.text_at(span),
            "at": plain(self.at),
            "values": plain(self.values),
            "count": self.count,
            "data": plain(self.data),
        }

    def lines(self, source: Source) -> list[str]:
        """Return the lines of the query that the finding is about, with carets; none without a span."""
        span = self.span
        return [] if span is None else place_of(source.text, span.start, span.end - span.start)

    def text(self, source: Source) -> str:
        """Return the sentence, and below it the place in the query."""
        return "\n".join([self.message, *self.lines(source)])

    def html(self, source: Source) -> str:
        """Return an item of a list."""
        lines = html.escape("\n".join(self.lines(source)))
        place = "" if self.span is None else f"<pre style='margin:0.3em 0 0.8em 1em'>{lines}</pre>"
        return f"<li><b>{html.escape(self.kind)}</b>: {html.escape(self.message)}{place}</li>"


def plain(value: object) -> object:
    """Return a value of JSON; times, and types that JSON does not have, become texts."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (timedelta, Decimal)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    return str(value)


def length(amount: int, time_type: str) -> str:
    return f"{amount:,}" if is_integer(time_type) else duration_cut(amount)


def quote_value(value: object) -> str:
    """Return a value as SQL would write it: `'text'`, `null`, `[1, 2]`."""
    if isinstance(value, str):
        return f"'{value}'"
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(quote_value(one) for one in value)}]"
    return str(plain(value))


def list_values(values: Mapping[str, object]) -> str:
    """Return `v = 3, w = 'x'`."""
    return ", ".join(f"{name} = {quote_value(value)}" for name, value in values.items())


def at_least(number: int, more: bool) -> str:
    """Return `12` or `at least 10,000`."""
    return f"{'at least ' if more else ''}{number:,}"


def in_zone(value: Any, zone: tzinfo | None) -> Any:
    """Return a time by the clock of a zone, if both have one."""
    if isinstance(value, datetime) and value.tzinfo is not None and zone is not None:
        return value.astimezone(zone)
    return value


@dataclass(frozen=True)
class Words:
    """Events of one key in words. time_column: the column of the table whose values tell where an event is. zone: the
    clock that times are shown by."""

    table: pa.Table
    time_column: str
    time_type: str
    zone: tzinfo | None

    def time(self, row: int) -> Any:
        return in_zone(self.table.column(self.time_column)[row].as_py(), self.zone)

    def moment(self, row: int) -> str:
        """Return the time of an event in words."""
        return str(plain(self.time(row)))

    def length(self, amount: int) -> str:
        return length(amount, self.time_type)


def time_value(argument: str, given: object, column: str, type_: str, zone: str | None) -> Any:
    """Return a caller's value as a value of a column: timestamps get the zone of the session, TIMESTAMP_NTZ has none.
    argument: its name, for errors."""
    example = "1200" if is_integer(type_) else "'2026-01-31'" if type_ == "date" else "'2026-01-31 10:04:00'"
    message = f"{argument}={given!r} does not fit the column {column} of type {type_}."
    wrong = EpisodeAnalysisError(message, hint=f"Write for example at={example}.")
    if type_ in ("timestamp", "timestamp_ntz"):
        value = _parse(datetime, given, wrong)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if not isinstance(value, datetime) or (type_ == "timestamp_ntz" and value.tzinfo is not None):
            raise wrong
        if hasattr(value, "to_pydatetime"):  # a Timestamp of pandas
            value = value.to_pydatetime(warn=False)
        return value if type_ == "timestamp_ntz" or value.tzinfo is not None else value.replace(tzinfo=_zone(zone))
    if type_ == "date":
        value = _parse(date, given, wrong)
        if not isinstance(value, date) or isinstance(value, datetime):
            raise wrong
        return value
    if is_integer(type_) and (isinstance(given, bool) or not isinstance(given, int)):
        raise wrong
    return given


def _parse(kind: type[date], given: object, wrong: EpisodeAnalysisError) -> Any:
    try:
        return kind.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise wrong from None


def earlier(time: Any, amount: int) -> Any:
    """Return a time that is an amount before another: microseconds, or units of a number."""
    if isinstance(time, datetime):
        return time - timedelta(microseconds=amount)
    if isinstance(time, date):
        return time - timedelta(days=-(-amount // DAY) if amount > 0 else amount // DAY)
    return time - amount


def later(time: Any, amount: int) -> Any:
    """Return a time that is an amount after another; None if no value can represent it."""
    try:
        return earlier(time, -amount)
    except OverflowError:
        return None


def _zone(name: str | None) -> Any:
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError):
        raise EpisodeAnalysisError(
            f"The zone of the session, {name}, is not known here.", hint="Give times that include a zone."
        ) from None
