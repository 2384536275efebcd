"""What a picture of a result's matches shows: the data of `plot`, for those who draw it themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from episode.errors import EpisodeUnsupportedError
from episode.pictures.choosing import LONGEST, Wish
from episode.pictures.events import look_at_events
from episode.pictures.look import Look
from episode.pictures.pairs import look_at_pairs
from episode.pictures.rows import look_at_rows
from episode.pictures.situations import look_at_situations
from episode.queries.inspecting import Inspected, inspected
from episode.queries.origins import PlacedPattern, origin_of

MOST = 12
WIDTH = 760

_LOOKS: dict[str, Callable[[Inspected, Wish, str], Look]] = {
    "row pattern": look_at_rows,
    "event pattern": look_at_events,
    "situation pattern": look_at_situations,
}


def look(
    result: object,
    *,
    pattern: int | None = None,
    key: object = None,
    between: tuple[object, object] | None = None,
    match: int | None = None,
    choose: str = LONGEST,
    series: str | None = None,
    most: int = MOST,
    width: int = WIDTH,
) -> Look:
    """What `plot` draws, as data. The arguments are those of `plot`."""
    origin = origin_of(result)
    wish = Wish(key, between, match, choose, series, most, width)
    zone = origin.spark.conf.get("spark.sql.session.timeZone") or "UTC"
    return look_at(origin.pattern(pattern), wish, zone)


def look_at(placed: PlacedPattern, wish: Wish, zone: str) -> Look:
    """A planned pattern as it is asked for. zone: the clock that times are shown by."""
    given: tuple[Any, ...] = inspected(placed)
    if len(given) == 2:
        return look_at_pairs(*given, wish, zone)
    language = placed.language
    if language.name not in _LOOKS:
        raise placed.source.error(
            EpisodeUnsupportedError,
            f"{language.called[0].upper()}{language.called[1:]} is not drawn.",
            placed.source.pattern,
            "Write the pattern as MATCH_RECOGNIZE, and plot its result.",
        )
    return _LOOKS[language.name](given[0], wish, zone)
