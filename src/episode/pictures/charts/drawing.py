"""The chart of a look, by its kind."""

from __future__ import annotations

from collections.abc import Callable

from episode.pictures.charts.events import event_chart
from episode.pictures.charts.pairs import pair_chart
from episode.pictures.charts.parts import Spec
from episode.pictures.charts.rows import row_chart
from episode.pictures.charts.situations import situation_chart
from episode.pictures.look import Look

_CHARTS: dict[str, Callable[[Look, int, int | None], Spec]] = {
    "rows": row_chart,
    "events": event_chart,
    "situations": situation_chart,
    "correlation": pair_chart,
}


def spec_of(look: Look, width: int, height: int | None = None) -> Spec:
    """The Vega-Lite specification. height: of the panel with the matches; None: as fits."""
    return _CHARTS[look.kind](look, width, height)
