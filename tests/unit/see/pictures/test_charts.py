"""Charts: valid Vega-Lite, in which every name has a colour and a shape of its own, and words for what is seen."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import episode
from episode.see.pictures.charts.parts import COLOURS, SHAPES, names_scale
from episode.see.pictures.look import Look
from episode.see.pictures.plotting import chart_of, spec_of
from tests.unit.see.pictures.test_look import fall, hot, job

LOOKS = {
    "rows": lambda: fall(of="x"),
    "categories": lambda: fall(of="x", series="note"),
    "nothing": lambda: fall(of="x", between=(7, 8)),
    "events": lambda: job(match=1),
    "situations": hot,
}


def marks_in(spec: Any) -> list[tuple[str, str]]:
    """(kind of mark, table) of every layer."""
    if isinstance(spec, list):
        return [mark for one in spec for mark in marks_in(one)]
    if not isinstance(spec, dict):
        return []
    if "mark" in spec:
        return [(spec["mark"]["type"], spec["data"].get("name", ""))]
    return [mark for name in ("vconcat", "layer") for mark in marks_in(spec.get(name, []))]


@pytest.mark.parametrize("name", LOOKS)
def test_a_chart_is_valid_and_says_what_is_in_it(name: str) -> None:
    look: Look = LOOKS[name]()
    spec = chart_of(look).to_dict()  # checked against the schema of Vega-Lite
    assert spec["description"] == look.description
    assert spec["title"]["text"] == look.title
    assert set(look.notes) <= set(spec["title"]["subtitle"])
    assert {table for _, table in marks_in(spec)} - {""} <= set(spec["datasets"])


def test_rows_are_marked_by_colour_shape_and_name() -> None:
    spec = spec_of(fall(of="x"), 600)
    (points,) = [one for one in spec["vconcat"][1]["layer"] if one["data"].get("name") == "rows"]
    for channel in ("color", "shape"):
        assert points["encoding"][channel]["field"] == "label"
        assert points["encoding"][channel]["scale"]["domain"] == ["A", "B"]
    runs = spec["datasets"]["runs"]
    assert [(row["x"], row["x2"], row["text"]) for row in runs] == [(1, 2, "A"), (2, 3, "B ×2")]
    narrow = spec_of(fall(of="x"), 200)["datasets"]["runs"]
    assert [(row["text"], row["tip"]) for row in narrow] == [("A", "A"), ("B", "B ×2")]
    assert [row["text"] for row in spec["datasets"]["matches"]] == ["match 1", "match 2"]
    assert spec["vconcat"][1]["width"] == 600
    titles = [one["encoding"]["x"]["axis"]["title"] for one in spec["vconcat"][1]["layer"]]
    assert set(titles) == {"ts"}
    y = [one["encoding"]["y"] for one in spec["vconcat"][1]["layer"] if "y" in one["encoding"]]
    assert {one["title"] for one in y if "field" in one} == {"v"}


@pytest.mark.parametrize("count", [1, 8, 9, 30, 64])
def test_no_two_names_look_the_same(count: int) -> None:
    colours, shapes = names_scale([str(number) for number in range(count)])
    assert len(set(zip(colours["range"], shapes["range"]))) == count


def contrast(colour: str) -> float:
    """To white, as the guidelines for accessible pages define it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 1.05 / (0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05)


def test_colours_stand_out() -> None:
    assert len(set(COLOURS)) == len(set(SHAPES)) == 8
    assert min(contrast(colour) for colour in COLOURS) >= 4.5


def test_saved_without_the_network(tmp_path: Path) -> None:
    chart = chart_of(hot(), height=200)
    for suffix in (".html", ".svg", ".png"):
        chart.save(tmp_path / f"hot{suffix}")
    page = (tmp_path / "hot.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page)
    assert "hot contains open" in page
    svg = (tmp_path / "hot.svg").read_text(encoding="utf-8")
    for text in ("hot contains open", "detected 120 before the end", "temp", "match"):
        assert text in svg
    assert (tmp_path / "hot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(episode.EpisodeAnalysisError, match=r"hot.gif: charts are saved as .html"):
        chart.save(tmp_path / "hot.gif")


def test_shown_in_notebooks() -> None:
    chart = chart_of(fall(of="x"))
    shown = chart._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert "Match 1 lasts from 1 to 3" in shown["text/plain"]
    assert any(name.startswith("application/vnd.vegalite") for name in shown)
    assert chart.properties(title="mine").to_dict()["title"] == "mine"


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    look = fall(of="x")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(episode.EpisodeError, match=rf"Plots need the package {missing}") as error:
        chart_of(look)
    assert "Install altair and vl-convert-python (episode's extra 'plot')." in str(error.value)
