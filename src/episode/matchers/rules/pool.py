"""The columns in which the matches of all rules are returned.

Each rule puts its i-th value of a type into the i-th column of that type, so that there are as many columns as the
widest rules need, and not as all rules have.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from episode.matchers.protocol import KEY_COLUMN

RULE_COLUMN = "__episode_rule"
"""The number of the rule that a match is of."""
POOLED = "__episode_value_"


class Pool:
    """Columns by type, as many as were asked for. Fields with other metadata are of other types: they say what Spark's
    type is."""

    def __init__(self) -> None:
        self._places: dict[tuple[pa.DataType, tuple[tuple[bytes, bytes], ...]], list[pa.Field]] = {}
        self._fields: list[pa.Field] = []

    def take(self, schema: pa.Schema, first: Sequence[str] = ()) -> tuple[str, ...]:
        """The columns that hold values of this schema, in its order. first: columns that are given theirs before the
        others, so that they are the same in many rules."""
        taken: dict[object, int] = {}
        names: dict[str, str] = {}
        for one in [*(schema.field(name) for name in first), *(one for one in schema if one.name not in first)]:
            kind = one.type, tuple(sorted((one.metadata or {}).items()))
            places = self._places.setdefault(kind, [])
            at = taken.get(kind, 0)
            if at == len(places):
                places.append(one.with_name(f"{POOLED}{len(self._fields)}").with_nullable(True))
                self._fields.append(places[-1])
            taken[kind] = at + 1
            names[one.name] = places[at].name
        return tuple(names[one.name] for one in schema)

    @property
    def schema(self) -> pa.Schema:
        """The number of the rule, and all columns."""
        return pa.schema([pa.field(RULE_COLUMN, pa.int32(), nullable=False), *self._fields])


def pooled(matches: pa.Table, number: int, columns: Sequence[str], schema: pa.Schema, keyed: bool) -> pa.Table:
    """Matches of a rule in the columns of the pool."""
    count = matches.num_rows
    own = {name: matches.column(at) for at, name in enumerate(columns)}
    arrays: list[pa.Array | pa.ChunkedArray] = [pa.array([number], pa.int32()).take(_zeros(count))]
    for one in list(schema)[1:]:
        column = own.get(one.name)
        arrays.append(pa.nulls(count, one.type) if column is None else column.cast(one.type))
    table = pa.Table.from_arrays(arrays, schema=schema)
    return table.append_column(KEY_COLUMN, matches.column(KEY_COLUMN)) if keyed else table


def _zeros(count: int) -> pa.Array:
    return pa.nulls(count, pa.int32()).fill_null(0)
