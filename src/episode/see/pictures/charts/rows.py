"""The chart of a row pattern's matches: the series, the rows of matches coloured and marked by label, all of it in
small."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from episode.see.pictures.charts import parts
from episode.see.pictures.charts.parts import INK, SOFT, STRIP, Spec, by_name, chart, layer, panel, when_chosen, x_of
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
        shading(look),
        parts.series_line(look),
        layer("rows", points, x=x, y=y, color=colour, shape=shape, size=size, opacity=opacity, tooltip=tips),
        *_strip(look),
    ]
    high = max(90, 30 * len(look.categories)) if look.categories else HEIGHT
    detail = panel(layers, width, height or high, zoom="zoom")
    panels = [parts.brackets(look, width), detail] if look.matches else [detail]
    if "overview" in look.tables:
        panels.append(overview(look, width))
    return chart(look, panels, tables)


def shading(look: Look) -> Spec:
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


def overview(look: Look, width: int) -> Spec:
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
    frame = {"type": "rect", "fill": None, "stroke": INK, "strokeWidth": 1.5}
    mark = {"type": "point", "shape": "triangle-down", "filled": True, "size": 60, "color": INK, "opacity": 1}
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
        "fontSize": 11, "fontWeight": "normal", "color": SOFT, "offset": 12,
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
    names = layer("runs", text, x=x_of(look, "middle"), y={"value": STRIP / 2}, text={"field": "text"})
    names["transform"] = [{"calculate": "0.5 * (datum.x + datum.x2)", "as": "middle"}]
    top: Spec = {"y": {"value": 0}, "y2": {"value": STRIP}}
    tip = {"field": "tip", "title": "label"}
    return [layer("runs", bar, x=x_of(look), x2={"field": "x2"}, **top, color=colour, tooltip=tip), names]
