"""The chart of a pair of correlated matches: both over the series, and the time of the recency."""

from __future__ import annotations

from episode.see.pictures.charts import parts
from episode.see.pictures.charts.parts import Spec, by_name, chart, lane_axis, layer, panel, when_chosen, x_of
from episode.see.pictures.charts.rows import HEIGHT, overview
from episode.see.pictures.look import Look

STEP = 34


def pair_chart(look: Look, width: int, height: int | None) -> Spec:
    """The series with the rows of both matches, and below it a lane for either pattern."""
    x, x2, y = x_of(look), {"field": "x2"}, parts.series_axis(look)
    colour, shape = by_name("label", look.names, "rows of the match")
    white = {"stroke": "white", "strokeWidth": 0.5}
    points = {"type": "point", "filled": True, "size": 60, **white, "opacity": 1, "clip": True}
    region = {"type": "rect", "color": "#8a6d00", "opacity": 0.1, "clip": True}
    edge = {"type": "rule", "color": "#8a6d00", "strokeWidth": 1.2, "strokeDash": [4, 3], "clip": True}
    left = {"align": "left", "baseline": "bottom", "dx": 5, "dy": -4}
    text = {"type": "text", **left, "fontSize": 11, "color": "#6b5500"}
    bar = {"type": "bar", "height": 16, "cornerRadius": 2, "clip": True}
    opacity = when_chosen(1, 0.35)
    own, _ = by_name("lane", look.names, None, legend=False)
    tips = [{"field": "label"}, {"field": "y", "title": look.series}, {"field": "time", "title": look.axis.title}]
    hidden = x_of(look, axis=False)
    begin = f"max(datum.x, {look.view[0]!r})"
    said = layer("recency", text, x=x_of(look, "from", axis=False), y={"value": "height"}, text={"field": "text"})
    said["transform"] = [{"calculate": begin, "as": "from"}]
    layers = [
        layer("recency", region, x=hidden, x2=x2),
        layer("recency", edge, x=hidden),
        layer("recency", edge, x=x_of(look, "x2", axis=False)),
        parts.series_line(look, axis=False),
        layer("rows", points, x=hidden, y=y, color=colour, shape=shape, tooltip=tips),
        said,
    ]
    high = max(90, 30 * len(look.categories)) if look.categories else HEIGHT - 40
    detail = panel(layers, width, height or high, zoom="zoom")
    tip, lane = {"field": "tip", "title": "match"}, lane_axis(look.lanes)
    bars = [
        layer("recency", region, x=x, x2=x2),
        layer("recency", edge, x=x),
        layer("recency", edge, x=x_of(look, "x2")),
        layer("matches", bar, x=x, x2=x2, y=lane, color=own, opacity=opacity, tooltip=tip),
    ]
    below = panel(bars, width, {"step": STEP})
    panels = [detail, below] if look.matches else [detail]
    if "overview" in look.tables:
        panels.append(overview(look, width))
    return chart(look, panels, look.tables)
