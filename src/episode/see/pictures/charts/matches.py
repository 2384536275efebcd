"""The charts of each language's matches: what a match is made of, and all of the key in small."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from episode.see.pictures.charts import parts
from episode.see.pictures.charts.parts import Spec, by_name, lane_axis, layer, panel, when_chosen, x_of
from episode.see.pictures.look import Look, Table

HEIGHT = 260
OVERVIEW = 56
MOST_RUNS = 60
"""Runs of labels of a match that are shown one after the other, at most."""
LETTER = 7.8
"""Pixels of a letter of their names."""
SHADE = "#0072b2"


def row_chart(look: Look, width: int, height: int | None) -> Spec:
    """Brackets, the series around the match, and where in all of the key that is."""
    tables = {**look.tables, "runs": () if look.categories else _runs(look, width), "shades": _shades(look)}
    x, y = x_of(look), parts.series_axis(look)
    colour, shape = by_name("label", look.names, "label")
    tips = [
        {"field": "label", "title": "label"},
        {"field": "y", "title": look.series},
        {"field": "time", "title": look.axis.title},
        {"field": "match", "title": "match"},
    ]
    size = when_chosen(70, 34)
    opacity = when_chosen(1, 0.75)
    points = {"type": "point", "filled": True, "stroke": "white", "strokeWidth": 0.6, "clip": True}
    layers = [
        _shading(look),
        parts.series_line(look),
        layer("rows", points, x=x, y=y, color=colour, shape=shape, size=size, opacity=opacity, tooltip=tips),
        *_strip(look),
    ]
    high = max(90, 30 * len(look.categories)) if look.categories else HEIGHT
    detail = panel(layers, width, height or high, zoom="zoom")
    panels = [parts.brackets(look, width), detail] if look.matches else [detail]
    return _chart(look, width, panels, tables)


def _shading(look: Look) -> Spec:
    """The time of the matches, over the whole height of the panel; that of the chosen one darker."""
    opacity = when_chosen(0.13, 0.05)
    mark = {"type": "rect", "color": SHADE, "clip": True}
    return layer("shades", mark, x=x_of(look), x2={"field": "x2"}, opacity=opacity)


def _shades(look: Look) -> Table:
    """The chosen match, and others that do not overlap: shades would add up."""
    kept: list[dict[str, Any]] = []
    for match in sorted(look.matches, key=lambda one: (not one.chosen, one.first, -one.last)):
        if all(match.last < one["x"] or match.first > one["x2"] for one in kept):
            kept.append({"x": match.first, "x2": match.last, "chosen": match.chosen})
    return tuple(kept)


def _chart(
    look: Look, width: int, panels: list[Spec], tables: Mapping[str, Table], subtitle: Sequence[str] = ()
) -> Spec:
    """Put all of the key in small below the panels, if they show a part of it."""
    below = [_overview(look, width)] if "overview" in look.tables else []
    return parts.chart(look, [*panels, *below], tables, subtitle)


def _overview(look: Look, width: int) -> Spec:
    """Draw the whole key: its series, its matches, and the part that is shown above."""
    rows = look.tables["overview"]
    margin = 0.02 * (rows[-1]["x"] - rows[0]["x"])
    whole = rows[0]["x"] - margin, rows[-1]["x"] + margin
    x = x_of(look, view=whole)
    y: Mapping[str, Any] = {"field": "y", "type": "quantitative", "title": None, "axis": None, "scale": {"zero": False}}
    thin = {"type": "rect", "color": SHADE, "opacity": 0.3}
    line: Spec = layer("overview", {"type": "line", "strokeWidth": 1, "color": "#6e7781"}, x=x, y=y)
    if look.categories or look.series is None:
        ticks = {"type": "tick", "orient": "vertical", "size": 16, "thickness": 1, "color": "#6e7781", "opacity": 0.5}
        line = layer("overview", ticks, x=x, y={"value": OVERVIEW / 2})
    frame = {"type": "rect", "fill": None, "stroke": parts.INK, "strokeWidth": 1.5}
    mark = {"type": "point", "shape": "triangle-down", "filled": True, "size": 60, "color": parts.INK, "opacity": 1}
    part = [{"x": look.view[0], "x2": look.view[1]}]
    window: Spec = {"data": {"values": part}, "mark": frame, "encoding": {"x": x, "x2": {"field": "x2"}}}
    layers = [
        line,
        layer("overview_matches", thin, "!datum.chosen", x=x, x2={"field": "x2"}),
        window,
        layer("overview_matches", mark, "datum.chosen", x=x, y={"value": -5}),
    ]
    found = panel(layers, width, OVERVIEW)
    named = "all of the key" if look.key else "all rows"
    found["title"] = {
        "text": f"{named}: matches shaded, the part above framed, its match marked ▼",
        "fontSize": 11, "fontWeight": "normal", "color": parts.SOFT, "offset": 12,
    }  # fmt: skip
    return found


def _runs(look: Look, width: int) -> Table:
    """Neighbouring rows of the chosen match with one label, as one; each reaches to the next. text: as much of
    its name and number as there is room for."""
    rows = [row for row in look.tables["rows"] if row["chosen"]]
    runs = [list(run) for _, run in itertools.groupby(rows, key=lambda row: row["label"])]
    if len(runs) > MOST_RUNS:
        return ()
    found = []
    for at, run in enumerate(runs):
        x, x2 = run[0]["x"], runs[at + 1][0]["x"] if at + 1 < len(runs) else run[-1]["x"]
        letters = int((x2 - x) / ((look.view[1] - look.view[0]) or 1) * width / LETTER)
        name, count = run[0]["label"], f" ×{len(run)}" if len(run) > 1 else ""
        text = next((one for one in (name + count, name) if len(one) <= letters), "")
        found.append({"x": x, "x2": x2, "label": name, "text": text, "tip": name + count})
    return tuple(found)


def _strip(look: Look) -> list[Spec]:
    """The labels of the chosen match, one after the other, at the top of the panel."""
    bar = {"type": "rect", "clip": True, "stroke": "white", "strokeWidth": 0.5}
    text = {"type": "text", "fontSize": 11, "color": "white", "baseline": "middle", "clip": True}
    colour, _ = by_name("label", look.names, None, legend=False)
    names = layer("runs", text, x=x_of(look, "middle"), y={"value": parts.STRIP / 2}, text={"field": "text"})
    names["transform"] = [{"calculate": "0.5 * (datum.x + datum.x2)", "as": "middle"}]
    top: Spec = {"y": {"value": 0}, "y2": {"value": parts.STRIP}}
    tip = {"field": "tip", "title": "label"}
    return [layer("runs", bar, x=x_of(look), x2={"field": "x2"}, **top, color=colour, tooltip=tip), names]


EVENT_STEP = 44
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
    shade = {"type": "rect", "color": parts.FORBIDDEN, "opacity": 0.1, "clip": True}
    edge = {
        "type": "rect",
        "fill": None,
        "stroke": parts.FORBIDDEN,
        "strokeDash": [4, 3],
        "strokeWidth": 1,
        "clip": True,
    }
    gathered: dict[str, Any] = {"type": "bar", "height": 16, "cornerRadius": 8, "opacity": 0.22, "clip": True}
    count = {"type": "text", "dy": -14, "fontSize": 11, "fontWeight": "bold", "clip": True}
    fits = {"type": "point", "shape": "circle", "size": 34, "color": "#6e7781", "filled": False, "clip": True}
    unfit = {"type": "point", "shape": CROSS, "size": 40, "color": parts.INK, "strokeWidth": 1.8, "clip": True}
    lasting = {"type": "rule", "color": "#6e7781", "strokeWidth": 1.5, "clip": True}
    path = {"type": "line", "clip": True}
    taken = {"type": "point", "filled": True, "stroke": "white", "strokeWidth": 0.6, "clip": True}
    middle = {"calculate": "0.5 * (datum.x + datum.x2)", "as": "middle"}
    size = when_chosen(130, 50)
    depth = when_chosen(0.25, 0.1)
    links: Spec = {
        "strokeWidth": when_chosen(1.8, 0.8),
        "strokeDash": when_chosen([1, 0], [3, 3]),
        "color": when_chosen(parts.INK, "#8c959f"),
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
    step = EVENT_STEP if len(lanes) <= 8 else SMALL
    detail = panel(layers, width, height or {"step": step}, zoom="zoom")
    words = ["○ qualifies by itself"]
    if any(not row["fits"] for row in look.tables["events"]):
        words.append("× of the class, but does not qualify")
    if look.tables["stretches"]:
        words.append("dashed: the match allows none here")
    panels = [parts.brackets(look, width), detail] if look.matches else [detail]
    return _chart(look, width, panels, look.tables, [" · ".join(words)])


SITUATION_STEP = 48
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
    bars = panel(layers, width, height or {"step": SITUATION_STEP}, zoom="zoom")
    panels = [bars]
    if "line" in look.tables:
        dots = {"type": "point", "size": 14, "filled": True, "color": parts.SOFT, "clip": True}
        shown = [parts.series_line(look, axis=False)]
        if not look.categories and len(look.tables["line"]) <= width // 6:
            shown.append(layer("line", dots, x=x_of(look, axis=False), y=parts.series_axis(look)))
        for mark_, at in ((line, "x"), (end, "x2")):
            shown.append(layer("detections", mark_, chosen, x=x_of(look, at, axis=False)))
        panels = [panel(shown, width, 26 * len(look.categories) or SERIES), bars]
    return _chart(
        look, width, panels, look.tables, ["◆ when the match was certain; dashed outlines: situations of no match"]
    )


PAIR_STEP = 34


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
    below = panel(bars, width, {"step": PAIR_STEP})
    panels = [detail, below] if look.matches else [detail]
    return _chart(look, width, panels, look.tables)
