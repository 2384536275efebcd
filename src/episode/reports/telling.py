"""The matches that tell most: the longest and the shortest, a typical one, those of rare and of busy keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.errors import EpisodeError
from episode.queries.extents import Extents
from episode.reports.data import Picture
from episode.reports.tables import key_text
from episode.reports.wording import Clock, counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.spark.statistics import KeyCount, Match, MatchTable, Totals

_SPECIAL = {
    "longest": "The longest match",
    "shortest": "The shortest match",
    "most rows": "The match with the most rows",
    "first of all": "The first match",
    "last of all": "The last match",
}
NOT_INSTALLED = (
    "Pictures of single matches are left out: they need altair and vl-convert (pip install 'episode[plot]')."
)


@dataclass(frozen=True)
class Told:
    """One match, and what is special about it."""

    why: str
    match: Match


def telling(table: MatchTable, totals: Totals, top: list[KeyCount], rarest: KeyCount | None, most: int) -> list[Told]:
    """Matches that differ from one another, up to so many."""
    if not totals.placed:
        return []
    examples = totals.examples
    found = [Told(_SPECIAL["longest"], examples["longest"])]
    typical = table.nearest(totals.lengths[1])
    if typical is not None:
        found.append(Told("A typical match: its length is the median", typical))
    found += [Told(_SPECIAL[name], examples[name]) for name in ("shortest", "most rows") if name in examples]
    if rarest is not None and rarest.longest is not None and top and rarest.matches < top[0].matches:
        found.append(
            Told(f"A match of the rarest key: it has {counted(rarest.matches, 'match', 'matches')}", rarest.longest)
        )
    if top and top[0].longest is not None:
        few = counted(top[0].matches, "match", "matches")
        found.append(Told(f"The longest match of the busiest key, which has {few}", top[0].longest))
    found += [Told(_SPECIAL[name], examples[name]) for name in ("first of all", "last of all")]
    found += [
        Told(f"The longest of {counted(one.matches, 'match', 'matches')} of {key_text(one.key)}", one.longest)
        for one in top[1:]
        if one.longest is not None
    ]
    different: dict[tuple[object, ...], Told] = {}
    for one in found:
        different.setdefault((one.match.key, one.match.start, one.match.end), one)
    return list(different.values())[:most]


def drawn(
    result: DataFrame, pattern: int | None, told: list[Told], clock: Clock, extents: Extents
) -> tuple[list[Picture], str]:
    """A picture of each match; or why there is none."""
    return [], NOT_INSTALLED


def caption(match: Match, clock: Clock, extents: Extents) -> str:
    """Where and when a match is."""
    rows = "" if match.rows is None else f", {counted(match.rows, 'row')}"
    key = f"{', '.join(extents.keys)} {key_text(match.key)}, " if extents.keys else ""
    return f"{key}{clock.moment(match.start)}, {clock.length(match.end - match.start)}{rows}"


__all__ = ["EpisodeError", "Told", "caption", "drawn", "telling"]
