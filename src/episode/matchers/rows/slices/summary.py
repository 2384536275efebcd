"""What the slices of a key must know of each other, where matches are a chain; and its way through them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.slicing import Entry

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

    def passed(self, entry: Entry) -> Entry:
        """Where a chain that enters there comes into the slice after this one."""
        place, number, cover = entry.place, entry.number, entry.cover
        if place < self.places:
            joins = int(self.joins[place])
            assert joins >= 0, "no chain enters there"
            number += int(self.matches_before[place])
            cover = max(cover, int(self.cover_before[place]))
            if joins < self.places:
                number += self.matches - int(self.left_out[place])
                cover, joins = max(cover, self.cover), self.leaves
            place = joins
        return Entry(place - self.places, number, max(0, cover - self.places))
