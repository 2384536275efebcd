"""Numbers, durations and values as sentences have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from episode.plan.types import is_integer
from episode.queries.reasons.finding import Finding
from episode.queries.reasons.plain import plain

UNITS = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "µs"))


def length(amount: int, time_type: str) -> str:
    """A duration: a number where time is one, else with its units."""
    if is_integer(time_type):
        return f"{amount:,}"
    parts, left = list[str](), amount
    for size, unit in UNITS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts) or "0 s"


def shown(value: object) -> str:
    """A value as a sentence has it."""
    if isinstance(value, str):
        return f"'{value}'"
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(one) for one in value)}]"
    return str(plain(value))


def listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {shown(value)}" for name, value in values.items())


def counted(number: int, more: bool, what: str, plural: str | None = None) -> str:
    """`12 candidates`, `at least 10,000 candidates`."""
    words = what if number == 1 and not more else plural or f"{what}s"
    return f"{'at least ' if more else ''}{number:,} {words}"


def together(parts: Sequence[str], word: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def no_events(key: Mapping[str, object]) -> Finding:
    """There is nothing at the key."""
    return Finding("no events", f"There are no events{f' with {listed(key)}' if key else ''}.", count=0)
