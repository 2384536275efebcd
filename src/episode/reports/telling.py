"""The matches that tell most: the longest and the shortest, a typical one, those of rare and of busy keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeError, install
from episode.reports.data import Picture
from episode.reports.tables import key_text
from episode.reports.wording import Clock
from episode.words import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.pictures.look import Look
    from episode.spark.statistics import KeyCount, Match, MatchTable, Totals

_SPECIAL = {
    "longest": "The longest match",
    "shortest": "The shortest match",
    "most rows": "The match with the most rows",
    "first of all": "The first match",
    "last of all": "The last match",
}
WIDTH = 520
"""Of a picture, in pixels: two stand side by side."""
LONGEST_TITLE = 62
AT_ONCE = 4
NOT_INSTALLED = f"Pictures of single matches are left out: a package that draws them is missing. {install('plot')}."


@dataclass(frozen=True)
class TellingMatch:
    """One match, and what is special about it."""

    why: str
    match: Match


def telling(
    table: MatchTable, totals: Totals, top: list[KeyCount], rarest: KeyCount | None, most: int
) -> list[TellingMatch]:
    """Matches that differ from one another, up to so many."""
    examples = totals.examples
    found = [TellingMatch(_SPECIAL["longest"], examples["longest"])]
    typical = table.nearest(totals.lengths[1])
    if typical is not None:
        found.append(TellingMatch("A typical match: its length is the median", typical))
    found += [TellingMatch(_SPECIAL[name], examples[name]) for name in ("shortest", "most rows") if name in examples]
    if rarest is not None and rarest.longest is not None and top and rarest.matches < top[0].matches:
        found.append(
            TellingMatch(f"A match of the rarest key: it has {count_of(rarest.matches, 'match')}", rarest.longest)
        )
    if top and top[0].longest is not None:
        few = count_of(top[0].matches, "match")
        found.append(TellingMatch(f"The longest match of the busiest key, which has {few}", top[0].longest))
    found += [TellingMatch(_SPECIAL[name], examples[name]) for name in ("first of all", "last of all")]
    found += [
        TellingMatch(f"The longest of {count_of(one.matches, 'match')} of {key_text(one.key)}", one.longest)
        for one in top[1:]
        if one.longest is not None
    ]
    different: dict[tuple[object, ...], TellingMatch] = {}
    for one in found:
        different.setdefault((one.match.key, one.match.start, one.match.end), one)
    return list(different.values())[:most]


@dataclass(frozen=True)
class Drawing:
    """How single matches of a pattern are drawn. pattern: its number, where there are several. least: of the time
    around a match that is shown."""

    result: DataFrame
    pattern: int | None
    keys: tuple[str, ...]
    clock: Clock
    least: float

    def pictures(self, chosen: list[TellingMatch]) -> tuple[tuple[Picture, ...], str]:
        """A picture of each match; or why there is none."""
        from episode.pictures.plotting import check_installed

        try:
            check_installed()
        except EpisodeError:
            return (), NOT_INSTALLED
        with ThreadPoolExecutor(AT_ONCE) as threads:  # Spark's answers to small questions are mostly waited for
            looks = threads.map(self._look, chosen)
            return tuple(map(self._picture, chosen, looks)), ""

    def _picture(self, chosen: TellingMatch, seen: Look | EpisodeError) -> Picture:
        from episode.pictures.plotting import chart_of

        caption = self._caption(chosen.match)
        if isinstance(seen, EpisodeError):
            return Picture(chosen.why, caption, None, f"It could not be drawn: {seen.message}")
        if len(seen.title) > LONGEST_TITLE:  # a title that is wider than the picture would make the picture smaller
            seen = replace(seen, title=f"{seen.title[: LONGEST_TITLE - 1]}…")
        return Picture(chosen.why, caption, chart_of(seen, WIDTH).to_svg())

    def _look(self, chosen: TellingMatch) -> Look | EpisodeError:
        """What is drawn, or why it cannot be."""
        from episode.pictures.plotting import look

        match = chosen.match
        length = match.end - match.start
        around = max(0.75 * length, min(self.least, length)) if length else self.least
        between = (self._time(match.start - around), self._time(match.end + around))
        key = dict(zip(self.keys, match.key, strict=True)) if self.keys else None
        choose = "shortest" if chosen.why == _SPECIAL["shortest"] else "longest"
        try:
            return look(self.result, pattern=self.pattern, key=key, between=between, choose=choose, width=WIDTH)
        except EpisodeError as error:
            return error

    def _time(self, value: float) -> object:
        return self.clock.at(value) if self.clock.clock else value

    def _caption(self, match: Match) -> str:
        """Where and when a match is."""
        rows = "" if match.rows is None else f", {count_of(match.rows, 'row')}"
        key = f"{', '.join(self.keys)} {key_text(match.key)}, " if self.keys else ""
        return f"{key}from {self.clock.moment(match.start)} on, {self.clock.length(match.end - match.start)}{rows}"
