"""Columns of RETURN without AS have names of their own."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.events.parser import parse_event_query


def names(returned: str) -> list[str]:
    query = parse_event_query(f"PATTERN SEQ(A a, B+ b[], C c) RETURN {returned}")
    assert query.returns is not None
    return [item.name for item in query.returns]


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("a.ts", "ts"),
        ("a.ts, c.ts", "a_ts c_ts"),
        ("a.ts, c.TS, b[].x", "a_ts c_TS x"),
        ("b[1].x, b[last].x, b[2].x, b[].x", "b_1_x b_last_x b_2_x b_x"),
        ("b[1], b[last], b", "b_1 b_last b"),
        ("a.ts AS ts, c.ts", "ts c_ts"),
        ("a.ts, c.x AS ts", "a_ts ts"),
        ("a.info.x, c.x", "a_info_x c_x"),
    ],
)
def test_items_of_one_name_have_longer_ones(returned: str, expected: str) -> None:
    assert names(returned) == expected.split()


@pytest.mark.parametrize(
    "returned", ["a.ts, a.ts", "a.x + 1, a.x + 1", "a.ts, c.ts, a.x AS c_ts", "a.x AS n, c.x AS n"]
)
def test_names_that_remain_twice_are_errors(returned: str) -> None:
    with pytest.raises(EpisodeSyntaxError, match="Two columns of RETURN are called"):
        names(returned)
