"""Class names of event patterns against the values of the input: what looks like a mistake is a warning.

Rows are looked at piece by piece, until every name has been found: mostly the first piece is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import warn
from episode.lang.cursor import closest
from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventColumn,
    EventPattern,
    EventQuery,
    Negation,
    children,
    classes_of,
    event_atoms,
)
from episode.matchers.columns import from_texts
from episode.queries.language import Given

PIECE = 1 << 16
"""Rows that are looked at together."""

_KEPT, _SHOWN = 1_000, 5


@dataclass(frozen=True)
class Rows:
    """Rows of an input that can be looked at before a query runs. read: some columns, in pieces; whole: of all rows,
    and not of a sample."""

    schema: pa.Schema
    read: Callable[[list[str]], Iterator[pa.Table]]
    whole: bool


def rows_of_table(table: pa.Table) -> Rows:
    def read(names: list[str]) -> Iterator[pa.Table]:
        wanted = table.select(names)
        return (wanted.slice(begin, PIECE) for begin in range(0, table.num_rows, PIECE))

    return Rows(table.schema, read, True)


def warn_of_class_names(query: EventQuery, given: Given, rows: Rows) -> None:
    """Warn of classes that no event has, and of names that look like classes if no column has the class."""
    names = list(dict.fromkeys(one.name for one in classes_of(query.pattern)))
    column = given.type_column or query.input.type_column
    types = ((one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type) for one in rows.schema)
    texts = {name.lower(): name for name, kind in types if pa.types.is_string(kind) or pa.types.is_large_string(kind)}
    if column is None:
        _warn_of_aliases(query, given, rows, names, texts)
    elif column.lower() in texts:
        _warn_of_absent(query, rows, names, texts[column.lower()])


def _warn_of_absent(query: EventQuery, rows: Rows, names: list[str], column: str) -> None:
    missing, known = _look_for(names, column, rows.read([column]))
    if not known:
        return
    needed = set(_classes_of_every_match(query.pattern))
    for name in missing:
        same = next((one for one in known if one.strip().lower() == name.lower()), None)
        guess = same or closest(name, known)
        if same is None and not (name in needed and (rows.whole or guess is not None)):
            continue  # may be absent: negated or optional, or rare in what is only a sample
        looked = "no row has" if rows.whole else "none of the rows that were looked at has"
        values = ", ".join(repr(one) for one in known[:_SHOWN])
        more = ", …" if len(known) > _SHOWN else ""
        warn(
            f"No event is of the class {name}: {looked} {column} = {name!r}."
            + (f" Did you mean {guess!r}?" if guess is not None else "")
            + f" Values of {column}: {values}{more}."
        )


def _warn_of_aliases(query: EventQuery, given: Given, rows: Rows, names: list[str], texts: dict[str, str]) -> None:
    """Without a type column names are aliases of any row; if a column has them as values, it was probably meant."""
    atoms = (atom for one in query.conditions for atom in event_atoms(one))
    used = {atom.path[0].lower() for atom in atoms if isinstance(atom, EventColumn)}
    used |= {name.lower() for one in query.same for name in one.path[:1]}
    used |= {name.lower() for name in (*given.key, *query.input.partition_by)}
    for column in (name for lower, name in texts.items() if lower not in used):
        first = next(rows.read([column]), None)
        missing, known = ([], []) if first is None else _look_for(names, column, iter((first,)))
        if known and not missing:
            listed, are, these = (
                (names[0], "is an alias", "this value")
                if len(names) == 1
                else (f"{', '.join(names[:-1])} and {names[-1]}", "are aliases", "these values")
            )
            warn(
                f"{listed} {are} of any row, and the column {column} has {these}. "
                f"If they name classes of events, give type_column={column!r} (in SQL: TYPE BY {column}); "
                "if not, choose other names."
            )
            return


def _look_for(names: list[str], column: str, pieces: Iterator[pa.Table]) -> tuple[list[str], list[str]]:
    """The names that no row has, and some of the values there are."""
    missing, known = names, dict[str, None]()
    for piece in pieces:
        for chunk in piece.column(column).chunks:
            values = pc.unique(chunk)
            if pa.types.is_dictionary(values.type):
                values = values.dictionary_decode()
            values = values.drop_null().cast(pa.string())
            found = pc.is_in(from_texts(missing), value_set=values).to_pylist()
            missing = [name for name, there in zip(missing, found, strict=True) if not there]
            known |= dict.fromkeys(values.slice(0, _KEPT - min(len(known), _KEPT)).to_pylist())
            if not missing:
                return [], list(known)
    return missing, list(known)


def _classes_of_every_match(pattern: EventPattern) -> Iterator[str]:
    """Names of classes that every match has."""
    if isinstance(pattern, (Negation, Disjunction)) or (isinstance(pattern, Closure) and pattern.minimum == 0):
        return
    yield from (one.name for one in classes_of(pattern) if one is pattern)
    for part in children(pattern):
        yield from _classes_of_every_match(part)
