"""Sections of a plan as one SVG: diagrams, tables and facts below each other."""

from __future__ import annotations

from html import escape

from episode.see.pictures.plans.blocks import (
    CODE,
    NUMBER,
    TEXT,
    Bar,
    Block,
    Cell,
    Column,
    Diagram,
    Facts,
    Section,
    Table,
)
from episode.see.pictures.plans.drawing import CODE_SIZE, LINE, Drawing, element, width_of, wrapped
from episode.see.pictures.plans.style import PICTURE, SVG_RULES

WIDTH = 900.0
"""Of tables; diagrams may be wider."""
MARGIN, SPACE = 20.0, 22.0
TITLE_SIZE = 18.5
"""As wide as text of 16 that is bold."""
_BAR_ROOM, _CELL_SPACE, _BOLD = 150.0, 18.0, 1.12


def picture(sections: list[Section], title: str) -> str:
    """All of a plan as one picture."""
    drawing = Drawing(width=WIDTH)
    for section in sections:
        _section(drawing, section, 0.0)
    drawing.height -= SPACE if sections[-1].blocks else 0.0
    return enclosed(drawing, title, "\n\n".join(section.text for section in sections))


def enclosed(drawing: Drawing, title: str, description: str) -> str:
    """A drawing as an SVG of its own, with its colours and what it is in words."""
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    paper = element("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8, class_="paper")
    inner = Drawing()
    inner.put(drawing, MARGIN, MARGIN)
    content = (
        element("title", escape(title))
        + element("desc", escape(description))
        + element("style", SVG_RULES)
        + paper
        + "".join(inner.parts)
    )
    return element(
        "svg",
        content,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        class_=PICTURE,
        width=round(width),
        height=round(height),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
    )


def _section(drawing: Drawing, section: Section, x: float) -> None:
    if drawing.height:
        drawing.height += SPACE
    for line in wrapped(section.title, WIDTH - x, TITLE_SIZE):
        drawing.height += 20.0
        drawing.text(x, drawing.height - 4.0, line, "title")
    drawing.height += 8.0
    for block in section.blocks:
        made = _drawn(block, WIDTH - x)
        drawing.put(made, x, drawing.height)
        drawing.width = max(drawing.width, x + made.width)
        drawing.height += made.height + SPACE
    for part in section.parts:
        _section(drawing, part, x + 24.0)


def _drawn(block: Block, width: float) -> Drawing:
    if isinstance(block, Diagram):
        drawing = Drawing(block.drawing.width, block.drawing.height + 24.0)
        drawing.text(0.0, 14.0, block.caption, "caption")
        drawing.put(block.drawing, 0.0, 24.0)
        return drawing
    if isinstance(block, Facts):
        columns = (Column("", "name"), Column(""))
        return _table(Table("", columns, block.items), width)
    return _table(block, width)


def _table(table: Table, width: float) -> Drawing:
    drawing = Drawing(width)
    if table.caption:
        drawing.height = 20.0
        drawing.text(0.0, 14.0, table.caption, "caption")
    widths = _widths(table, width)
    if any(column.name for column in table.columns):
        headings = [wrapped(column.name, room) for column, room in zip(table.columns, widths, strict=True)]
        plain = tuple(Column(one.name, NUMBER if one.kind == NUMBER else TEXT) for one in table.columns)
        _row(drawing, plain, widths, headings, "small")
        _rule(drawing, sum(widths))
    for number, row in enumerate(table.rows):
        kind = "chosen" if number in table.strong else ""
        lines = [
            [cell.text] if isinstance(cell, Bar) else _lines(cell, column, room)
            for cell, column, room in zip(row, table.columns, widths, strict=True)
        ]
        _row(drawing, table.columns, widths, lines, kind, row)
        if any(column.name for column in table.columns):
            _rule(drawing, sum(widths))
    return drawing


def _lines(cell: str, column: Column, room: float) -> list[str]:
    is_code = column.kind == CODE
    size = CODE_SIZE if is_code else 13.0
    return [line for part in cell.split("\n") for line in wrapped(part, room - _CELL_SPACE, size, is_code)]


def _rule(drawing: Drawing, width: float) -> None:
    drawing.line([(0.0, drawing.height + 0.5), (width, drawing.height + 0.5)], "rule")
    drawing.height += 1.0


def _row(
    drawing: Drawing,
    columns: tuple[Column, ...],
    widths: list[float],
    lines: list[list[str]],
    kind: str,
    cells: tuple[Cell, ...] = (),
) -> None:
    x, begin = 0.0, len(drawing.parts)
    for number, (column, room, shown) in enumerate(zip(columns, widths, lines, strict=True)):
        y = drawing.height + LINE
        cell = cells[number] if cells else ""
        if isinstance(cell, Bar):
            length = max(1.0, cell.share * (_BAR_ROOM - 20.0))
            drawing.box(x, y - 10.0, length, 11.0, "strong" if cell.strong else "bar", 1.0)
            drawing.text(x + length + 6.0, y, cell.text, kind)
        elif column.kind == NUMBER:
            for line in shown:
                drawing.text(x + room - _CELL_SPACE, y, line, kind, "end")
                y += LINE
        else:
            own = {CODE: "code", "name": "name"}.get(column.kind, "")
            for line in shown:
                drawing.text(x, y, line, f"{own} {kind}".strip())
                y += LINE
        x += room
    drawing.height += max(len(shown) for shown in lines) * LINE + 7.0
    if cells:
        words = "; ".join(cell.text if isinstance(cell, Bar) else cell for cell in cells)
        drawing.group("row", words, begin)


def _widths(table: Table, width: float) -> list[float]:
    """As wide as what is in them, if that fits; otherwise the widest ones share what the others leave."""
    natural = []
    for number, column in enumerate(table.columns):
        found = [width_of(column.name) + _CELL_SPACE]
        for at, row in enumerate(table.rows):
            cell = row[number]
            bold = _BOLD if column.kind == "name" or at in table.strong else 1.0
            if isinstance(cell, Bar):
                found.append(_BAR_ROOM + width_of(cell.text) * bold + _CELL_SPACE)
            else:
                is_code = column.kind == CODE
                size = CODE_SIZE if is_code else 13.0
                longest = max(width_of(line, size, is_code) for line in cell.split("\n"))
                found.append(longest * bold + _CELL_SPACE)
        natural.append(max(found))
    left, wide = width, list(natural)
    for number in sorted(range(len(wide)), key=lambda one: natural[one]):
        fair = left / sum(1 for one in natural if one >= natural[number])
        wide[number] = min(natural[number], max(fair, 60.0))
        left -= wide[number]
    return wide
