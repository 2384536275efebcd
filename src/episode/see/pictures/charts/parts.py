"""Parts of all charts: axes, brackets of matches, colours and shapes of names, titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from episode.see.pictures.axis import PLACE, TIME
from episode.see.pictures.look import Look, Table

Spec = dict[str, Any]

COLOURS = ("#0072b2", "#c14a00", "#117733", "#a3337a", "#4b3fb0", "#7a4b00", "#00717a", "#5f5f5f")
"""Told apart with any colour vision, and at least 4.5 times as dark as the paper."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
INK, SOFT, FAINT, PAPER, FORBIDDEN, GAINED = "#1b1f24", "#57606a", "#d0d7de", "#ffffff", "#b3261e", "#117733"
STRIP = 16
"""Pixels of the strip at the top of the panel of a series: the labels of the match, one after the other."""
LANE = 15
"""Pixels of a lane of brackets."""
_FORMATS = ((1_000.0, "%H:%M:%S.%L"), (60_000.0, "%H:%M:%S"), (86_400_000.0, "%H:%M"), (28 * 86_400_000.0, "%d %b"))

CONFIG: Spec = {
    "background": PAPER,
    "font": "system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT, "titleColor": SOFT, "gridColor": "#eaeef2", "domainColor": FAINT, "tickColor": FAINT,
        "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal",
    },
    "axisY": {"titlePadding": 8},
    "legend": {"orient": "top", "titleColor": SOFT, "labelColor": INK, "symbolStrokeWidth": 0, "labelFontSize": 12},
    "title": {
        "anchor": "start", "frame": "group", "color": INK, "fontSize": 15, "subtitleColor": SOFT,
        "subtitleFontSize": 12, "offset": 10,
    },
    "concat": {"spacing": 6},
}  # fmt: skip


def chart(look: Look, panels: Sequence[Spec], tables: Mapping[str, Table], subtitle: Sequence[str] = ()) -> Spec:
    """Put all panels under a title, with what the picture does not show below it."""
    return {
        "description": look.description,
        "title": {"text": look.title, "subtitle": [*subtitle, *look.notes]},
        "config": CONFIG,
        "datasets": {name: [dict(row) for row in table] for name, table in tables.items()},
        "vconcat": list(panels),
    }


def layer(data: str, mark: Mapping[str, Any] | str, where: str | None = None, **encoding: Any) -> Spec:
    """A mark for each row of a table. where: a condition on rows."""
    found: Spec = {"data": {"name": data}, "mark": mark, "encoding": encoding}
    if where is not None:
        found["transform"] = [{"filter": where}]
    return found


def when_chosen(chosen: Any, otherwise: Any) -> Spec:
    """A value for the match that the picture is about, and one for all else."""
    return {"condition": {"test": "datum.chosen", "value": chosen}, "value": otherwise}


def lane_axis(lanes: Sequence[str]) -> Spec:
    """The vertical position by the names of lanes."""
    axis = {"grid": False, "labelFontSize": 12, "labelColor": INK, "domain": False, "ticks": False}
    names = list(lanes)
    scale = {"domain": names}
    return {"field": "lane", "type": "ordinal", "sort": names, "title": None, "scale": scale, "axis": axis}


def panel(layers: Sequence[Spec], width: int, height: Any, zoom: str | None = None) -> Spec:
    """zoom: the name under which it can be moved and zoomed along its time."""
    if zoom is not None:
        select = {"type": "interval", "encodings": ["x"]}
        layers = [{**layers[0], "params": [{"name": zoom, "select": select, "bind": "scales"}]}, *layers[1:]]
    return {"width": width, "height": height, "layer": list(layers)}


def x_of(look: Look, field: str = "x", view: tuple[float, float] | None = None, axis: bool = True) -> Spec:
    """The horizontal position of a field. axis: is the axis drawn?"""
    low, high = look.view if view is None else view
    if low == high:
        low, high = low - 1, high + 1
    kind: Spec = {"type": "temporal" if look.axis.kind == TIME else "quantitative"}
    scale: Spec = {"domain": [low, high], "nice": False, "zero": False}
    if look.axis.kind == TIME:
        scale = {"type": "utc", "domain": [low, high], "nice": False}
    shown: Any = None
    if axis:
        shown = {"title": look.axis.title, "grid": False, "labelOverlap": True, "tickCount": 8}
        if look.axis.kind == TIME:
            step = (high - low) / 8
            written = next((text for least, text in _FORMATS if step < least), "%b %Y")
            day = look.axis.day((low + 0.03 * (high - low), high - 0.03 * (high - low))) if step < 86_400_000 else ""
            shown |= {"title": f"{look.axis.title}{day}", "format": written}
        elif look.axis.kind == PLACE:
            shown |= {"tickMinStep": 1, "format": ",d"}
    return {"field": field, **kind, "scale": scale, "axis": shown}


def names_scale(names: Sequence[str]) -> tuple[Spec, Spec]:
    """The colours and the shapes of labels, variables or symbols: no two have both the same."""
    count = len(COLOURS)
    colours = [COLOURS[at % count] for at in range(len(names))]
    shapes = [SHAPES[(at + at // count) % count] for at in range(len(names))]
    return {"domain": list(names), "range": colours}, {"domain": list(names), "range": shapes}


def by_name(field: str, names: Sequence[str], title: str | None, legend: bool = True) -> tuple[Spec, Spec]:
    """Colour and shape of marks by a field that holds names."""
    colours, shapes = names_scale(names)
    shown = {"title": title, "symbolSize": 90} if legend else None
    colour = {"field": field, "type": "nominal", "scale": colours, "legend": shown}
    return colour, {"field": field, "type": "nominal", "scale": shapes, "legend": shown}


def brackets(look: Look, width: int) -> Spec:
    """A bracket with its number for each match, over the panel with the same times."""
    lanes = 1 + max((match.lane for match in look.matches), default=0)
    x, x2 = x_of(look, axis=False), {"field": "x2"}
    y = {"field": "lane", "type": "ordinal", "axis": None, "scale": {"domain": list(range(lanes)), "reverse": True}}
    strong = when_chosen(INK, "#6e7781")
    thick = when_chosen(3, 1.5)
    tip = {"field": "tip", "title": "match"}
    line = {"type": "rule", "clip": True}
    ends = {"type": "tick", "orient": "vertical", "size": 9, "thickness": 2, "clip": True}
    text = {"type": "text", "align": "right", "baseline": "middle", "dx": -5, "fontSize": 11, "clip": False}
    bold = when_chosen(INK, SOFT)
    within = f"datum.x2 >= {look.view[0]!r} && datum.x <= {look.view[1]!r}"
    start = {"calculate": f"max(datum.x, {look.view[0]!r})", "as": "from"}
    labels = layer("matches", text, x=x_of(look, "from", axis=False), y=y, text={"field": "text"}, color=bold)
    labels["transform"] = [{"filter": within}, start]
    layers = [
        layer("matches", line, within, x=x, x2=x2, y=y, color=strong, strokeWidth=thick, tooltip=tip),
        layer("matches", ends, within, x=x, y=y, color=strong, tooltip=tip),
        layer("matches", ends, within, x=x_of(look, "x2", axis=False), y=y, color=strong, tooltip=tip),
        labels,
    ]
    return panel(layers, width, {"step": LANE})


def series_axis(look: Look) -> Spec:
    """The vertical position along the series: its numbers, or its values as names."""
    if look.categories:
        names = list(look.categories)
        return {"field": "y", "type": "ordinal", "sort": names, "title": look.series, "scale": {"domain": names}}
    scale = {"zero": False, "nice": True, "padding": STRIP + 4}
    return {"field": "y", "type": "quantitative", "title": look.series, "scale": scale}


def series_line(look: Look, data: str = "line", view: tuple[float, float] | None = None, axis: bool = True) -> Spec:
    """The series itself: a line, or points where its values are names."""
    x, y = x_of(look, view=view, axis=axis), series_axis(look)
    if look.categories:
        mark = {"type": "point", "size": 16, "filled": True, "color": "#8c959f", "clip": True}
        return layer(data, mark, x=x, y=y)
    return layer(data, {"type": "line", "strokeWidth": 1.3, "color": "#6e7781", "clip": True}, x=x, y=y)
