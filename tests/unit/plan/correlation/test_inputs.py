"""The events of two patterns as one input: which columns are one, the keys, the order."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeAnalysisError
from episode.lang.rows.parser import parse_clause
from episode.lang.syntax import NOWHERE, Source
from episode.plan.correlation.inputs import JointInput, joint_input
from episode.plan.rows.plan import RowPatternPlan, plan_row_pattern
from episode.plan.schema import InputSchema

TYPES = {"k": "string", "ts": "bigint", "seq": "int", "v": "double"}


def plan(keys: str = "k", order: str = "ts", columns: str = "v", types: dict[str, str] | None = None) -> RowPatternPlan:
    measures = ", ".join(f"LAST({name}) AS m{at}" for at, name in enumerate(columns.split()))
    text = f"PARTITION BY {keys} ORDER BY {order} MEASURES {measures} PATTERN (A)"
    return plan_row_pattern(parse_clause(text), InputSchema(types or TYPES, lambda sql: "bigint"))


def joint(
    live: RowPatternPlan, archive: RowPatternPlan, *equal: tuple[str, str], one_table: bool = False
) -> JointInput:
    return joint_input(live, archive, equal, one_table, Source(), NOWHERE)


def test_one_table_is_read_once() -> None:
    found = joint(plan(), plan(columns="v seq"), ("k", "k"), one_table=True)
    assert found.shared
    assert found.keys == ("k",)
    assert found.columns == ("k", "ts", "v", "seq")
    assert found.selections == (("`k`", "k"), ("`ts`", "ts"), ("`v`", "v"), ("`seq`", "seq"))


@pytest.mark.parametrize(
    ("live", "archive", "equal"),
    [
        (plan(), plan(order="ts, seq"), ("k", "k")),
        (plan(keys="k"), plan(keys="seq"), ("k", "seq")),
        (plan(keys="k, seq", types={**TYPES, "seq": "string"}), plan(types={**TYPES, "k": "string"}), ("seq", "k")),
    ],
)
def test_other_order_or_keys_are_two_inputs(
    live: RowPatternPlan, archive: RowPatternPlan, equal: tuple[str, str]
) -> None:
    assert joint(live, archive, equal, one_table=True).shared == (live.types[equal[0]] != archive.types[equal[1]])


def test_keys_and_times_of_other_names_are_one_column() -> None:
    other = plan("sym", "at", "v", {"sym": "string", "at": "bigint", "v": "double"})
    found = joint(plan(), other, ("k", "sym"))
    assert found.keys == ("__episode_key_0",)
    assert found.time == "__episode_time"
    assert dict(found.live.columns) == {"k": "__episode_key_0", "ts": "__episode_time", "v": "v"}
    assert dict(found.archive.columns) == {"sym": "__episode_key_0", "at": "__episode_time", "v": "v"}


def test_columns_of_one_name_and_two_types_are_apart() -> None:
    found = joint(plan(), plan(types={**TYPES, "v": "int"}), ("k", "k"))
    assert found.live.names["v"] == "__episode_live_v"
    assert found.archive.names["v"] == "__episode_archive_v"


def test_keys_of_two_types_are_no_keys() -> None:
    found = joint(plan(), plan(types={**TYPES, "k": "int"}), ("k", "k"))
    assert found.keys == ()
    assert found.live.names["k"] != found.archive.names["k"]


def test_a_column_is_a_key_once() -> None:
    both = plan(keys="k, seq")
    assert joint(both, both, ("k", "k"), ("k", "k"), ("seq", "seq")).keys == ("k", "seq")


def test_the_order_of_one_does_not_order_the_other() -> None:
    found = joint(plan(order="ts, seq"), plan(columns="v seq"), ("k", "k"))
    assert [one.column for one in found.order] == ["ts", "__episode_live_seq"]
    assert found.archive.names["seq"] == "__episode_archive_seq"
    same = joint(plan(order="ts, seq DESC"), plan(order="ts, seq DESC"), ("k", "k"))
    assert [(one.column, one.ascending) for one in same.order] == [("ts", True), ("seq", False)]


def test_computed_columns() -> None:
    def computed(condition: str) -> RowPatternPlan:
        text = f"PARTITION BY k ORDER BY ts MEASURES LAST(v) AS m PATTERN (A) DEFINE A AS soundex({condition}) > 0"
        return plan_row_pattern(parse_clause(text), InputSchema(TYPES, lambda sql: "boolean"))

    live, archive = computed("k"), computed("v")
    assert live.derived[0][1] == archive.derived[0][1]
    apart = joint(live, archive, ("k", "k"), one_table=True)
    assert apart.live.names[live.derived[0][1]] != apart.archive.names[archive.derived[0][1]]
    same = joint(live, live, ("k", "k"), one_table=True)
    assert same.live.names == same.archive.names


def test_times_of_two_types() -> None:
    with pytest.raises(EpisodeAnalysisError, match="is of type bigint, that of the archive pattern of int"):
        joint(plan(), plan(types={**TYPES, "ts": "int"}), ("k", "k"))
