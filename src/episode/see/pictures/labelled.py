"""The matches of a pattern with their rows and labels, whatever the query's own output is: found again by the same
engine, in this process, over rows that were brought here.

The plan of the query stays as it is; only its output differs: the places of rows, and their labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from episode.matchers.engines import matcher_spec
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.plan import output as extent
from episode.plan.expressions import Current, Load
from episode.plan.output import (
    TIMED_OUT_COLUMN,
    Extreme,
    FinalMatches,
    MatchConfidence,
    MeasurePlan,
    NumberOfMatch,
    OutputAtom,
    RowArray,
    RowMode,
)
from episode.plan.pattern import PatternPlan
from episode.plan.schema import OWN
from episode.see.inspecting import Inspected, LocalRows

PLACE = f"{OWN}place"
"""The column with the place of a row among those that are looked at."""
_AT = Load(PLACE, Current(0), "bigint")
FIRST, LAST, COUNT, NUMBER = f"{OWN}first", f"{OWN}last", f"{OWN}count", f"{OWN}number"
_FINAL, _CONFIDENCE = f"{OWN}final", f"{OWN}confidence"
_VALUES: dict[type, str] = {NumberOfMatch: NUMBER, FinalMatches: _FINAL, MatchConfidence: _CONFIDENCE}
PLACES, LABELS = f"{OWN}places", f"{OWN}labels"

EXTENT: dict[OutputAtom, str] = {
    Extreme("min", None, True, _AT, _AT): FIRST,
    Extreme("max", None, True, _AT, _AT): LAST,
    extent.COUNT: COUNT,
}
WHOLE: dict[OutputAtom, str] = {RowArray(None, True, _AT, False): PLACES, RowArray(None, True, None, False): LABELS}


@dataclass(frozen=True)
class OrderedRows:
    """Rows of one or several keys: those of a key together, in the order of the pattern.

    table: the columns that the pattern reads, and further ones. time: images (int64) of the column that orders them.
    """

    table: pa.Table
    key: np.ndarray
    time: np.ndarray

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class MatchExtents:
    """The matches among rows, by their place in the order in which they are found.

    first, last: places of the earliest and the latest row. count: how many rows. number: within the key, from 1 on.
    final: of collapsed matches, how many each stands for. confidence: where time is imprecise. empty: how many matches
    have no row; they are not among these.
    """

    place: np.ndarray
    first: np.ndarray
    last: np.ndarray
    count: np.ndarray
    number: np.ndarray
    timed_out: np.ndarray
    final: np.ndarray | None = None
    confidence: np.ndarray | None = None
    empty: int = 0

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class LabelledMatch:
    """The rows of one match, by their places, and the label (or variable) of each."""

    places: np.ndarray
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Labelling:
    """A pattern whose matches are asked for with their rows. inspected: with as few columns as matching needs."""

    inspected: Inspected

    @staticmethod
    def of(inspected: Inspected) -> Labelling:
        return Labelling(replace(inspected, plan=inspected.plan.narrow()))

    @property
    def plan(self) -> PatternPlan:
        return self.inspected.plan

    def order_rows(self, table: pa.Table) -> OrderedRows:
        """Put rows from Spark in order, by key."""
        spec = matcher_spec(self.plan, table.schema)
        events = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
        return OrderedRows(events.table, events.key, events.time)

    def extents(self, rows: OrderedRows) -> MatchExtents:
        atoms = {**EXTENT, **{atom: _VALUES[type(atom)] for atom in self.plan.match_values}}
        plan = self.with_output(atoms, (PLACE,))
        nothing = rename_atoms(matcher_spec(plan, _with_places(rows).schema).output_schema.empty_table(), plan, atoms)
        table = pa.concat_tables([nothing, *self._match_rows(rows, atoms)])
        there = np.asarray(table.column(COUNT).combine_chunks().fill_null(0)) > 0
        place, empty = np.flatnonzero(there), int(np.count_nonzero(~there))
        table = table.filter(pa.array(there))
        first, last, count = (ints(table.column(name)) for name in (FIRST, LAST, COUNT))
        timed_out = np.zeros(len(place), np.bool_)
        if TIMED_OUT_COLUMN in table.column_names:
            timed_out = np.asarray(table.column(TIMED_OUT_COLUMN)).astype(np.bool_)
        numbered = NUMBER in table.column_names
        number = ints(table.column(NUMBER)) if numbered else numbers_of(rows.key[first], first, last)
        final, confidence = _floats(table, _FINAL), _floats(table, _CONFIDENCE)
        return MatchExtents(place, first, last, count, number, timed_out, final, confidence, empty)

    def label_matches(self, rows: OrderedRows, places: np.ndarray) -> list[LabelledMatch]:
        """Return the rows and labels of some matches, by their places among all of them (`MatchExtents.place`)."""
        wanted = np.unique(places)
        by_place: dict[int, LabelledMatch] = {}
        passed = 0
        for table in self._match_rows(rows, WHOLE):
            low, high = np.searchsorted(wanted, (passed, passed + table.num_rows))
            for place in wanted[low:high]:
                at = int(place) - passed
                found = np.asarray(table.column(PLACES)[at].values, np.int64)
                names = table.column(LABELS)[at].as_py()
                order = np.argsort(found, kind="stable")
                by_place[int(place)] = LabelledMatch(found[order], tuple(names[one] for one in order))
            passed += table.num_rows
            if len(by_place) == len(wanted):
                break
        return [by_place[int(place)] for place in places]

    def keys_and_times(self) -> dict[OutputAtom, str]:
        """The values of the key columns (by their numbers), and the times of the first and the last row."""
        plan = self.plan
        keys = extent.key_at(plan, extent.FIRST)
        atoms: dict[OutputAtom, str] = {keys[name]: key_name(at) for at, name in enumerate(plan.keys)}
        if plan.order:
            time = Load(plan.order[0].column, Current(0), plan.types[plan.order[0].column])
            atoms |= {Extreme("min", None, True, time, time): FIRST, Extreme("max", None, True, time, time): LAST}
        return atoms

    def first_matches(self, most: int) -> pa.Table:
        """Keys and times of matches of the whole input, the first that Spark finds."""
        atoms = self.keys_and_times()
        plan = self.with_output(atoms)
        source = self.inspected.source
        assert not isinstance(source, LocalRows)  # of these all matches are looked at
        return rename_atoms(source.first_matches(plan, self.inspected.placed.run, most), plan, atoms)

    def with_output(self, atoms: dict[OutputAtom, str], further: tuple[str, ...] = ()) -> PatternPlan:
        """The pattern with these values as its output, and what its conditions on whole matches need. further: columns
        (bigint) of the input."""
        plan = self.plan
        every = {**atoms, **(plan.measures.atoms if plan.result.conditions else {})}
        measures = MeasurePlan(plan.measures.measures, every)
        output = replace(plan.output, measures=measures, columns=(), before=0, rows=RowMode.ONE_ROW)
        columns = (*plan.input_columns, *further)
        types = {**plan.types, **dict.fromkeys(further, "bigint")}
        return replace(plan, output=output, input_columns=columns, types=types)

    def _match_rows(self, rows: OrderedRows, atoms: dict[OutputAtom, str]) -> Iterator[pa.Table]:
        """The matches, as tables of bounded size, with these values of each."""
        plan = self.with_output(atoms, (PLACE,))
        for found in match_tables(plan, _with_places(rows), rows):
            yield rename_atoms(self._keep(plan, found), plan, atoms)

    def _keep(self, plan: PatternPlan, matched: pa.Table) -> pa.Table:
        """Return the matches for which the conditions on whole matches hold."""
        texts = [condition.sql for condition in plan.result.conditions]
        if not texts or matched.num_rows == 0:
            return matched
        return matched.filter(pa.array(self.inspected.keep(matched, texts)))


def match_tables(plan: Any, table: pa.Table, rows: OrderedRows) -> Iterator[pa.Table]:
    """Yield the matches of a pattern, or of two that are correlated, in a table with the columns of some rows."""
    spec = matcher_spec(plan, table.schema)
    matcher = spec.open()
    yield from matcher.feed(EventBatch(table.select(list(spec.input_columns)), rows.key, rows.time), END_OF_TIME)
    yield from matcher.finish()


def key_name(at: int) -> str:
    """Return the column with the values of a key column, by its number."""
    return f"{OWN}key_{at}"


def rename_atoms(table: pa.Table, plan: PatternPlan, atoms: dict[OutputAtom, str]) -> pa.Table:
    """Add the values under the names that were asked for: the query itself may return the same under other names."""
    for atom, name in atoms.items():
        own = plan.measures.atoms[atom]
        if own != name:
            table = table.append_column(name, table.column(own))
    return table


def _with_places(rows: OrderedRows) -> pa.Table:
    return rows.table.append_column(PLACE, pa.array(np.arange(len(rows), dtype=np.int64)))


def numbers_of(key: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The matches of each key, counted from 1 on by their starts, then by their ends."""
    order = np.lexsort((last, first, key))
    ordered = key[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    lengths = np.diff(np.append(begins, len(ordered)))
    number = np.empty(len(key), np.int64)
    number[order] = np.arange(len(key)) - np.repeat(begins, lengths) + 1
    return number


def ints(column: pa.ChunkedArray) -> np.ndarray:
    """Return whole numbers; null as 0."""
    return np.asarray(column.combine_chunks().fill_null(0), np.int64)


def _floats(table: pa.Table, name: str) -> np.ndarray | None:
    if name not in table.column_names:
        return None
    return np.asarray(table.column(name).cast(pa.float64()).combine_chunks(), np.float64)
