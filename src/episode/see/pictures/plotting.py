"""Plots of the matches of a result: what they show, as data, and the charts.

See decision 152.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeError, install
from episode.queries.origins import PlacedPattern, origin_of
from episode.see.inspecting import patterns_at
from episode.see.pictures.charts.matches import event_chart, pair_chart, row_chart, situation_chart
from episode.see.pictures.charts.parts import Spec
from episode.see.pictures.choosing import Wish
from episode.see.pictures.look import Look

if TYPE_CHECKING:
    from episode.see.pictures.picture import Picture

WIDTH = 760

_CHARTS: dict[str, Callable[[Look, int, int | None], Spec]] = {
    "rows": row_chart,
    "events": event_chart,
    "situations": situation_chart,
    "correlation": pair_chart,
}


def plot(result: object, *, width: int = WIDTH, height: int | None = None, **wish: Any) -> Picture:
    """Draw the matches of a query; see `Query.plot`."""
    check_installed()
    if height is not None and (isinstance(height, bool) or not isinstance(height, int) or height < 40):
        raise EpisodeAnalysisError(f"height={height!r}: a number of pixels from 40 on is needed.")
    ahead = Thread(target=_load, daemon=True)
    ahead.start()
    shown = look(result, width=width, **wish)
    ahead.join()
    return chart_of(shown, width, height)


def _load() -> None:
    """Load what takes time when it is first used, while Spark reads the rows."""
    from episode.matchers.engines import load
    from episode.see.pictures import picture  # noqa: F401

    load()


def look(result: object, *, pattern: int | None = None, **wish: Any) -> Look:
    """Return what `plot` draws, as data, for those who draw it themselves. The arguments are those of `plot`.

    result: a DataFrame that `sql` or `match` returned, or the origin of one.
    """
    return look_at(origin_of(result).pattern(pattern), Wish(**wish))


def look_at(placed: PlacedPattern, wish: Wish) -> Look:
    given = patterns_at(placed)
    return placed.language.look(given, wish, given[0].source.zone)


def chart_of(shown: Look, width: int = WIDTH, height: int | None = None) -> Picture:
    check_installed()
    from episode.see.pictures.picture import picture_of

    return picture_of(spec_of(shown, width, height))


def check_installed() -> None:
    """Raise an error if the packages that draw are not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        message = f"Plots need the package {error.name}, which is not installed."
        raise EpisodeError(message, hint=f"{install('plot')}.") from None


def spec_of(look: Look, width: int, height: int | None = None) -> Spec:
    """Return the Vega-Lite specification of a look. height: of the panel with the matches; None: as fits."""
    return _CHARTS[look.kind](look, width, height)
