"""Sections of a plan as HTML: a page in one file, and a fragment for notebooks and for pages of others."""

from __future__ import annotations

from html import escape

from episode.see.pictures.plans.blocks import Bar, Block, Diagram, Facts, Section, Table
from episode.see.pictures.plans.drawing import element
from episode.see.pictures.plans.style import PAGE, PAGE_RULES
from episode.see.pictures.plans.svg import enclosed

_BAR_EMS = 9.0


def page(sections: list[Section], title: str, text: str) -> str:
    """A whole page; it needs nothing beside itself."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
        "<style>body { margin: 0 } .whole { padding: 1.5em 2em; min-height: 100vh; box-sizing: border-box }"
        "</style>"
    )
    body = element("div", fragment(sections, text, heading=1, opened=True), class_=f"{PAGE} whole")
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def fragment(sections: list[Section], text: str, heading: int = 3, opened: bool = False) -> str:
    """Pictures, tables, and the plan in words, which is open at once or folded. heading: the level of headings."""
    shown = "".join(_section(section, heading) for section in sections)
    words = element("details", f"<summary>The plan in words</summary>{element('pre', escape(text))}")
    if opened:
        words = words.replace("<details>", "<details open>", 1)
    return f"<style>{PAGE_RULES}</style>{element('div', shown + words, class_=PAGE)}"


def _section(section: Section, heading: int) -> str:
    title = element(f"h{min(heading, 6)}", escape(section.title))
    blocks = "".join(_block(block, section) for block in section.blocks)
    parts = "".join(_section(part, heading + 1) for part in section.parts)
    return element("section", title + blocks + parts)


def _block(block: Block, section: Section) -> str:
    if isinstance(block, Diagram):
        svg = enclosed(block.drawing, f"{block.caption}: {section.title}", section.text)
        return element("figure", element("figcaption", escape(block.caption)) + svg)
    if isinstance(block, Facts):
        return element(
            "dl", "".join(element("dt", escape(name)) + element("dd", escape(it)) for name, it in block.items)
        )
    return _table(block)


def _table(table: Table) -> str:
    headings = "".join(element("th", escape(column.name) or "&#8203;", scope="col") for column in table.columns)
    rows = []
    for number, row in enumerate(table.rows):
        cells = []
        for cell, column in zip(row, table.columns, strict=True):
            if isinstance(cell, Bar):
                bar = element("span", "&#8203;", class_="cost", style=f"width: {cell.share * _BAR_EMS:.2f}em")
                cells.append(element("td", bar + escape(cell.text), class_=column.kind))
            else:
                cells.append(element("td", escape(cell).replace("\n", "<br>") or "&#8203;", class_=column.kind))
        rows.append(element("tr", "".join(cells), class_="strong" if number in table.strong else None))
    head = element("thead", element("tr", headings))
    return element("table", element("caption", escape(table.caption)) + head + element("tbody", "".join(rows)))
