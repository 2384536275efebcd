"""Constants of a query: dates and timestamps that are written out, and values of named parameters.

See decision 89.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, closest
from episode.lang.duration import parse_duration
from episode.lang.lexer import SURROGATES, Token, lone_surrogate, parameters_in, tokenize
from episode.lang.syntax import NOWHERE, Duration, Source
from episode.plan.expressions import Constant
from episode.plan.types import DAY_TIME, VOID, WIDEST_DECIMAL

# Dates and timestamps as literals: DATE '2024-01-02' and TIMESTAMP '2024-01-02 10:30:00', and all texts that Spark
# reads as a time.


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
    """Return microseconds since 1970; of local time if the moment has no time zone."""
    return (moment - _FIRST.replace(tzinfo=moment.tzinfo and timezone.utc)) // timedelta(microseconds=1)


def read_time(text: str) -> tuple[datetime, str | None] | None:
    """Read a time in any form that Spark accepts, with the zone that it names; None for other texts."""
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
    """Return the zone for +1, +01:30, UTC+2, or the name of a region; None if it is unknown."""
    offset = _OFFSET.fullmatch(name)
    try:
        if offset is None:
            return timezone.utc if name.upper() in ("Z", "UTC", "GMT", "UT") else ZoneInfo(name)
        shift = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(shift if offset["sign"] == "+" else -shift)
    except (ValueError, KeyError, OSError):
        return None


# Values of named parameters: constants of the types that Spark gives to Python's values.

Arguments = Mapping[str, object]
EXAMPLE = "Write for example args={'x': 5}."
TYPES = "Values are int, float, Decimal, str, bool, datetime, date, timedelta or None."
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class SubqueryRows:
    """The rows of a subquery, in place of the value of a parameter. Spark evaluates it with the expression around it.

    text: the subquery as written. read_as: Spark's text in place of the parameter, with the rows at {rows}.
    is_list: is it a list of values, after IN? frame: a DataFrame of the rows.
    """

    text: str
    read_as: str
    is_list: bool
    frame: Any = field(repr=False, compare=False)


def check_arguments(source: str, tokens: Sequence[Token], arguments: Arguments) -> None:
    """Check that every parameter of a text has a value of a known type, and every value a parameter."""
    for given, value in arguments.items():
        if not isinstance(given, str) or not given.isidentifier():
            raise EpisodeAnalysisError(f"args: {given!r} is not the name of a parameter.", hint=EXAMPLE)
        if value is not None and not isinstance(value, (bool, int, float, Decimal, str, date, timedelta)):
            raise EpisodeUnsupportedError(f"args: the value of {given} is a {type(value).__name__}.", hint=TYPES)
        if (isinstance(value, int) and not -(2**63) <= value < 2**63) or (
            isinstance(value, Decimal) and not value.is_finite()
        ):
            raise EpisodeUnsupportedError(f"args: {given}={value} is beyond the numbers of SQL.", hint=TYPES)
        if getattr(value, "nanosecond", 0) or getattr(value, "nanoseconds", 0):  # of pandas
            message = f"args: {given}={value} has parts of a microsecond; SQL's timestamps have microseconds."
            raise EpisodeUnsupportedError(message, hint=f"Cut them off: {given}.floor('us').")
        if isinstance(value, str) and (at := lone_surrogate(value)) is not None:
            message = f"args: the value of {given} has a lone surrogate (U+{ord(value[at]):04X}), not a character."
            raise EpisodeAnalysisError(message, hint=SURROGATES)
    used = parameters_in(tokens)
    for name, span in used:
        if name not in arguments:
            guess = closest(name, arguments)
            raise EpisodeAnalysisError(
                f"There is no value for the parameter :{name}.",
                source=source,
                position=span.start,
                length=span.end - span.start,
                hint=f"Did you mean :{guess}?" if guess else f"Give it by its name: args={{{name!r}: …}}.",
            )
    unused = [name for name in arguments if name not in {name for name, _ in used}]
    if unused:
        there = ", ".join(dict.fromkeys(f":{name}" for name, _ in used))
        hint = f"Its parameters: {there}." if there else "It has no parameters: leave args out."
        raise EpisodeAnalysisError(f"The query has no parameter :{unused[0]}.", hint=hint)


def constant_of(value: object) -> Constant | None:
    """Return the value of a parameter for the expression machine; None if the machine does not hold such values."""
    if value is None:
        return Constant(None, VOID)
    if isinstance(value, bool):
        return Constant(int(value), "boolean")
    if isinstance(value, int):
        return Constant(value, "int" if -(2**31) <= value < 2**31 else "bigint")
    if isinstance(value, float):
        return Constant(value, "double")
    if isinstance(value, str):
        return Constant(value, "string")
    if isinstance(value, datetime):
        aware = value.tzinfo is not None  # without a zone, a moment is in that of this process, as in Spark
        seconds = timegm(value.utctimetuple()) if aware else int(time.mktime(value.timetuple()))
        return Constant(seconds * 1_000_000 + value.microsecond, "timestamp")
    if isinstance(value, date):
        return Constant((value - _EPOCH).days, "date")
    if isinstance(value, timedelta):
        return Constant(value // timedelta(microseconds=1), DAY_TIME)
    return _decimal(value) if isinstance(value, Decimal) else None


def _decimal(value: Decimal) -> Constant | None:
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > WIDEST_DECIMAL:
        return None
    unscaled = int("".join(map(str, digits))) * 10 ** max(0, int(exponent))
    return Constant(-unscaled if sign else unscaled, f"decimal({precision},{scale})")


def bound_duration(duration: Duration, arguments: Arguments, source: Source) -> Duration:
    """Replace the parameter of a duration by its value: a number, a timedelta, or a text as in a query."""
    if duration.parameter is None:
        return duration
    value = arguments.get(duration.parameter)
    found = duration_in(value)
    if found is None or found.amount >= 2**63:
        message = f"The value of :{duration.parameter} is not a duration: {value!r}."
        hint = "Give a timedelta, a text such as '10 minutes', or a number where event time is one."
        raise source.error(EpisodeAnalysisError, message, duration.span, hint)
    return replace(duration, amount=found.amount, unit=found.unit)


def duration_in(value: object) -> Duration | None:
    """A value that is a duration: a timedelta, a number where event time is one, or a text as in a query."""
    found = None
    if isinstance(value, timedelta):
        found = Duration(value // timedelta(microseconds=1), "microseconds", NOWHERE)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = Duration(value, None, NOWHERE)
    elif isinstance(value, str):
        cursor = Cursor(value, tokenize(value))
        found = parse_duration(cursor)
        if not cursor.at_end or found.parameter is not None:
            return None
    return found if found is not None and found.amount >= 0 else None


def arguments_text(arguments: Arguments) -> str:
    """Return the values of parameters in one line, for explain and to identify the query of a checkpoint.

    Subqueries are part of the query's text and are left out.
    """
    given = sorted(name for name, value in arguments.items() if not isinstance(value, SubqueryRows))
    return ", ".join(f"{name}={arguments[name]!r}" for name in given)
