"""AGGREGATE in process: match_local, sql_local, options."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode import EpisodeAnalysisError, EpisodeUnsupportedError
from tests.support.flat_options import grouped

EVENTS = pa.table(
    {"k": [1] * 5, "ts": [0, 1, 2, 3, 4], "x": [0, 10, 20, 40, 0], "type": ["A", "B", "B", "B", "C"]},
    pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("x", pa.int32()), ("type", pa.string())]),
)
PATTERN = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 10"


def aggregated(clause: str, **options: Any) -> list[dict[str, Any]]:
    return episode.match_local(
        EVENTS, f"{PATTERN} {clause}", time="ts", type_column="type", options=grouped(**options)
    ).to_pylist()  # fmt: skip


def test_keys_groups_and_buckets_stand_before_the_aggregates() -> None:
    found = episode.match_local(
        EVENTS, f"{PATTERN} AGGREGATE count(*) AS n, max(b[].x) GROUP BY c.x EVERY 3", time="ts", type_column="type",
        key="k",
    )  # fmt: skip
    assert found.to_pylist() == [
        {"k": 1, "x": 0, "bucket_start": 3, "bucket_end": 6, "n": Decimal(7), "max(b[].x)": 40}
    ]
    assert found.schema.field("n").type == pa.decimal128(38, 0)


def test_doubles_on_request() -> None:
    assert aggregated("AGGREGATE count(*) AS n, sum(b[].x) AS s", counts="double") == [{"n": 7.0, "s": 280.0}]


def test_in_sql() -> None:
    text = (
        f"SELECT n FROM EVENTS (FROM t PARTITION BY k ORDER BY ts TYPE BY type {PATTERN} AGGREGATE count(*) AS n) AS m"
    )
    assert episode.sql_local(text, t=EVENTS).to_pylist() == [{"n": Decimal(7)}]


def test_times_make_buckets_of_the_clock() -> None:
    stamps = pa.array([value * 1_000_000 for value in EVENTS.column("ts").to_pylist()], pa.timestamp("us", "UTC"))
    events = EVENTS.set_column(1, "ts", stamps)
    found = episode.match_local(
        events, f"{PATTERN} seconds AGGREGATE count(*) AS n EVERY 3 seconds", time="ts", type_column="type"
    ).to_pylist()
    assert [(row["bucket_start"].second, row["bucket_end"].second, row["n"]) for row in found] == [(3, 6, 7)]


@pytest.mark.parametrize("option", [{"step_budget": 7}, {"match_times": True}, {"closure": "runs"}])
def test_options_for_matches_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(EpisodeAnalysisError, match="has no meaning for AGGREGATE"):
        aggregated("AGGREGATE count(*)", **option)


def test_what_spark_evaluates_around_aggregates_is_refused_in_process() -> None:
    with pytest.raises(EpisodeUnsupportedError, match="needs Spark"):
        aggregated("AGGREGATE round(sum(b[].x) / count(*), 1) AS mean")


KEYED = pa.table({"ts": [0, 1, 2, 3], "k": [1, 2, 1, 2], "x": [5, 6, 5, 7], "type": ["A", "A", "B", "B"]})


@pytest.mark.parametrize(
    ("where", "group_by", "key", "rows"),
    [
        ("WHERE [k]", "a.k AS g", "", [{"g": 1, "n": 1}, {"g": 2, "n": 1}]),
        ("WHERE [k]", "a.k", "", [{"k": 1, "n": 1}, {"k": 2, "n": 1}]),
        ("WHERE [k]", "a.K", "", [{"K": 1, "n": 1}, {"K": 2, "n": 1}]),
        ("WHERE [k]", "a.k AS g, b.k AS h", "", [{"g": 1, "h": 1, "n": 1}, {"g": 2, "h": 2, "n": 1}]),
        ("WHERE a.x = b.x", "a.x AS g", "", [{"g": 5, "n": 1}]),
        ("", "a.k AS g", "k", [{"g": 1, "n": 1}, {"g": 2, "n": 1}]),
        ("", "a.K", "k", [{"K": 1, "n": 1}, {"K": 2, "n": 1}]),
        ("", "b.x AS g", "k", [{"k": 1, "g": 5, "n": 1}, {"k": 2, "g": 7, "n": 1}]),
        ("", "b.x AS k, b.k AS g", "k", [{"g": 1, "k": 5, "n": 1}, {"g": 2, "k": 7, "n": 1}]),
        ("", "a.x AS g", "", [{"g": 5, "n": 2}, {"g": 6, "n": 2}]),
        ("", "a.x AS g, b.x AS h", "k", [{"k": 1, "g": 5, "h": 5, "n": 1}, {"k": 2, "g": 6, "h": 7, "n": 1}]),
    ],
)
def test_group_by_names_its_columns(where: str, group_by: str, key: str, rows: list[dict[str, Any]]) -> None:
    text = f"PATTERN SEQ(A a, B b) {where} AGGREGATE count(*) AS n GROUP BY {group_by}"
    found = episode.match_local(KEYED, text, time="ts", type_column="type", key=key or ())
    assert found.column_names == list(rows[0])
    assert sorted(found.to_pylist(), key=str) == rows


@pytest.mark.parametrize("group_by", ["b.x AS k", "a.x AS g, b.k AS G", "b.k AS n"])
def test_two_columns_of_one_name_are_refused(group_by: str) -> None:
    text = f"PATTERN SEQ(A a, B b) AGGREGATE count(*) AS n GROUP BY {group_by}"
    with pytest.raises(episode.EpisodeError, match="Two columns"):
        episode.match_local(KEYED, text, time="ts", type_column="type", key="k")


@pytest.mark.parametrize("clause", ["", "GROUP BY a.x", "EVERY 5"])
def test_nothing_that_matches_gives_no_row(clause: str) -> None:
    text = f"PATTERN SEQ(B b, A a) AGGREGATE count(*) AS n {clause}"
    assert episode.match_local(KEYED, text, time="ts", type_column="type").num_rows == 0
