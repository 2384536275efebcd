"""Column of the input that a picture draws along its time, and its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.syntax import ColumnRef, Scalar
from episode.plan.schema import OWN

MOST_CATEGORIES = 12
OTHERS = "others"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TEXTS = ("string", "boolean", "varchar", "char")


@dataclass(frozen=True)
class Series:
    """A column and its values for the rows that are drawn. y: numbers, or places among the categories; NaN for null."""

    name: str
    y: np.ndarray
    categories: tuple[str, ...] = ()


def chosen_column(
    types: Mapping[str, str], wished: str | None, mentioned: Iterable[str], never: Iterable[str]
) -> str | None:
    """The column to draw: the one that was asked for; else the first number, else the first text, that the query
    mentions; else the first number that there is. types: of the input's columns. never: keys, and the time."""
    if wished is not None:
        found = next((name for name in types if name.lower() == wished.lower()), None)
        if found is None or not types[found].startswith((*_NUMBERS, *_TEXTS)):
            guess = closest(wished, types)
            known = ", ".join(name for name in types if not name.startswith(OWN))
            what = "There is no such column." if found is None else f"It is of type {types[found]}."
            raise EpisodeAnalysisError(
                f"series={wished!r}: a column of numbers or texts is needed. {what}",
                hint=(f"Did you mean {guess}? " if guess and found is None else "") + f"Columns of the input: {known}.",
            )
        return found
    barred = {name.lower() for name in never}
    by_lower = {name.lower(): name for name in types if name.lower() not in barred and not name.startswith(OWN)}
    read = [by_lower[name.lower()] for name in mentioned if name.lower() in by_lower]
    for names, kinds in ((read, _NUMBERS), (read, _TEXTS), (list(by_lower.values()), _NUMBERS)):
        one = next((name for name in names if types[name].startswith(kinds)), None)
        if one is not None:
            return one
    return None


def series_of(table: pa.Table, name: str) -> Series:
    """The values of a column."""
    column = table.column(name)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = pc.cast(column, pa.float64(), safe=False)
        return Series(name, np.asarray(pc.fill_null(values, float("nan")), np.float64))
    encoded = pc.cast(column, pa.string()).combine_chunks().dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1), np.int64)
    names = encoded.dictionary
    counts = np.bincount(codes[codes >= 0], minlength=len(names))
    kept = sorted(np.argsort(-counts, kind="stable")[: MOST_CATEGORIES - (len(names) > MOST_CATEGORIES)])
    place = np.full(len(names) + 1, len(kept), np.float64)
    place[kept] = np.arange(len(kept))
    place[-1] = np.nan
    rest = (OTHERS,) if len(names) > len(kept) else ()
    return Series(name, place[codes], (*(names[one].as_py() for one in kept), *rest))


def columns_in(scalars: Iterable[Scalar]) -> Iterator[str]:
    """The columns that scalars of a query mention, in order, those inside of calls too."""
    for scalar in scalars:
        for _, atom in scalar.atoms:
            if isinstance(atom, ColumnRef) or hasattr(atom, "path"):
                yield from atom.path[:2]  # the first may be the name of the table
            elif hasattr(atom, "argument"):
                yield from columns_in([atom.argument])
            elif hasattr(atom, "arguments"):
                yield from columns_in(atom.arguments)
