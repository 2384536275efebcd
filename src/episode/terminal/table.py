"""Rows as a table on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from episode.words import value_text


def result_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table of a few rows; columns of numbers are aligned to the right, nulls are dim."""
    shown = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(names):
        values = [row[index] for row in shown if row[index] is not None]
        numeric = bool(values) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in shown:
        table.add_row(*map(cell, row))
    return table


def cell(value: Any) -> Text:
    """Return one value as text, without markup."""
    if value is None:
        return Text("null", style="dim")
    return Text(value_text(value))
