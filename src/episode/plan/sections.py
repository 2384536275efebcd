"""Sections of `explain`: the facts, tables and diagrams of one pattern, as data.

Each language builds a section from its plan and from the reports of a run. `lines_of` renders it as text, and
`see.pictures.plans` renders it as SVG and HTML. A block appears in every rendering unless `only` names one: then
another block shows the same fact to the readers of the other renderings, and a comment at the block names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Union

TEXT, PICTURE = "text", "picture"
"""Renderings that `only` can name."""


@dataclass(frozen=True)
class SectionBlock(ABC):
    """level: the depth at which its lines are indented. only: TEXT or PICTURE, if a single rendering shows it."""

    level: int = field(default=1, kw_only=True)
    only: str = field(default="", kw_only=True)

    @abstractmethod
    def lines(self) -> list[str]:
        """Render the block as text, without indentation."""


@dataclass(frozen=True)
class FactLine(SectionBlock):
    """Names and values, in the text on one line. line: a template of that line, if it is not `name: value; …`."""

    items: tuple[tuple[str, str], ...]
    line: str = ""

    def lines(self) -> list[str]:
        if self.line:
            return [self.line.format(*(value for _, value in self.items))]
        return ["; ".join(f"{name}: {value}" for name, value in self.items)]


def fact(name: str, value: str, line: str = "", *, level: int = 1, only: str = "") -> FactLine:
    return FactLine(((name, value),), line, level=level, only=only)


@dataclass(frozen=True)
class Bar:
    """A number that pictures compare with the other numbers of its column."""

    text: str
    value: float

    def __str__(self) -> str:
        return self.text


Cell = Union[str, Bar]
PLAIN, CODE, NUMBER, BAR = "text", "code", "number", "bar"
"""Kinds of columns."""


@dataclass(frozen=True)
class Column:
    """words: a template of its cells in a line of text, which empty cells leave out; empty if other cells imply it."""

    name: str
    kind: str = PLAIN
    words: str = "{}"


@dataclass(frozen=True)
class Table(SectionBlock):
    """rows: cells in the order of the columns. strong: numbers of highlighted rows. left_out: rows that are not listed.

    join: what separates the rows if the text has them on one line. headed: whether the text has a line for the caption.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    strong: frozenset[int] = frozenset()
    left_out: int = 0
    join: str = ""
    headed: bool = True

    def lines(self) -> list[str]:
        rows = ["".join(self._words(row)) for row in self.rows]
        if self.join:
            return [f"{self.caption}: {self.join.join(rows)}"]
        if self.left_out:
            rows.append(f"… {self.left_out:,} more")
        return [f"{self.caption}:", *indent(rows)] if self.headed else rows

    def _words(self, row: tuple[Cell, ...]) -> list[str]:
        return [one.words.format(str(cell)) for one, cell in zip(self.columns, row, strict=True) if str(cell)]


def cut_table(
    caption: str,
    columns: tuple[Column, ...],
    rows: list[tuple[Cell, ...]],
    most: int,
    *,
    headed: bool = True,
    level: int = 1,
) -> list[Table]:
    """Return a table of the first rows, which counts the others; none for no rows."""
    left_out = max(0, len(rows) - most)
    return [Table(caption, columns, tuple(rows[:most]), left_out=left_out, headed=headed, level=level)] if rows else []


def moved_columns(columns: Sequence[str], derived: Iterable[tuple[str, str]]) -> list[FactLine]:
    """Return facts of the columns that matching reads, and of those that Spark computes: (SQL, name)."""
    computed = [fact("computed by Spark before matching", f"{name} = {sql}") for sql, name in derived]
    return [fact("columns moved", ", ".join(columns) or "none"), *computed]


class DiagramData(Protocol):
    """The content of a diagram. `see.pictures.plans.diagrams` draws each class that is used as such."""

    def lines(self) -> list[str]:
        """Render the content as text."""
        ...


@dataclass(frozen=True)
class Diagram(SectionBlock):
    """legend: how to read the drawing."""

    caption: str
    data: DiagramData
    legend: str = ""

    def lines(self) -> list[str]:
        return [f"{self.caption}:", *indent(self.data.lines())]


@dataclass(frozen=True)
class Section:
    """One pattern. blocks: its plan. run: what a run of it did. parts: the two patterns of a correlation, by role."""

    title: str
    blocks: tuple[SectionBlock, ...]
    run: tuple[SectionBlock, ...] = ()
    parts: tuple[tuple[str, Section], ...] = ()


def lines_of(section: Section) -> list[str]:
    lines = [section.title]
    for block in (*section.blocks, *section.run):
        if block.only != PICTURE:
            lines += indent(block.lines(), block.level)
    for role, part in section.parts:
        lines += [f"  {role} pattern:", *indent(lines_of(part), 2)]
    return lines


def indent(lines: Sequence[str], level: int = 1) -> list[str]:
    return [f"{'  ' * level}{line}" for line in lines]


NO_EVENTS = fact("run", "there were no events")


# Rails: a pattern as a railroad diagram. A path along the rails is a match.


@dataclass(frozen=True)
class RailStop:
    """A label. kind: the style of its box. title: its description. notes: lines below it. round_: a round box."""

    text: str
    kind: str
    title: str
    notes: tuple[str, ...] = ()
    round_: bool = False


@dataclass(frozen=True)
class RailRow:
    """Parts one after the other; of no parts, a rail without a stop. title: of a frame around them."""

    parts: tuple[Rail, ...]
    title: str = ""


@dataclass(frozen=True)
class RailChoice:
    """Alternatives, in order of preference."""

    parts: tuple[Rail, ...]


@dataclass(frozen=True)
class RailLoop:
    """A part that may repeat or be skipped. words: the numbers that are allowed, and the preferred ones."""

    part: Rail
    repeats: bool
    optional: bool
    words: str
    greedy: bool = True


Rail = Union[RailStop, RailRow, RailChoice, RailLoop]


@dataclass(frozen=True)
class Rails:
    """The rails of a whole pattern, drawn only: the text has them as a program or as a sequence of signs."""

    whole: Rail

    def lines(self) -> list[str]:
        return []
