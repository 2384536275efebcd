"""Results of `explain`: strings that a notebook shows as pictures, a page in one file, a fragment for other pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from episode.plan.sections import Bar, Diagram, FactLine, Section, Table, lines_of
from episode.queries.explaining import HTML, SVG, ExplainedPattern, text_of_all
from episode.see.pictures.plans.diagrams import draw
from episode.see.pictures.plans.drawing import PAGE, PAGE_RULES, element
from episode.see.pictures.plans.svg import PictureBlock, blocks_of, caption_of, enclose, greatest_of, parts_of, picture

_BAR_EMS = 9.0


def page(sections: list[Section], title: str, text: str) -> str:
    """Render a whole page, which needs no other files."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        "<style>body { margin: 0 } .whole { padding: 1.5em 2em; min-height: 100vh; box-sizing: border-box }"
        "</style>"
    )
    body = element("div", fragment(sections, text, heading=1, opened=True), class_=f"{PAGE} whole")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def fragment(sections: list[Section], text: str, heading: int = 3, opened: bool = False) -> str:
    """Render pictures, tables, and the text, which is open or folded. heading: the level of headings."""
    shown = "".join(_section(section, heading) for section in sections)
    words = element("details", f"<summary>The plan in words</summary>{element('pre', escape(text))}")
    if opened:
        words = words.replace("<details>", "<details open>", 1)
    return f"<style>{PAGE_RULES}</style>{element('div', shown + words, class_=PAGE)}"


def _section(section: Section, heading: int) -> str:
    title = element(f"h{min(heading, 6)}", escape(section.title))
    blocks = "".join(_block(block, section) for block in blocks_of(section))
    parts = "".join(_section(part, heading + 1) for part in parts_of(section))
    return element("section", title + blocks + parts)


def _block(block: PictureBlock, section: Section) -> str:
    if isinstance(block, Diagram):
        caption = caption_of(block)
        svg = enclose(draw(block.data), f"{caption}: {section.title}", "\n".join(lines_of(section)))
        return element("figure", element("figcaption", escape(caption)) + svg)
    if isinstance(block, FactLine):
        return element(
            "dl", "".join(element("dt", escape(name)) + element("dd", escape(it)) for name, it in block.items)
        )
    return _table(block)


def _table(table: Table) -> str:
    headings = "".join(element("th", escape(column.name) or "&#8203;", scope="col") for column in table.columns)
    rows, greatest = [], greatest_of(table)
    for number, row in enumerate(table.rows):
        cells = []
        for cell, column in zip(row, table.columns, strict=True):
            if isinstance(cell, Bar):
                bar = element(
                    "span", "&#8203;", class_="cost", style=f"width: {cell.value / greatest * _BAR_EMS:.2f}em"
                )
                cells.append(element("td", bar + escape(cell.text), class_=column.kind))
            else:
                cells.append(element("td", escape(cell).replace("\n", "<br>") or "&#8203;", class_=column.kind))
        rows.append(element("tr", "".join(cells), class_="strong" if number in table.strong else None))
    if table.left_out:
        rows.append(element("tr", element("td", f"… {table.left_out:,} more", colspan=len(table.columns))))
    head = element("thead", element("tr", headings))
    return element("table", element("caption", escape(caption_of(table))) + head + element("tbody", "".join(rows)))


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

    fragment: str

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
