"""Sections of a plan as one SVG: diagrams, tables and facts below each other."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Union

from episode.plan.sections import (
    CODE,
    NUMBER,
    PLAIN,
    TEXT,
    Bar,
    Cell,
    Column,
    Diagram,
    FactLine,
    Section,
    Table,
    lines_of,
)
from episode.see.pictures.plans.diagrams import draw
from episode.see.pictures.plans.drawing import CODE_SIZE, LINE, PICTURE, SVG_RULES, Drawing, element, width_of, wrap

WIDTH = 900.0
"""The width of tables; diagrams may be wider."""
MARGIN, SPACE = 20.0, 22.0
TITLE_SIZE = 18.5
"""A size of plain text that is as wide as bold text of 16."""
_BAR_ROOM, _CELL_SPACE, _BOLD = 150.0, 18.0, 1.12


PictureBlock = Union[Diagram, Table, FactLine]


def blocks_of(section: Section) -> list[PictureBlock]:
    """Return the blocks of a picture in their order: diagrams, tables, then all facts as one."""
    blocks = [block for block in (*section.blocks, *section.run) if block.only != TEXT]
    diagrams = [block for block in blocks if isinstance(block, Diagram)]
    tables = [block for block in blocks if isinstance(block, Table)]
    facts = tuple(item for block in blocks if isinstance(block, FactLine) for item in block.items)
    return [*diagrams, *tables, *([FactLine(facts)] if facts else [])]


def parts_of(section: Section) -> list[Section]:
    """Return the sections within a section, with their roles in their titles."""
    return [replace(part, title=f"{role} pattern: {part.title}") for role, part in section.parts]


def caption_of(block: Diagram | Table) -> str:
    """Return a caption with a capital letter, and the legend of a diagram."""
    legend = f"; {block.legend}" if isinstance(block, Diagram) and block.legend else ""
    return f"{block.caption[:1].upper()}{block.caption[1:]}{legend}"


def greatest_of(table: Table) -> float:
    """Return the length of the longest bar of a table, for the others to be compared with."""
    return max((cell.value for row in table.rows for cell in row if isinstance(cell, Bar)), default=0.0) or 1.0


def picture(sections: list[Section], title: str) -> str:
    """Render all of a plan as one picture."""
    drawing = Drawing(width=WIDTH)
    for section in sections:
        _section(drawing, section, 0.0)
    drawing.height -= SPACE if sections[-1].blocks else 0.0
    return enclose(drawing, title, "\n\n".join("\n".join(lines_of(section)) for section in sections))


def enclose(drawing: Drawing, title: str, description: str) -> str:
    """Make a drawing an SVG with its colours, a title and a description."""
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    paper = element("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=8, class_="paper")
    inner = Drawing()
    inner.put(drawing, MARGIN, MARGIN)
    words = element("title", escape(title)) + element("desc", escape(description))
    content = words + element("style", SVG_RULES) + paper + "".join(inner.parts)
    size = {"width": round(width), "height": round(height), "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    return element("svg", content, xmlns="http://www.w3.org/2000/svg", role="img", class_=PICTURE, **size)


def _section(drawing: Drawing, section: Section, x: float) -> None:
    if drawing.height:
        drawing.height += SPACE
    for line in wrap(section.title, WIDTH - x, TITLE_SIZE):
        drawing.height += 20.0
        drawing.text(x, drawing.height - 4.0, line, "title")
    drawing.height += 8.0
    for block in blocks_of(section):
        made = _draw_block(block, WIDTH - x)
        drawing.put(made, x, drawing.height)
        drawing.width = max(drawing.width, x + made.width)
        drawing.height += made.height + SPACE
    for part in parts_of(section):
        _section(drawing, part, x + 24.0)


def _draw_block(block: PictureBlock, width: float) -> Drawing:
    if isinstance(block, FactLine):
        return _table(Table("", (Column("", "name"), Column("")), block.items), width)
    if isinstance(block, Table):
        return _table(block, width)
    inner, drawing = draw(block.data), Drawing()
    _caption(drawing, block, width)
    drawing.put(inner, 0.0, drawing.height + 4.0)
    drawing.width, drawing.height = inner.width, drawing.height + 4.0 + inner.height
    return drawing


def _caption(drawing: Drawing, block: Diagram | Table, width: float) -> None:
    for line in wrap(caption_of(block), width / _BOLD):
        drawing.text(0.0, drawing.height + 14.0, line, "caption")
        drawing.height += 20.0


def _table(table: Table, width: float) -> Drawing:
    drawing = Drawing(width)
    if table.caption:
        _caption(drawing, table, width)
    widths = _widths(table, width)
    if any(column.name for column in table.columns):
        headings = [wrap(column.name, room) for column, room in zip(table.columns, widths, strict=True)]
        plain = tuple(Column(one.name, NUMBER if one.kind == NUMBER else PLAIN) for one in table.columns)
        _row(drawing, plain, widths, headings, "small")
        _rule(drawing, sum(widths))
    for number, row in enumerate(table.rows):
        kind = "chosen" if number in table.strong else ""
        lines = [
            [cell.text] if isinstance(cell, Bar) else _lines(cell, column, room)
            for cell, column, room in zip(row, table.columns, widths, strict=True)
        ]
        _row(drawing, table.columns, widths, lines, kind, row, greatest_of(table))
        if any(column.name for column in table.columns):
            _rule(drawing, sum(widths))
    if table.left_out:
        drawing.text(0.0, drawing.height + LINE, f"… {table.left_out:,} more", "small")
        drawing.height += LINE + 7.0
    return drawing


def _lines(cell: str, column: Column, room: float) -> list[str]:
    is_code = column.kind == CODE
    size = CODE_SIZE if is_code else 13.0
    return [line for part in cell.split("\n") for line in wrap(part, room - _CELL_SPACE, size, is_code)]


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
    greatest: float = 1.0,
) -> None:
    x, begin = 0.0, len(drawing.parts)
    for number, (column, room, shown) in enumerate(zip(columns, widths, lines, strict=True)):
        y = drawing.height + LINE
        cell = cells[number] if cells else ""
        if isinstance(cell, Bar):
            length = max(1.0, cell.value / greatest * (_BAR_ROOM - 20.0))
            drawing.box(x, y - 10.0, length, 11.0, "strong" if kind == "chosen" else "bar", 1.0)
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
        drawing.group("row", "; ".join(map(str, cells)), begin)


def _widths(table: Table, width: float) -> list[float]:
    """Fit columns to their cells; if the table is too wide, the widest columns share what the others leave."""
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
