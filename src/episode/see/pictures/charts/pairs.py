"""The chart of a pair of correlated matches: both over the series, and the time of the recency."""

from __future__ import annotations

from episode.see.pictures.charts.parts import (
    INK,
    Spec,
    by_name,
    chart,
    layer,
    panel,
    series_axis,
    series_line,
    x_of,
)
from episode.see.pictures.charts.rows import HEIGHT, overview
from episode.see.pictures.look import Look

STEP = 34


def pair_chart(look: Look, width: int, height: int | None) -> Spec:
    """The series with the rows of both matches, and below it a lane for either pattern."""
    x, x2, y = x_of(look), {"field": "x2"}, series_axis(look)
    colour, shape = by_name("label", look.names, "rows of the match")
    lanes = list(look.lanes)
    lane: Spec = {"field": "lane", "type": "ordinal", "sort": lanes, "title": None, "scale": {"domain": lanes}}
    lane["axis"] = {"grid": False, "labelFontSize": 12, "labelColor": INK, "domain": False, "ticks": False}
    points = {
        "type": "point",
        "filled": True,
        "size": 60,
        "stroke": "white",
        "strokeWidth": 0.5,
        "opacity": 1,
        "clip": True,
    }
    region = {"type": "rect", "color": "#8a6d00", "opacity": 0.1, "clip": True}
    edge = {"type": "rule", "color": "#8a6d00", "strokeWidth": 1.2, "strokeDash": [4, 3], "clip": True}
    text = {
        "type": "text",
        "align": "left",
        "baseline": "bottom",
        "dx": 5,
        "dy": -4,
        "fontSize": 11,
        "color": "#6b5500",
    }
    bar = {"type": "bar", "height": 16, "cornerRadius": 2, "clip": True}
    opacity = {"condition": {"test": "datum.chosen", "value": 1}, "value": 0.35}
    own, _ = by_name("lane", look.names, None, legend=False)
    tips = [{"field": "label"}, {"field": "y", "title": look.series}, {"field": "time", "title": look.axis.title}]
    hidden = x_of(look, axis=False)
    begin = f"max(datum.x, {look.view[0]!r})"
    said = layer("recency", text, x=x_of(look, "from", axis=False), y={"value": "height"}, text={"field": "text"})
    said["transform"] = [{"calculate": begin, "as": "from"}]
    detail = panel(
        [
            layer("recency", region, x=hidden, x2=x2),
            layer("recency", edge, x=hidden),
            layer("recency", edge, x=x_of(look, "x2", axis=False)),
            series_line(look, axis=False),
            layer("rows", points, x=hidden, y=y, color=colour, shape=shape, tooltip=tips),
            said,
        ],
        width,
        height or (max(90, 30 * len(look.categories)) if look.categories else HEIGHT - 40),
        zoom="zoom",
    )
    tip = {"field": "tip", "title": "match"}
    below = panel(
        [
            layer("recency", region, x=x, x2=x2),
            layer("recency", edge, x=x),
            layer("recency", edge, x=x_of(look, "x2")),
            layer("matches", bar, x=x, x2=x2, y=lane, color=own, opacity=opacity, tooltip=tip),
        ],
        width,
        {"step": STEP},
    )
    panels = [detail, below] if look.matches else [detail]
    if "overview" in look.tables:
        panels.append(overview(look, width))
    return chart(look, panels, look.tables)
