"""Random pairs of patterns and random events for both, to be correlated by recency (hypothesis).

`cases()` draws a live and an archive pattern, each of any language, and one table of events. The patterns and the
values of the events come from the generators of the languages; times, with ties, and keys are drawn anew, since both
sides share them. Values are repeated until the table is full, so that most patterns match more than once.

A row of the table has the columns `k` and `ts`, its number `pos`, and the columns of both sides, `live_v` and
`archive_x`. Where the sides are two tables, a row has values on its own side only, and `side` says which that is.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Union

from hypothesis import strategies as st

from episode.lang.events.syntax import EventQuery, Strategy
from episode.lang.rows.parser import parse_clause
from episode.lang.rows.syntax import MatchRecognize
from tests.reference import event_patterns, generate, generate_events, generate_situations, situations
from tests.reference.correlation import Found, Pair, correlated, event_matches, row_matches, situation_matches

LIVE, ARCHIVE, BOTH = 1, 2, 3  # of the column `side`
ROWS, EVENTS, SITUATIONS = "rows", "events", "situations"
LANGUAGES = [ROWS, ROWS, ROWS, EVENTS, EVENTS, SITUATIONS]
BUDGET = 20_000  # of the oracle of row patterns
MOST_EVENTS = 11  # that the oracle of event patterns is given

Row = dict[str, Any]


# ---- sides ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowSide:
    """A row pattern; text is the inside of MATCH_RECOGNIZE ( … )."""

    text: str
    language: str = field(default=ROWS, init=False)

    @property
    def clause(self) -> MatchRecognize:
        return _parsed(self.text)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(key.column.path[-1] for key in self.clause.partition_by)

    @property
    def columns(self) -> tuple[str, ...]:
        """Of a row, beside key and time."""
        return ("v", "f", "s")

    def found(self, rows: list[Row]) -> list[Found]:
        """The oracle's matches. rows: with k, ts, pos and the columns."""
        return row_matches(self.clause, rows, columns=["k", "ts", *self.columns], time="ts", budget=BUDGET)


_parsed = lru_cache(maxsize=16)(parse_clause)
"""The clauses of a case are asked for many times."""


@dataclass(frozen=True)
class EventSide:
    """An event pattern; typed: the column `type` gives the class. strategy: an option beside the query."""

    text: str
    query: EventQuery
    typed: bool
    key: str | None
    strategy: Strategy | None
    language: str = field(default=EVENTS, init=False)

    @property
    def keys(self) -> tuple[str, ...]:
        return () if self.key is None else (self.key,)

    @property
    def columns(self) -> tuple[str, ...]:
        return ("type", "x", "y", "s")

    def found(self, rows: list[Row]) -> list[Found]:
        events = [event_patterns.Event(row["pos"], row["ts"], row["ts"], row) for row in rows]
        return event_matches(
            self.query,
            events,
            member=lambda place, event: not self.typed or event.values["type"] == place.name,
            strategy=self.strategy,
            key=self.key,
        )


@dataclass(frozen=True)
class SituationSide:
    """A situation pattern; how it is detected is an option beside the query."""

    text: str
    pattern: situations.Pattern
    keyed: bool
    language: str = field(default=SITUATIONS, init=False)

    @property
    def keys(self) -> tuple[str, ...]:
        return ("k",) if self.keyed else ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(generate_situations.COLUMNS)

    def found(self, rows: list[Row]) -> list[Found]:
        events = [situations.Event(row["ts"], row, row["k"] if self.keyed else None) for row in rows]
        return situation_matches(self.pattern, events, key="k" if self.keyed else None)


Side = Union[RowSide, EventSide, SituationSide]


# ---- cases ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Two patterns over one table, whose rows are in order of (ts, arrival).

    on: the columns that both are partitioned by and that are equal in a pair.
    shared: both patterns read the same columns, those of the live side. apart: the sides are two tables.
    """

    live: Side
    archive: Side
    recency: int
    on: tuple[str, ...]
    rows: list[Row]
    shared: bool
    apart: bool

    def column(self, of: int, name: str) -> str:
        """The column of the table that a side knows by this name."""
        if name in ("k", "ts", "pos"):
            return name
        return f"live_{name}" if of == LIVE or self.shared else f"archive_{name}"

    def rows_of(self, of: int) -> list[Row]:
        """The rows of a side, with its own names of the columns."""
        side = self.live if of == LIVE else self.archive
        names = ["k", "ts", "pos", *side.columns]
        return [
            {name: row[self.column(of, name)] for name in names}
            for row in self.rows
            if row.get("side", BOTH) in (of, BOTH)
        ]

    def pairs(self, live_rows: list[Row] | None = None) -> list[Pair]:
        """The oracle's answer. live_rows: of the live side, where they are not those of the table."""
        live = self.live.found(self.rows_of(LIVE) if live_rows is None else live_rows)
        return correlated(live, self.archive.found(self.rows_of(ARCHIVE)), self.recency, self.on)


RECENCIES = [9, 14, 6, 11, 4, 20, 8, 3, 12, 1_000, 7, 2, 16, 1, 0]
STEPS = [1, 1, 0, 2, 1, 3]  # from the time of a row to that of the next
KEYS = [1, 1, 1, 1, 2, None]


@st.composite
def cases(
    draw: st.DrawFn,
    max_rows: int = 16,
    *,
    live: Sequence[str] = LANGUAGES,
    archive: Sequence[str] = LANGUAGES,
    plain: bool | None = None,
    aligned: bool = False,
) -> Case:
    """live, archive: the languages to draw from. plain: row patterns are simple ones, or not; None: either.

    aligned: both patterns are partitioned by what is equal in a pair, as those that can be evaluated on demand are.
    """
    partitioned = draw(st.sampled_from([True, True, False]))
    one, of_one = draw(_sides(draw(st.sampled_from(live)), LIVE, partitioned, plain, aligned))
    other, of_other = draw(_sides(draw(st.sampled_from(archive)), ARCHIVE, partitioned, plain, aligned))
    count = draw(st.integers(max_rows // 2, MOST_EVENTS if EVENTS in (one.language, other.language) else max_rows))
    shared = one.columns == other.columns and draw(st.sampled_from([True, True, True, False]))
    apart = draw(st.sampled_from([False, False, True]))
    keys = draw(_several(count, KEYS if draw(st.booleans()) else [1]))
    steps = draw(_several(count, STEPS))
    sides = draw(_several(count, [LIVE, ARCHIVE, LIVE, ARCHIVE, BOTH])) if apart else [BOTH] * count
    following = {LIVE: _Following(of_one), ARCHIVE: _Following(of_other)}
    rows = []
    for position, (key, time, side) in enumerate(zip(keys, itertools.accumulate(steps), sides)):
        row = {"k": key, "ts": time, "pos": position}
        mine = following[LIVE].next(key) if shared or side != ARCHIVE else {}
        row |= {f"live_{name}": mine.get(name) for name in one.columns}
        if not shared:
            yours = following[ARCHIVE].next(key) if side != LIVE else {}
            row |= {f"archive_{name}": yours.get(name) for name in other.columns}
        rows.append(row | {"side": side} if apart else row)
    both = [name for name in one.keys if name in other.keys and name == "k"]
    on = tuple(both) if aligned or draw(st.sampled_from([True, True, True, False])) else ()
    return Case(one, other, draw(st.sampled_from(RECENCIES)), on, rows, shared, apart)


class _Following:
    """Values of one row after the other, again and again, for each key."""

    def __init__(self, values: list[Row]) -> None:
        self.values = values
        self.at: dict[Any, int] = {}

    def next(self, key: Any) -> Row:
        index = self.at.get(key, 0)
        self.at[key] = index + 1
        return self.values[index % len(self.values)]


def _several(count: int, items: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(items), min_size=count, max_size=count)


@st.composite
def _sides(
    draw: st.DrawFn, language: str, of: int, partitioned: bool, plain: bool | None, aligned: bool
) -> tuple[Side, list[Row]]:
    """A side and the values of a few rows for it."""
    if language == EVENTS:
        case = draw(generate_events.cases(max_events=7))
        key = "k" if partitioned else None if aligned else case.key
        values = [event.values for event in case.events] or [dict.fromkeys(generate_events.COLUMNS)]
        return EventSide(case.text, case.query, case.typed, key, case.strategy), values
    if language == SITUATIONS:
        # One key: which rows are of which key is drawn for both sides together.
        drawn = draw(generate_situations.cases(max_events=9, max_keys=1))
        keyed = partitioned or (drawn.keyed and not aligned)
        text = generate_situations.render(drawn.pattern, keyed=keyed)
        return SituationSide(text, drawn.pattern, keyed), [event.values for event in drawn.events]
    simple = draw(st.sampled_from([True, True, False])) if plain is None else plain
    partitions = ["PARTITION BY k"] * 3 + ["PARTITION BY s, k"] if partitioned else ["", "", "PARTITION BY k"]
    if aligned:
        partitions = partitions[:1]
    mode = "INCREMENTAL MATCH" if of == LIVE else "MAXIMAL MATCH"
    if simple:
        text = draw(plain_clauses(mode, partitions, SKIPS[:1] if aligned else SKIPS))
    else:
        given = generate.Given(["", "ONE ROW PER MATCH"], [mode], ["ts"], partitions)
        text = draw(generate.clauses(given=given))
    return RowSide(text), draw(st.lists(generate.one_row(), min_size=5, max_size=10))


# ---- simple row patterns ---------------------------------------------------------------------------

SHAPES = ["A B+", "A B+ C* D+", "A+ B", "A B? C", "A B+", "(A | B)+ C", "A B", "A", "A B* C", "A{2,3} B", "A+ B+? C"]
# {x}: the label; n: a number.
PLAIN = [
    *["{x}.v < PREV({x}.v)", "{x}.v > PREV({x}.v)", "{x}.v >= PREV({x}.v)"] * 2,
    *["{x}.v >= {n}", "{x}.v < 4 - {n}", "{x}.v <> {n}"] * 2,
    "{x}.v > {n} AND {x}.v > PREV({x}.v)",
    "{x}.v <= A.v",
    "{x}.v > A.v",
    "{x}.v > PREV({x}.v) AND {x}.v > A.v",
    "{x}.f > 0.5",
    "{x}.v < NEXT({x}.v)",
    "{x}.v < PREV({x}.v, 2)",
    "sum({x}.v) < 6",
]


SKIPS = ["AFTER MATCH SKIP TO NEXT ROW"] * 4 + ["", "AFTER MATCH SKIP PAST LAST ROW"]


@st.composite
def plain_clauses(draw: st.DrawFn, mode: str, partitions: Sequence[str], skips: Sequence[str]) -> str:
    """Like those of the paper: a few labels, and a condition on most of them."""
    shape = draw(st.sampled_from(SHAPES))
    definitions = []
    for label in sorted({sign for sign in shape if sign.isalpha()}):
        # The first label is mostly any row.
        if draw(st.sampled_from([False, False, False, True] if label == "A" else [True, True, True, False])):
            condition = draw(st.sampled_from(PLAIN)).format(x=label, n=draw(st.integers(0, 3)))
            definitions.append(f"{label} AS {condition}")
    parts = [
        draw(st.sampled_from(partitions)),
        "ORDER BY ts MEASURES FIRST(v) AS first, LAST(v) AS last, count(*) AS rows",
        draw(st.sampled_from(skips)),
        mode,
        f"PATTERN ({shape})",
        draw(st.sampled_from(["", "", "", "WITHIN 3", "WITHIN 6", "WITHIN 1"])),
        f"DEFINE {', '.join(definitions)}" if definitions else "",
    ]
    return " ".join(part for part in parts if part)
