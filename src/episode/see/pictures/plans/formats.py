"""Results of `explain`: strings that a notebook shows as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episode.plan.sections import Section
from episode.queries.explaining import HTML, SVG, ExplainedPattern, text_of_all
from episode.see.pictures.plans.html import fragment, page
from episode.see.pictures.plans.svg import picture

TITLE = "Plan of a query"


class PlanText(str):
    """A plan as text. A notebook shows its picture, and the text below it."""

    sections: Sequence[Section] = ()

    def _repr_html_(self) -> str | None:
        return fragment(list(self.sections), self) if self.sections else None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show lines in a terminal of IPython, not one long string."""
        printer.text(str(self))


class PlanPage(str):
    """A plan as a page of HTML: write it into a file and open it."""

    fragment: str = ""

    def _repr_html_(self) -> str:
        return self.fragment

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<a page of HTML, {len(self):,} characters>")


class PlanPicture(str):
    """A plan as an SVG."""

    def _repr_svg_(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"<a picture, {len(self):,} characters of SVG>")


def render(patterns: Sequence[ExplainedPattern], text: str, format: str) -> str:
    """Render the plans of a query in a format. text: of a query that has no patterns."""
    words = text_of_all(patterns) or text
    sections = [one.section for one in patterns]
    if format not in (SVG, HTML):
        plan = PlanText(words)
        plan.sections = sections
        return plan
    sections = sections or [Section(text, ())]
    if format == SVG:
        return PlanPicture(picture(sections, TITLE))
    found = PlanPage(page(sections, TITLE, words))
    found.fragment = fragment(sections, words)
    return found
