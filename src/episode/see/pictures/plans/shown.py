"""What `explain` returns: texts that show themselves as pictures in a notebook, and are strings everywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episode.queries.explaining import HTML, SVG, ExplainedPattern, explained, text_of_all
from episode.queries.origins import PlacedPattern
from episode.see.pictures.plans.html import fragment, page
from episode.see.pictures.plans.sections import sections_of
from episode.see.pictures.plans.svg import picture

TITLE = "Plan of a query"


class PlanText(str):
    """A plan in words. A notebook shows its picture, and the words below it."""

    patterns: Sequence[ExplainedPattern] = ()

    def _repr_html_(self) -> str | None:
        if not self.patterns:
            return None
        return fragment(sections_of(self.patterns), self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython in a terminal shows the lines, not one long string."""
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


def picture_of(placed: PlacedPattern) -> str:
    """One planned pattern as an SVG, for pages of others."""
    return picture(sections_of([explained(placed, analyze=False)]), TITLE)


def shown(patterns: Sequence[ExplainedPattern], text: str, format: str) -> str:
    """The plans of a query in a format. text: what there is to say where there is no pattern."""
    words = text_of_all(patterns) or text
    if format == SVG:
        return PlanPicture(picture(sections_of(patterns, text), TITLE))
    if format == HTML:
        sections = sections_of(patterns, text)
        found = PlanPage(page(sections, TITLE, words))
        found.fragment = fragment(sections, words)
        return found
    plan = PlanText(words)
    plan.patterns = tuple(patterns)
    return plan
