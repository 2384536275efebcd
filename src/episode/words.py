"""Counts, durations, sizes and values in words. Every package may import this module; it imports none."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

MICROSECOND, MILLISECOND, SECOND = 1, 1_000, 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "µs"))
_LONG_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("s", 1))


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return `row` for 1 and `rows` for other numbers."""
    return one if number == 1 else many or f"{one}{'es' if one.endswith('ch') else 's'}"


def count_of(number: int, one: str, many: str | None = None) -> str:
    """Return `1 match` or `1,204 matches`."""
    return f"{number:,} {plural(number, one, many)}"


def join_words(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def duration(microseconds: float) -> str:
    """Return a duration in its two largest units, rounded: `4 min 12 s`, `31.1 s`."""
    value = abs(microseconds)
    sign = "−" if microseconds < 0 else ""
    if value < 1:
        return "0 s"
    for index, (length, name) in enumerate(_UNITS):
        if value < length * (1 - 0.5e-3):  # rounded to the next unit, it is shown in that
            continue
        if length <= SECOND:
            short = value / length
            return f"{sign}{short:.3g} {name}" if short < 100 else f"{sign}{short:.0f} {name}"
        following, unit = _UNITS[index + 1]
        whole = round(value / following)
        left = whole % (length // following)
        return f"{sign}{whole // (length // following):,} {name}" + (f" {left} {unit}" if left else "")
    return f"{sign}{value:.0f} µs"


def exact_duration(microseconds: int) -> str:
    """Return a duration in the largest unit of which it is a whole number: `90 minutes`, `1.5 seconds`."""
    for length, unit in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (SECOND, "second")):
        if microseconds and microseconds % length == 0:
            return count_of(microseconds // length, unit)
    return f"{microseconds / SECOND:,.6f}".rstrip("0").removesuffix(".") + " seconds"


def duration_cut(microseconds: int) -> str:
    """Return a duration in its two largest units, cut off: `4 min 12 s`, `31 s 100 ms`."""
    parts, left = list[str](), microseconds
    for length, unit in _UNITS:
        if left >= length and len(parts) < 2:
            parts.append(f"{left // length} {unit}")
            left %= length
    return " ".join(parts) or "0 s"


def duration_in_one_unit(seconds: float) -> str:
    """Return a duration in the largest unit that fits: `1.5 min`."""
    for length, unit in _UNITS[:3]:
        if abs(seconds) * SECOND >= length:
            return f"{seconds * SECOND / length:,.1f} {unit}"
    return f"{seconds:.1f} s"


def duration_in_full(seconds: float) -> str:
    """Return a duration with its unit written out: `10 minutes`."""
    if not math.isfinite(seconds):
        return "never"
    for unit, length in _LONG_UNITS:
        if seconds >= length and (unit == "s" or seconds % length == 0 or seconds >= 10 * length):
            value = f"{seconds / length:,.3g}"
            return f"{value} {unit[:-1] if value == '1' and unit != 's' else unit}"
    return f"{seconds * 1000:.3g} ms" if seconds else "0 s"


def size(count: float) -> str:
    """Return bytes in powers of 1000: `1.5 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def binary_size(count: float) -> str:
    """Return bytes in powers of 1024: `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"


def value_text(value: Any) -> str:
    """Return a value of a table for people to read."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, datetime):
        exact = "microseconds" if value.microsecond % 1000 else "milliseconds" if value.microsecond else "seconds"
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec=exact)
    if isinstance(value, bytes):
        return base64.b16encode(value).decode()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {value_text(part)}" for name, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return str(value)
