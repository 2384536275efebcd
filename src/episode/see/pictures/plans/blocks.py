"""What a picture of a plan is made of: sections of diagrams, tables and facts, whatever the language of the pattern."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Union

from episode.see.pictures.plans.drawing import Drawing


@dataclass(frozen=True)
class Bar:
    """A number beside others: as text, and as the share of the greatest of them. strong: it is the one in use."""

    text: str
    share: float
    strong: bool = False


Cell = Union[str, Bar]
TEXT, CODE, NUMBER, BAR = "text", "code", "number", "bar"
"""Kinds of columns."""


@dataclass(frozen=True)
class Column:
    name: str
    kind: str = TEXT


@dataclass(frozen=True)
class Table:
    """rows: cells in the order of the columns. strong: numbers of rows that stand out."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    strong: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Facts:
    """Names, each with what there is to say."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Diagram:
    """caption: what is to be seen; drawing: the picture itself."""

    caption: str
    drawing: Drawing


Block = Union[Table, Facts, Diagram]


@dataclass(frozen=True)
class Section:
    """One pattern. parts: sections within, as those of the two patterns of a correlation."""

    title: str
    blocks: tuple[Block, ...]
    text: str = ""
    parts: tuple[Section, ...] = field(default=())


def bars(values: list[float], texts: list[str], strong: Collection[int] = ()) -> list[Bar]:
    """Numbers beside each other; strong: those in use."""
    greatest = max([*values, 0.0])
    return [
        Bar(text, value / greatest if greatest > 0 else 0.0, number in strong)
        for number, (value, text) in enumerate(zip(values, texts, strict=True))
    ]
