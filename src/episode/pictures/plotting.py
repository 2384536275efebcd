"""Plots: charts of the matches of a result."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeError, install
from episode.pictures.charts.drawing import spec_of
from episode.pictures.look import Look
from episode.pictures.looking import WIDTH, look

if TYPE_CHECKING:
    from episode.pictures.picture import Picture


def plot(result: object, *, width: int = WIDTH, height: int | None = None, **wish: Any) -> Picture:
    """The chart of a result's matches; see `episode.plot`."""
    check_installed()
    if height is not None and (isinstance(height, bool) or not isinstance(height, int) or height < 40):
        raise EpisodeAnalysisError(f"height={height!r}: a number of pixels from 40 on is needed.")
    ahead = Thread(target=_load, daemon=True)
    ahead.start()
    shown = look(result, width=width, **wish)
    ahead.join()
    return chart_of(shown, width, height)


def _load() -> None:
    """What takes its time when it is first used, while Spark reads the rows."""
    from episode.matchers.engines import load
    from episode.pictures import picture  # noqa: F401

    load()


def chart_of(shown: Look, width: int = WIDTH, height: int | None = None) -> Picture:
    """The chart of a look."""
    check_installed()
    from episode.pictures.picture import picture_of

    return picture_of(spec_of(shown, width, height))


def check_installed() -> None:
    """Are the packages there that draw?"""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        message = f"Plots need the package {error.name}, which is not installed."
        raise EpisodeError(message, hint=f"{install('plot')}.") from None
