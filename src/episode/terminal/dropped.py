"""Events of a stream that take no part in matching, in words: nothing is dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

DROPPED = {
    "late": "late",
    "null_times": "without a time",
    "duplicates": "repeated",
    "after_end": "after the end",
    "given_up": "given up",
    "skipped": "of skipped keys",
}
"""Counters, and how they are called. Late events are always shown; the others where there are any."""


def dropped_of(counters: Mapping[str, Any]) -> dict[str, int]:
    """The counters among others; one that is not there counts nothing."""
    return {name: int(_value(counters, name)) for name in DROPPED}


def _value(counters: Mapping[str, Any], name: str) -> Any:
    """Spark's rows are no mappings, but have names in brackets."""
    try:
        return counters[name] or 0
    except (KeyError, ValueError):
        return 0


def added(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of several."""
    found = list(counted)
    return {name: sum(one[name] for one in found) for name in DROPPED}


def in_words(dropped: Mapping[str, int]) -> str:
    """As `3 late, 2 without a time`."""
    shown = [name for name in DROPPED if name == "late" or dropped[name]]
    return ", ".join(f"{dropped[name]:,} {DROPPED[name]}" for name in shown)


def as_rows(dropped: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """A row of a picture for each."""
    return [(DROPPED[name], f"{dropped[name]:,}", "") for name in DROPPED if name == "late" or dropped[name]]
