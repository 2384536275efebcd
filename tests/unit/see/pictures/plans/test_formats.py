"""What `explain` returns is a string everywhere, and shows itself in notebooks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from episode.errors import EpisodeAnalysisError
from episode.queries.explaining import check_format
from episode.see.pictures.plans.drawing import Drawing, element, width_of, wrap
from episode.see.pictures.plans.formats import PlanPicture, PlanText, render
from tests.golden.test_pictures import explained

ONE = explained("ORDER BY ts MEASURES count(*) AS n PATTERN (A B+) DEFINE B AS B.price < 3")


class Printer:
    """As much of IPython's as is used."""

    def __init__(self) -> None:
        self.said = ""

    def text(self, what: str) -> None:
        self.said += what


def printed(value: Any) -> str:
    printer = Printer()
    value._repr_pretty_(printer, False)
    return printer.said


def test_text_is_a_string() -> None:
    plan = render([ONE], "", "text")
    assert isinstance(plan, PlanText)
    assert plan == "\n".join(ONE.lines)
    assert f"{plan}" == str(plan) == plan + ""
    assert repr(plan) == repr(str(plan))
    assert hash(plan) == hash(str(plan))
    assert pickle.loads(pickle.dumps(PlanText("a plan"))) == "a plan"
    assert copy.copy(plan) == plan


def test_text_shows_its_picture_in_a_notebook() -> None:
    plan = render([ONE], "", "text")
    assert printed(plan) == plan
    html = plan._repr_html_()  # type: ignore[attr-defined]
    assert html.count("<svg") == 1
    assert "The plan in words" in html
    assert render([], "No pattern.", "text")._repr_html_() is None  # type: ignore[attr-defined]


def test_pages_and_pictures_show_themselves() -> None:
    svg = render([ONE], "", "svg")
    assert isinstance(svg, PlanPicture)
    assert svg._repr_svg_() == svg
    assert len(printed(svg)) < 80
    page = render([ONE], "", "html")
    assert page.startswith("<!DOCTYPE html>")
    assert "<!DOCTYPE" not in page._repr_html_()  # type: ignore[attr-defined]
    assert len(printed(page)) < 80


def test_other_formats_are_refused() -> None:
    with pytest.raises(EpisodeAnalysisError, match=r"format='png'.*\n.*text, html, svg"):
        check_format("png")


def test_text_that_is_too_long_is_broken() -> None:
    text = "one two three " + "x" * 60
    lines = wrap(text, 100.0)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width_of(line) <= 101 for line in lines)
    assert wrap("", 10.0) == [""]


def test_what_is_written_is_escaped() -> None:
    drawing = Drawing()
    drawing.text(1.0, 2.25, 'a < "b" & c')
    assert drawing.parts == ['<text x="1" y="2.2">a &lt; &quot;b&quot; &amp; c</text>']
    assert element("rect", class_='a"b', stroke_width=1.5) == '<rect class="a&quot;b" stroke-width="1.5"/>'
