"""What the slices of a key must know of each other, where matches are a chain; and its way through them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes, to_bytes

_SCALARS = ("places", "rows_before", "leaves", "matches", "cover")
_ENTRIES = ("joins", "matches_before", "cover_before", "left_out")


@dataclass(frozen=True)
class Summary:
    """The chains of one slice. Places are its rows, counted from the first that it owns.

    places: how many it owns. rows_before: the rows of its overlap before them. Of its own chain, which is followed from
    place 0: leaves: the place at which it goes on after the slice; matches: how many it has; cover: the place after all
    of them.
    By place at which the chain may enter (int64): joins: where it joins the slice's own chain, or (not less than
    `places`) goes on after the slice without that; -1: no chain enters there. matches_before: its matches until then;
    cover_before: the place after these; left_out: matches of the slice's own chain that start before.
    """

    places: int
    rows_before: int
    leaves: int
    matches: int
    cover: int
    joins: np.ndarray
    matches_before: np.ndarray
    cover_before: np.ndarray
    left_out: np.ndarray

    def to_bytes(self) -> bytes:
        scalars = json.dumps([int(getattr(self, name)) for name in _SCALARS])
        table = pa.table({name: getattr(self, name) for name in _ENTRIES})
        return to_bytes(table.replace_schema_metadata({"slice": scalars}))

    @staticmethod
    def from_bytes(data: bytes) -> Summary:
        table = from_bytes(data)
        scalars = json.loads(table.schema.metadata[b"slice"])
        entries = {name: table.column(name).to_numpy() for name in _ENTRIES}
        return Summary(*scalars, **entries)


@dataclass(frozen=True)
class Entry:
    """Where the chain comes into a slice: at a place (which may lie beyond its end), after so many matches; cover: the
    place after all of them."""

    place: int = 0
    number: int = 0
    cover: int = 0

    def through(self, summary: Summary) -> Entry:
        """Where it comes into the slice after this one."""
        places = summary.places
        place, number, cover = self.place, self.number, self.cover
        if place < places:
            joins = int(summary.joins[place])
            assert joins >= 0, "no chain enters there"
            number += int(summary.matches_before[place])
            cover = max(cover, int(summary.cover_before[place]))
            if joins < places:
                number += summary.matches - int(summary.left_out[place])
                cover, joins = max(cover, summary.cover), summary.leaves
            place = joins
        return Entry(place - places, number, max(0, cover - places))


def entry_into(number: int, summaries: Mapping[int, bytes]) -> Entry:
    """Where the chain comes into a slice; slices without rows have no summary."""
    entry = Entry()
    for before in sorted(summaries):
        if before >= number:
            break
        entry = entry.through(Summary.from_bytes(summaries[before]))
    return entry
