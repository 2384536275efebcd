"""The chart of an event pattern's matches: lanes of events, what a match takes of them, and what it forbids."""

from __future__ import annotations

from typing import Any

from episode.see.pictures.charts.parts import (
    FORBIDDEN,
    INK,
    Spec,
    brackets,
    by_name,
    chart,
    lane_axis,
    layer,
    panel,
    when_chosen,
    x_of,
)
from episode.see.pictures.charts.rows import overview
from episode.see.pictures.look import Look

STEP = 44
SMALL = 24
CROSS = "M-1,-1L1,1M-1,1L1,-1"


def event_chart(look: Look, width: int, height: int | None) -> Spec:
    """Brackets over lanes of events."""
    lanes, y = list(look.lanes), lane_axis(look.lanes)
    x, x2 = x_of(look), {"field": "x2"}
    colour, shape = by_name("variable", look.names, "event of the match")
    plain, _ = by_name("variable", look.names, None, legend=False)
    tips = [{"field": "variable", "title": "variable"}, {"field": "time", "title": look.axis.title}]
    tips += [{"field": "values", "title": "values"}, {"field": "match", "title": "match"}]
    strength = when_chosen(1, 0.45)
    shade = {"type": "rect", "color": FORBIDDEN, "opacity": 0.1, "clip": True}
    edge = {"type": "rect", "fill": None, "stroke": FORBIDDEN, "strokeDash": [4, 3], "strokeWidth": 1, "clip": True}
    gathered: dict[str, Any] = {"type": "bar", "height": 16, "cornerRadius": 8, "opacity": 0.22, "clip": True}
    count = {"type": "text", "dy": -14, "fontSize": 11, "fontWeight": "bold", "clip": True}
    fits = {"type": "point", "shape": "circle", "size": 34, "color": "#6e7781", "filled": False, "clip": True}
    unfit = {"type": "point", "shape": CROSS, "size": 40, "color": INK, "strokeWidth": 1.8, "clip": True}
    lasting = {"type": "rule", "color": "#6e7781", "strokeWidth": 1.5, "clip": True}
    path = {"type": "line", "clip": True}
    taken = {"type": "point", "filled": True, "stroke": "white", "strokeWidth": 0.6, "clip": True}
    middle = {"calculate": "0.5 * (datum.x + datum.x2)", "as": "middle"}
    size = when_chosen(130, 50)
    depth = when_chosen(0.25, 0.1)
    links: Spec = {
        "strokeWidth": when_chosen(1.8, 0.8),
        "strokeDash": when_chosen([1, 0], [3, 3]),
        "color": when_chosen(INK, "#8c959f"),
        "detail": {"field": "match"},
        "order": {"field": "order"},
    }
    when = [{"field": "time", "title": look.axis.title}]
    several = "datum.chosen && datum.count > 1"
    counted = layer("closures", count, several, x=x_of(look, "middle"), y=y, text={"field": "text"}, color=plain)
    counted["transform"].append(middle)
    grid = {"type": "rule", "color": "#eaeef2"}
    lines: Spec = {"data": {"values": [{"lane": lane} for lane in lanes]}, "mark": grid, "encoding": {"y": y}}
    none = [{"field": "text", "title": "the match allows"}]
    layers = [
        lines,
        layer("stretches", shade, x=x, x2=x2, y=y, tooltip=none),
        layer("stretches", edge, x=x, x2=x2, y=y),
        layer("events", lasting, "datum.x0 < datum.x", x=x_of(look, "x0"), x2={"field": "x"}, y=y),
        layer("events", fits, "datum.fits", x=x, y=y, tooltip=when),
        layer("closures", gathered, x=x, x2=x2, y=y, color=plain, opacity=depth),
        layer("links", path, x=x, y=y, **links),
        layer("events", unfit, "!datum.fits", x=x, y=y, tooltip=when),
        layer("taken", taken, x=x, y=y, color=colour, shape=shape, size=size, opacity=strength, tooltip=tips),
        counted,
    ]  # fmt: skip
    step = STEP if len(lanes) <= 8 else SMALL
    detail = panel(layers, width, height or {"step": step}, zoom="zoom")
    words = ["○ qualifies by itself"]
    if any(not row["fits"] for row in look.tables["events"]):
        words.append("× of the class, but does not qualify")
    if look.tables["stretches"]:
        words.append("dashed: the match allows none here")
    panels = [brackets(look, width), detail] if look.matches else [detail]
    if "overview" in look.tables:
        panels.append(overview(look, width))
    return chart(look, panels, look.tables, [" · ".join(words)])
