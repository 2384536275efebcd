"""A table per class: which columns are one, what must be in every table, and of which type."""

from __future__ import annotations

from typing import Any

import pytest

from episode.errors import EpisodeAnalysisError
from episode.lang.events.parser import parse_event_query
from episode.plan.events.classes import one_stream_of
from episode.plan.schema import InputSchema
from episode.plan.types import wider

QUERY = parse_event_query("PATTERN A; D WITHIN 20")


def bound(*, case_sensitive: bool = False, time: str | None = "ts", start: str | None = None,
          keys: tuple[str, ...] = (), **tables: dict[str, str]) -> Any:  # fmt: skip
    schemas = {name: InputSchema(columns, case_sensitive=case_sensitive) for name, columns in tables.items()}
    return one_stream_of(QUERY, schemas, time, start, keys)


def error_of(**arguments: Any) -> str:
    with pytest.raises(EpisodeAnalysisError) as raised:
        bound(**arguments)
    return str(raised.value)


def test_columns_of_one_name_and_type_are_one_and_others_are_told_apart() -> None:
    tables = bound(A={"ts": "int", "x": "string", "y": "int"}, D={"ts": "int", "x": "int", "y": "int"})
    assert tables["A"].columns == {"ts": "ts", "x": "x__0", "y": "y"}
    assert tables["D"].columns == {"ts": "ts", "x": "x__1", "y": "y"}
    taken = bound(A={"ts": "int", "x": "string"}, D={"ts": "int", "x": "int", "x__0": "date"})
    assert taken["A"].columns["x"] == "x__0_"


def test_names_that_differ_in_case_are_one_name() -> None:
    apart = bound(A={"ts": "int", "X": "string"}, D={"TS": "int", "x": "int"})
    assert (apart["A"].columns, apart["D"].columns) == ({"ts": "ts", "X": "X__0"}, {"TS": "ts", "x": "x__1"})
    one = bound(A={"ts": "int", "X": "string"}, D={"ts": "int", "x": "string"})
    assert (one["A"].columns["X"], one["D"].columns["x"]) == ("X", "X")


def test_where_case_counts_they_are_two_names() -> None:
    apart = bound(case_sensitive=True, A={"ts": "int", "X": "string"}, D={"ts": "int", "x": "string"})
    assert (apart["A"].columns["X"], apart["D"].columns["x"]) == ("X__0", "x__1")
    assert "The table D has no column ts" in error_of(case_sensitive=True, A={"ts": "int"}, D={"TS": "int"})


def test_time_start_and_keys_are_widened() -> None:
    tables = bound(
        start="s", keys=("k",),
        A={"ts": "smallint", "s": "int", "k": "bigint", "x": "int"},
        D={"ts": "int", "s": "int", "k": "int", "x": "int"},
    )  # fmt: skip
    assert tables["A"].columns == tables["D"].columns == {"ts": "ts", "s": "s", "k": "k", "x": "x"}
    assert (tables["A"].widened, tables["D"].widened) == ({"ts": "int"}, {"k": "bigint"})
    both = bound(start="s", A={"ts": "bigint", "s": "int"}, D={"ts": "int", "s": "int"})
    assert both["D"].widened == {"ts": "bigint", "s": "bigint"}


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("tinyint", "bigint", "bigint"), ("float", "double", "double"), ("date", "date", "date"),
        ("decimal(5,2)", "decimal(6,0)", "decimal(8,2)"), ("decimal(38,0)", "decimal(38,2)", None),
        ("timestamp", "timestamp_ntz", None), ("date", "timestamp", None), ("int", "string", None),
        ("bigint", "double", None),
    ],
)  # fmt: skip
def test_types_of_one_family_have_a_wider_one(left: str, right: str, common: str | None) -> None:
    assert wider(left, right) == wider(right, left) == common


def test_every_table_needs_time_start_and_keys() -> None:
    assert error_of(A={"ts": "int"}, D={"tss": "int"}) == (
        "The table D has no column ts for the event time.\n"
        "  at line 1, column 12:\n"
        "   1 | PATTERN A; D WITHIN 20\n"
        "                  ^\n"
        "  Did you mean tss? Every table of a class needs it. Columns of D: tss."
    )
    assert "The table A has no column k for the key." in error_of(keys=("k",), A={"ts": "int"}, D={"ts": "int"})
    message = error_of(start="s", A={"ts": "int", "s": "int"}, D={"ts": "int"})
    assert "The table D has no column s for the start of an event." in message
    only = error_of(time=None, A={"ts": "timestamp"}, D={"x": "int"})  # the only timestamp is the time
    assert "The table D has no column ts for the event time." in only


def test_types_of_two_families_are_refused() -> None:
    assert error_of(keys=("k",), A={"ts": "int", "k": "int"}, D={"ts": "int", "K": "string"}) == (
        "K is of type int in A and of type string in D.\n"
        "  at line 1, column 12:\n"
        "   1 | PATTERN A; D WITHIN 20\n"
        "                  ^\n"
        "  As the key it must be of one type in all tables: cast it in one."
    )
    assert "ts is of type date in A and of type timestamp in D" in error_of(A={"ts": "date"}, D={"ts": "timestamp"})
