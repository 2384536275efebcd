"""Screens: which rows are left out before they are packed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from episode.errors import EpisodeDataError
from episode.lang.events.parser import parse_event_query
from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.running import run
from episode.matchers.screening import Screen
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes, Imprecision
from episode.plan.schema import InputSchema

TYPES = {"type": "string", "ts": "bigint", "te": "bigint", "x": "bigint", "y": "double", "p": "array<double>"}
SCHEMA = pa.schema(
    [("type", pa.string()), ("ts", pa.int64()), ("te", pa.int64()), ("x", pa.int64()), ("y", pa.float64()),
     ("p", pa.list_(pa.float64()))]
)  # fmt: skip
PAIR = "PATTERN SEQ(A a, B b) WHERE b.x > 2 WITHIN 9"


def spec_of(text: str, *, typed: bool = True, times: EventTimes | None = None) -> EventPatternSpec:
    query = parse_event_query(text)
    classes = EventClasses(query, InputSchema(TYPES), "type" if typed else None)
    times = times or EventTimes("te", None, "bigint")
    return EventPatternSpec(plan_event_pattern(query, classes, times), SCHEMA)


def screen_of(text: str, *, typed: bool = True, times: EventTimes | None = None) -> Screen:
    screen = spec_of(text, typed=typed, times=times).screen
    assert screen is not None
    return screen


def events(
    *rows: tuple[str | None, int | None, int | None], coded: bool = False, start: list | None = None
) -> pa.Table:
    """(type, te, x), with the other columns made up."""
    kinds, ends, values = (list(column) for column in zip(*rows, strict=True))
    count = len(kinds)
    columns = [kinds, start or ends, ends, values, [1.0] * count, [[1.0]] * count]
    table = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return table.set_column(0, "type", table.column(0).dictionary_encode()) if coded else table


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "dictionary"])
def test_rows_of_no_variable_are_left_out(coded: bool) -> None:
    rows = [("A", 1, None), ("D", 2, 9), (None, 3, 9), ("B", 4, 2), ("B", 5, None), ("B", 6, 3), ("D", 7, 1)]
    passed = screen_of(PAIR).passing(events(*rows, coded=coded))
    assert passed.column("te").to_pylist() == [1, 6]


def test_rows_come_through_the_pack() -> None:
    spec = spec_of(PAIR)
    table = events(("A", 1, None), ("D", 2, 9), ("B", 6, 3), ("D", 7, 1))
    packing = Packing(spec.input_order, 1, screen=spec.screen)
    (shard,) = (table for _, table in unpack(pack([table], packing, 0)))
    assert shard.column("te").to_pylist() == [1, 6]
    assert list(unpack(pack([table.slice(1, 1)], packing, 0))) == []


def test_conditions_of_several_columns_are_asked_of_the_rows_that_are_left() -> None:
    text = "PATTERN SEQ(A a, B b) WHERE b.x > b.y WITHIN 9"
    rows = [("A", 1, 0), ("D", 2, 5), ("B", 3, 1), ("B", 4, 2), ("D", 5, 5)]
    passed = screen_of(text).passing(events(*rows, coded=True))
    assert passed.column("te").to_pylist() == [1, 4]


def test_where_nearly_all_pass_all_are_kept() -> None:
    table = events(*[("A", 1, None)] * 19, ("D", 2, None))
    assert screen_of(PAIR).passing(table).num_rows == 20


def test_there_is_none_where_a_variable_takes_every_row() -> None:
    assert spec_of("PATTERN SEQ(A a, B b) WHERE a.x > 1 WITHIN 9", typed=False).screen is None
    assert screen_of("PATTERN SEQ(A a, B b) WHERE a.x > 1 AND b.x < 0 WITHIN 9", typed=False) is not None


def test_there_is_none_where_events_have_probabilities() -> None:
    times = EventTimes("te", "ts", "bigint", Imprecision(1, "p"))
    assert spec_of(PAIR, times=times).screen is None


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize(
    ("times", "end", "start"),
    [
        (EventTimes("te", None, "bigint"), None, None),
        (EventTimes("te", "ts", "bigint"), 5, None),
        (EventTimes("te", "ts", "bigint"), 5, 6),
        (EventTimes("te", "ts", "bigint", Imprecision(1)), 5, 6),
        (EventTimes("te", "ts", "bigint", Imprecision(1)), 1 << 20, 0),
        (EventTimes("te", "ts", "bigint", Imprecision(1, width=3)), 5, 1),
        (EventTimes("te", "ts", "bigint", Imprecision(1)), -(2**63), -(2**63)),
    ],
    ids=["no time", "no start", "start after end", "not between", "too many points", "too wide", "the least number"],
)
def test_wrong_times_are_kept_for_the_matcher(
    times: EventTimes, end: int | None, start: int | None, coded: bool
) -> None:
    spec = spec_of(PAIR, times=times)
    assert spec.screen is not None
    rows = [("A", 1, None), ("D", end, 9), ("D", 7, 1), ("D", 8, 1)]
    table = events(*rows, coded=coded, start=[1, start, 7, 8])
    passed = spec.screen.passing(table)
    assert passed.num_rows == 2
    with pytest.raises(EpisodeDataError):
        run(spec, passed.set_column(0, "type", passed.column("type").cast(pa.string())))
