"""The chart of a situation pattern's matches: bars of situations, the relations that held, the time that was gained."""

from __future__ import annotations

from episode.see.pictures.charts import parts
from episode.see.pictures.charts.parts import Spec, by_name, chart, lane_axis, layer, panel, when_chosen, x_of
from episode.see.pictures.charts.rows import overview
from episode.see.pictures.look import Look

STEP = 48
SERIES = 110
MATCH = "match"


def situation_chart(look: Look, width: int, height: int | None) -> Spec:
    """The series over a lane for the matches and one for each symbol."""
    symbol = lane_axis([MATCH, *look.lanes])
    match = {name: part for name, part in symbol.items() if name not in ("field", "sort")} | {"datum": MATCH}
    x, x2 = x_of(look), {"field": "x2"}
    colour, _ = by_name("lane", look.names, None, legend=False)
    tip = {"field": "tip", "title": "situation"}
    bar = {"type": "bar", "height": 18, "cornerRadius": 2, "clip": True}
    hollow = {**bar, "fill": "white", "strokeWidth": 1.2, "strokeDash": [3, 2], "height": 12}
    pale = {**bar, "fillOpacity": 0.3, "strokeWidth": 1}
    text = {"type": "text", "align": "left", "dx": 2, "dy": 17, "fontSize": 11, "color": parts.SOFT, "clip": True}
    on = {"type": "point", "shape": "triangle-right", "filled": True, "size": 80, "xOffset": 6, "clip": False}
    span = {"type": "rule", "strokeWidth": 3, "clip": True}
    strong = when_chosen(parts.INK, "#8c959f")
    gained = {"type": "rule", "color": parts.GAINED, "strokeWidth": 9, "opacity": 0.55, "clip": True}
    mark = {"type": "point", "shape": "diamond", "filled": True, "size": 110, "color": parts.GAINED, "opacity": 1}
    line = {"type": "rule", "color": parts.GAINED, "strokeWidth": 1.5, "strokeDash": [5, 3], "clip": True}
    end = {"type": "rule", "color": parts.INK, "strokeWidth": 1, "strokeDash": [2, 2], "clip": True}
    said = {
        "type": "text",
        "align": "left",
        "dy": -15,
        "dx": 4,
        "fontSize": 11,
        "fontWeight": "bold",
        "color": parts.GAINED,
    }
    link = {"type": "rule", "color": parts.INK, "strokeWidth": 1, "clip": True}
    italic = {"fontSize": 11, "fontStyle": "italic", "color": parts.INK}
    relation = {"type": "text", "align": "left", "dx": 5, "dy": -18, **italic, "clip": True}
    detection = {"field": "tip", "title": "match"}
    ends = x_of(look, "x2")
    mine, other, none = (f"datum.role == 'of {whose}'" for whose in ("the chosen match", "another match", "no match"))
    chosen = "datum.chosen"
    layers = [
        layer("situations", hollow, none, x=x, x2=x2, y=symbol, stroke=colour, tooltip=tip),
        layer("situations", pale, other, x=x, x2=x2, y=symbol, color=colour, stroke=colour, tooltip=tip),
        layer("situations", bar, mine, x=x, x2=x2, y=symbol, color=colour, tooltip=tip),
        layer("situations", on, "datum.open", x=ends, y=symbol, color=colour),
        layer("situations", text, mine, x=x, y=symbol, text={"field": "text"}),
        layer("detections", line, chosen, x=x),
        layer("detections", end, chosen, x=ends),
        layer("matches", span, x=x, x2=x2, y=match, color=strong, tooltip=detection),
        layer("detections", gained, "datum.x2 > datum.x", x=x, x2=x2, y=match),
        layer("detections", mark, x=x, y=match, tooltip=detection),
        layer("detections", said, chosen, x=x, y=match, text={"field": "text"}),
        layer("relations", link, x=x, y={**symbol, "field": "left"}, y2={"field": "right"}),
        layer("relations", relation, x=x, y={**symbol, "field": "right"}, text={"field": "text"}),
    ]
    bars = panel(layers, width, height or {"step": STEP}, zoom="zoom")
    panels = [bars]
    if "line" in look.tables:
        dots = {"type": "point", "size": 14, "filled": True, "color": parts.SOFT, "clip": True}
        shown = [parts.series_line(look, axis=False)]
        if not look.categories and len(look.tables["line"]) <= width // 6:
            shown.append(layer("line", dots, x=x_of(look, axis=False), y=parts.series_axis(look)))
        for mark_, at in ((line, "x"), (end, "x2")):
            shown.append(layer("detections", mark_, chosen, x=x_of(look, at, axis=False)))
        panels = [panel(shown, width, 26 * len(look.categories) or SERIES), bars]
    if "overview" in look.tables:
        panels.append(overview(look, width))
    return chart(look, panels, look.tables, ["◆ when the match was certain; dashed outlines: situations of no match"])
