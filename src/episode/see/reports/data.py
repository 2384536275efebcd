"""Contents of a report: plain values, from which the page is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from episode.see.reports.charts import Bins
    from episode.see.reports.tables import TimeFormat


@dataclass(frozen=True)
class Histogram:
    """counts: by the number of a bin."""

    bins: Bins
    counts: dict[int, int]


@dataclass(frozen=True)
class KeyRow:
    """One value of the key, and how many matches it has."""

    key: tuple[Any, ...]
    matches: int


@dataclass(frozen=True)
class ReportPicture:
    """A picture of one match. why: what is special about it. svg: None where it could not be drawn, with the reason."""

    why: str
    what: str
    svg: str | None
    note: str = ""


@dataclass(frozen=True)
class ColumnRow:
    """Values of a column of the input, in numbers."""

    name: str
    role: str
    type: str
    nulls: int
    least: str | None
    greatest: str | None


@dataclass(frozen=True)
class InputPart:
    """The rows that a pattern was searched for in. keys: how many values the key has, and the most rows of one."""

    title: str
    rows: int
    keys: tuple[int, int] | None
    columns: tuple[ColumnRow, ...]


@dataclass(frozen=True)
class MatchPart:
    """All matches of a pattern, in numbers. placed: those with times. rows: that are in matches, counted once for each.
    lengths: least, median, 90 and 99 of 100, greatest, mean."""

    matches: int
    placed: int
    rows: int | None
    first: float | None
    last: float | None
    lengths: tuple[float, ...]
    clock: TimeFormat
    over_time: Histogram | None
    by_length: Histogram | None
    key_names: tuple[str, ...]
    keys: int
    top_keys: tuple[KeyRow, ...]
    rarest: KeyRow | None


@dataclass(frozen=True)
class PatternPart:
    """One pattern of the query. found: None where its matches cannot be counted by themselves, with the reason. plan:
    as HTML, with pictures and in words."""

    kind: str
    text: str
    labels: tuple[str, ...]
    found: MatchPart | None
    reason: str
    inputs: tuple[InputPart, ...]
    plan: str
    pictures: tuple[ReportPicture, ...] = ()
    no_pictures: str = ""

    @property
    def one(self) -> str:
        """Name of one result of the pattern."""
        return "pair" if self.kind == "pattern correlation" else "match"

    @property
    def many(self) -> str:
        return "pairs" if self.kind == "pattern correlation" else "matches"


@dataclass(frozen=True)
class ResultPart:
    """The rows of the query's result: how many, and the first of them."""

    rows: int
    columns: tuple[str, ...]
    first: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Report:
    title: str
    query: str
    arguments: dict[str, Any]
    result: ResultPart
    patterns: tuple[PatternPart, ...]
    written: datetime
    version: str
    session: str
    timings: tuple[tuple[str, float], ...] = field(default=())
