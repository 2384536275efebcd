"""Nanoseconds of tables that are given: kept if they are whole microseconds, and else refused, wherever they enter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import episode
from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.matchers.spark_types import held_as, to_spark_types
from episode.queries.language import Given
from episode.queries.tables import checked_table
from episode.sizing.profile import bind_to, read_pattern

NOON = 1_767_268_800_000_000_000
ROWS = "t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.i AS i PATTERN (A))"
WINDOWS = """SELECT i, n OVER w AS n FROM t WINDOW w AS (ORDER BY ts MEASURES A.i AS n
             ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A))"""
CORRELATION = """SELECT l.i FROM
    t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.i AS i AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A)) AS l,
    t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.i AS i AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A)) AS a
    WHERE RECENCY = 1 hour"""
PATTERN = "PATTERN a; b WITHIN 1 hour RETURN a.i AS i, b.i AS j"
ENTRIES: dict[str, Callable[[Any], Any]] = {
    "row pattern": lambda frame: episode.sql_local(f"SELECT i FROM {ROWS}", t=frame),
    "windows": lambda frame: episode.sql_local(WINDOWS, t=frame),
    "correlation": lambda frame: episode.sql_local(CORRELATION, t=frame),
    "match_local": lambda frame: episode.match_local(frame, PATTERN, time="ts", type_column="c"),
    "rules": lambda frame: episode.match_all_local(frame, {"one": PATTERN}, time="ts", type_column="c"),
    "a table for Spark": lambda frame: checked_table("t", frame),
}
LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.DataFrame,
    "objects of pandas": lambda table: table.to_pandas().astype({"ts": object}),
}
TIMES = [pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin"), pa.duration("ns"), pa.time64("ns")]


def events(times: list[int]) -> pa.Table:
    """Events of classes a and b in turns."""
    classes = pa.array(["ab"[at % 2] for at in range(len(times))], pa.string())
    return pa.table(
        {"i": pa.array(range(len(times)), pa.int64()), "c": classes, "ts": pa.array(times, pa.timestamp("ns"))}
    )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_refuses_what_would_be_lost(entry: str, library: str) -> None:
    finer = LIBRARIES[library](events([NOON, NOON + 500, NOON + 100]))
    with pytest.raises(EpisodeAnalysisError, match=r"column ts of the table \w+ has parts of a microsecond in row 2;"):
        ENTRIES[entry](finer)
    ENTRIES[entry](LIBRARIES[library](events([NOON, NOON + 2000, NOON + 1000])))


def test_a_table_that_a_query_is_measured_on() -> None:
    with pytest.raises(EpisodeAnalysisError, match="column ts has parts of a microsecond in row 1;"):
        bind_to(read_pattern(PATTERN), events([NOON + 1]), Given(time="ts", type_column="c"))


@pytest.mark.filterwarnings("ignore::episode.errors.EpisodeWarning")
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=8), st.lists(st.sampled_from([0, 0, 0, 1, 999]), max_size=8),
    st.sampled_from(sorted(LIBRARIES)), st.integers(0, 2),
)  # fmt: skip
def test_results_are_right_or_refused(micros: list[int], parts: list[int], library: str, before: int) -> None:
    """Random times with and without parts of a microsecond, in a slice of a larger table."""
    rest = [*parts, *[0] * len(micros)]
    times = [NOON + 1000 * one + rest[at] for at, one in enumerate(micros)]
    table = pa.concat_tables([events([NOON + 7] * before), events(times)]).combine_chunks().slice(before)
    frame = LIBRARIES[library](table)
    pairs = {
        (i, j)
        for i in range(0, len(times), 2)
        for j in range(1, len(times), 2)
        if times[i] < times[j]
    }  # fmt: skip
    order = sorted(range(len(times)), key=lambda at: (times[at], at))
    lost = next((at for at, time in enumerate(times) if time % 1000), None)
    if lost is not None:
        with pytest.raises(EpisodeAnalysisError, match=f"in row {lost + 1};"):
            ENTRIES["match_local"](frame)
        return
    matches = pa.table(ENTRIES["match_local"](frame))
    rows = pa.table(ENTRIES["row pattern"](frame))
    assert {(row["i"], row["j"]) for row in matches.to_pylist()} == pairs
    assert rows["i"].to_pylist() == order


# ---- values inside others --------------------------------------------------------------------------------------


def nested(kind: pa.DataType, values: list[int | None]) -> dict[str, pa.Array]:
    """Values, one for each row, inside all that can hold them."""
    plain = pa.array(values, pa.int64()).cast(kind)
    each = pa.array(range(len(values) + 1), pa.int32())
    return {
        "plain": plain,
        "dictionary": plain.dictionary_encode(),
        "struct": pa.StructArray.from_arrays([plain], ["a"]),
        "list": pa.ListArray.from_arrays(each, plain),
        "large list": pa.LargeListArray.from_arrays(each.cast(pa.int64()), plain),
        "fixed list": pa.FixedSizeListArray.from_arrays(plain, 1),
        "map": pa.MapArray.from_arrays(each, pa.array(["x"] * len(values)), plain),
        "deep": pa.ListArray.from_arrays(each, pa.StructArray.from_arrays([plain.dictionary_encode()], ["a"])),
    }


@pytest.mark.parametrize("kind", TIMES, ids=str)
@pytest.mark.parametrize("holder", nested(pa.timestamp("ns"), []))
def test_nested(holder: str, kind: pa.DataType) -> None:
    whole = pa.table({"x": nested(kind, [1000, None, 3000])[holder]})
    wanted = pa.table({"x": nested(held_as(kind), [1, None, 3])[holder]})
    assert to_spark_types(whole).to_pylist() == to_spark_types(wanted).to_pylist()
    finer = pa.table({"x": nested(kind, [1000, None, 3001, 5])[holder]})
    with pytest.raises(EpisodeAnalysisError, match="column x of the table t has parts of a microsecond in row 3;"):
        checked_table("t", finer)
    for start, length in ((0, 2), (1, 1), (0, 0)):  # what is outside a slice is not looked at
        part = to_spark_types(finer.slice(start, length))
        assert part.to_pylist() == to_spark_types(wanted.slice(start, length)).to_pylist()


def test_values_beneath_nulls_are_not_looked_at() -> None:
    finer, hides = pa.array([1000, 2001], pa.timestamp("ns")), pa.array([False, True])
    struct = pa.StructArray.from_arrays([finer], ["a"], mask=hides)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2]), finer, mask=hides)
    found = to_spark_types(pa.table({"s": struct, "l": lists})).to_pylist()
    moment = datetime(1970, 1, 1, 0, 0, 0, 1)
    assert found == [{"s": {"a": moment}, "l": [moment]}, {"s": None, "l": None}]


def test_objects_inside_objects_of_pandas() -> None:
    moment = pd.Timestamp(NOON + 1)
    for value in ([moment], {"a": moment}, [{"a": [moment]}], pd.Timedelta(1001, "ns")):
        frame = pd.DataFrame({"x": pd.Series([None, value], dtype=object)})
        with pytest.raises(EpisodeAnalysisError, match="column x of the table t has parts of a microsecond in row 2;"):
            checked_table("t", frame)


def test_times_beyond_those_of_spark() -> None:
    far = pa.table({"ts": pa.array([0, 2**60], pa.timestamp("s"))})
    with pytest.raises(
        EpisodeAnalysisError, match=r"column ts of the table t, of type timestamp\[s\], has a value in row"
    ):
        checked_table("t", far)


@pytest.mark.parametrize("value", [pd.Timestamp(NOON + 1), pd.Timedelta(1001, "ns")], ids=["timestamp", "timedelta"])
def test_values_of_parameters(value: Any) -> None:
    query = ROWS.replace("PATTERN (A)", "PATTERN (A) DEFINE A AS A.ts > :since")
    with pytest.raises(EpisodeUnsupportedError, match=r"args: since=.* has parts of a microsecond"):
        episode.sql_local(f"SELECT i FROM {query}", t=events([NOON]), args={"since": value})
