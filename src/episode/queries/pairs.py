"""The text in which a reference to the pairs of a correlation stands for two patterns of FROM.

Both patterns keep their names: each is a lateral subquery over the same row of the pairs, which Spark turns into a
projection, in batches as in streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from episode.plan.schema import OWN, quote

PAIRS = f"{OWN}pairs"
"""The name of the pairs in the statement."""


def lateral(columns: Sequence[str], prefix: str, naming: str) -> str:
    """One of the two patterns: those columns of the pairs that have its prefix, without it. naming: its alias."""
    own = [name for name in columns if name.startswith(prefix)]
    items = ", ".join(f"{_column(name)} AS {escaped(quote(name.removeprefix(prefix)))}" for name in own)
    return f"LATERAL (SELECT {items}) {naming}".rstrip()


def tables_text(reference: str, first: str, second: str, conditions: Iterable[str]) -> str:
    """FROM's tables and WHERE. first, second: the lateral subqueries, in the order in which the patterns stood."""
    held = " AND ".join(f"({condition})" for condition in conditions)
    return f"{{{reference}}} AS {PAIRS}, {first}, {second}" + (f" WHERE {held}" if held else "")


def hidden_columns(columns: Sequence[str]) -> str:
    """The columns of the pairs themselves, which no `*` means."""
    return ", ".join(_column(name) for name in columns)


def escaped(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; those of the text are doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def _column(name: str) -> str:
    return f"{PAIRS}.{escaped(quote(name))}"
