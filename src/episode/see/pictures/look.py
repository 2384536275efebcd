"""Contents of a picture of matches, as data: bounded by what a screen can show, without any library that draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from episode.see.pictures.axis import Axis
from episode.words import count_of

Table = tuple[Mapping[str, Any], ...]
"""Rows of what is drawn, each a mapping from names to numbers and texts (JSON)."""


@dataclass(frozen=True)
class MatchMark:
    """One match that is drawn. number: within its key, from 1 on. first, last: positions on the axis.

    rows: how many rows it has. lane: of its bracket, from 0 on. chosen: is it the one that the picture is about?
    note: what else is to be said of it.
    """

    number: int
    first: float
    last: float
    rows: int
    lane: int = 0
    chosen: bool = False
    note: str = ""


@dataclass(frozen=True)
class Look:
    """A key of a pattern's input, and the matches in it, as a picture shows them.

    kind: 'rows', 'events', 'situations' or 'correlation'. key: its values, by column. view: positions between which
    things are drawn. matches: those that are drawn; total: how many the key has. names: labels, variables or symbols in
    the order of the pattern, of which colours and shapes are. lanes: names on the vertical axis, where it has names.
    series: the column that is drawn as a line; categories: its values, if they are not numbers. notes: what the
    picture does not show, in sentences. tables: what is drawn, by name.
    """

    kind: str
    title: str
    key: Mapping[str, object]
    axis: Axis
    view: tuple[float, float]
    matches: tuple[MatchMark, ...]
    total: int
    names: tuple[str, ...]
    lanes: tuple[str, ...] = ()
    series: str | None = None
    categories: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)

    @property
    def chosen(self) -> MatchMark | None:
        return next((match for match in self.matches if match.chosen), None)

    @property
    def description(self) -> str:
        """The picture in words, for those who do not see it."""
        axis, (low, high) = self.axis, self.view
        drawn, total = len(self.matches), count_of(self.total, "match")
        words = [
            f"{self.title}.",
            f"{axis.title} from {axis.text(low)} to {axis.text(high)}.",
            f"{drawn:,} of {total} of the key {'is' if drawn == 1 else 'are'} drawn.",
        ]
        if self.chosen is not None:
            one = self.chosen
            words.append(
                f"Match {one.number} lasts from {axis.text(one.first)} to {axis.text(one.last)} and has "
                f"{count_of(one.rows, 'row')}{', ' + one.note if one.note else ''}."
            )
        return " ".join([*words, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON has it; the values of the key as texts."""
        found = asdict(self)
        found["key"] = {name: None if value is None else str(value) for name, value in self.key.items()}
        found["description"] = self.description
        return found
