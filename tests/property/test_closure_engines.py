"""Closures under skip-till-any-match: runs, postponed and on the fly give the oracle's matches, all of them the same.

Over all kinds of conditions, in rounds of few rows, chunks with restarts, and output buffers of any size.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import Strategy
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import run
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema
from tests.property.test_event_pattern_laws import expected, pieces_of
from tests.reference.generate_events import Case, Features, cases
from tests.support.events import run_in_pieces, run_whole, spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
CHOOSING = Features(choosing=True)
ENGINES = ["runs", "postponed", "on the fly"]


def planned(case: Case, closure: str, **options: Any) -> EventPatternSpec:
    try:
        spec = spec_of(case.text, typed=case.typed, key=case.key, strategy=case.strategy, closure=closure, **options)
    except EpisodeUnsupportedError as error:
        note(str(error))
        assume(False)
        raise
    assume(spec.plan.keeps == 0)
    return spec


def is_postponed(spec: EventPatternSpec) -> bool:
    return spec.plan.construction is not None


@pytest.mark.parametrize("lasting", [False, True], ids=["moments", "lasting"])
def test_all_engines_equal_the_oracle(lasting: bool) -> None:
    features = replace(CHOOSING, intervals=lasting)

    @SETTINGS
    @given(cases(features, max_events=9, strategy=Strategy.ANY), st.integers(1, 7), st.integers(1, 4), st.data())
    def check(case: Case, buffer: int, rows: int, data: st.DataObject) -> None:
        note(case.text)
        oracle = None
        for closure in ENGINES:
            spec = planned(case, closure, lasting=lasting)
            oracle = expected(case, spec) if oracle is None else oracle
            assert sorted(run_whole(spec, case.events)) == oracle, closure
            if not is_postponed(spec):
                continue
            small = replace(spec, buffer=buffer, round_rows=rows, most_records=64)
            assert sorted(run_whole(small, case.events)) == oracle, closure
            if not lasting:
                pieces = data.draw(pieces_of(case.events))
                assert sorted(run_in_pieces(small, pieces, data.draw(st.booleans()))) == oracle, closure

    check()


# ---- values of all kinds ------------------------------------------------------------------------------------

TYPES = {"pos": "bigint", "ts": "bigint", "type": "string", "i": "int", "l": "bigint", "d": "double", "f": "float",
         "p": "decimal(10,2)"}  # fmt: skip
SCHEMA = pa.schema(
    {
        "pos": pa.int64(), "ts": pa.int64(), "type": pa.string(), "i": pa.int32(), "l": pa.int64(), "d": pa.float64(),
        "f": pa.float32(), "p": pa.decimal128(10, 2),
    }
)  # fmt: skip
HUGE = 2**53
VALUES = {
    "i": st.sampled_from([1, 2, 3, 0, -1, -2, None]),
    "l": st.sampled_from([1, 2, HUGE, HUGE + 1, -HUGE, 2**62, None]),
    "d": st.sampled_from([0.1, 0.2, 0.3, 1.0, -0.1, 2.5, 1e300, float("nan"), float("inf"), None]),
    "f": st.sampled_from([0.1, 0.2, 0.5, 1.0, -1.5, None]),
    "p": st.sampled_from([Decimal("0.10"), Decimal("0.20"), Decimal("1.00"), Decimal("-0.30"), None]),
}
PATTERNS = [
    "SEQ(A a, B+ b[], C c)",
    "SEQ(A a, B+ b[], C c)",
    "SEQ(A a, B* b[], C c)",
    "SEQ(B+ b[], C c)",
    "SEQ(A a, B+ b[], D+ e[], C c)",
    "SEQ(A a, ~D x, B+ b[], C c)",
    "SEQ(A a, B+ b[], ~D x, C c)",
    "SEQ(A a, B^3 b[], C c)",
]


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(["i", "l", "d", "f", "p"]))
    sign = draw(st.sampled_from([">", "<", ">=", "<=", "=", "<>"]))
    term = draw(
        st.sampled_from(
            ["sum(b[].{0})", "avg(b[].{0})", "min(b[].{0})", "max(b[].{0})", "count(b[].{0})", "count(b[])", "b[1].{0}",
             "b[last].{0}", "first(b[].{0})", "max(b[].{0}) - min(b[].{0})", "b[i].{0}", "sum(b[..i].{0})",
             "sum(b[].{0}) + c.{0}", "avg(b[..i-1].{0})", "sum(b[].{0}) + max(b[].i)",
             "2 * sum(b[].{0}) - min(b[].{0})",
             "max(b[..i-1].{0})", "b[i].{0} - b[i-1].{0}", "max(b[..i].{0}) - b[i].i", "count(b[..i])",
             "min(b[..i-1].{0}) + sum(b[..i].i)", "-max(b[].{0})"]
        )
    ).format(column)  # fmt: skip
    other = draw(
        st.sampled_from(
            ["c.{0}", "c.{0}", "0", "1", "2", "0.3", "b[1].{0}", "b[last].{0}", "c.i", "c.d", "b[i-1].{0}",
             "c.{0} + 1", "3 * c.{0}"]
        )
    ).format(column)  # fmt: skip
    text = f"{term} {sign} {other}"
    if draw(st.sampled_from([False] * 3 + [True])):
        more = [
            "count(b[]) > 2",
            "c.i > 1",
            "sum(b[].i) >= c.i AND min(b[].l) < 2",
            "b[1].i = c.i",
            "NOT max(b[].d) > 0.2",
        ]
        joint = draw(st.sampled_from(["OR", "OR", "AND"]))
        text = f"({text} {joint} {draw(st.sampled_from(more))})"
    return f"NOT ({text})" if draw(st.sampled_from([False] * 5 + [True])) else text


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from("BBBABCD"), min_size=3, max_size=9))
    rows, time = [], 0
    for position, kind in enumerate(["A", *kinds, "C"]):
        time += draw(st.sampled_from([1, 1, 1, 0]))
        rows.append(
            {"pos": position, "ts": time, "type": kind, **{name: draw(values) for name, values in VALUES.items()}}
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@SETTINGS
@given(st.sampled_from(PATTERNS), st.lists(comparisons(), min_size=1, max_size=3), tables(), st.integers(1, 9))
def test_bounds_lose_no_match(pattern: str, conditions: list[str], table: pa.Table, buffer: int) -> None:
    """Bounds with nulls, NaN, rounding, decimals and numbers that floating point does not tell apart."""
    text = f"PATTERN {pattern} WHERE {' AND '.join(conditions)} WITHIN 9 RETURN b[].pos AS b, c.pos AS c"
    note(text)
    query = parse_event_query(text)
    classes = EventClasses(query, InputSchema(TYPES), "type")
    found = []
    for closure in ENGINES:
        try:
            plan = plan_event_pattern(query, classes, EventTimes("ts", None, "bigint"), closure=closure)
        except EpisodeUnsupportedError as error:
            note(str(error))
            assume(False)
            raise
        assume(plan.keeps == 0)
        spec = EventPatternSpec(plan, SCHEMA, buffer=buffer)
        output = run(spec, [table], until=[END_OF_TIME], restore=False)
        columns = [column.to_pylist() for column in output.columns]
        found.append(sorted(repr(row) for row in zip(*columns, strict=True)))
    assert found[0] == found[1] == found[2]


def test_all_subsets_of_a_group_come_out_in_any_buffer() -> None:
    kinds = ["A", *"B" * 6, "C"]
    rows = [
        {"pos": n, "ts": n, "type": kind, "i": 1, "l": 1, "d": 1.0, "f": 1.0, "p": Decimal("1.00")}
        for n, kind in enumerate(kinds)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    query = parse_event_query("PATTERN SEQ(A a, B+ b[], C c) WITHIN 9 RETURN b[].pos AS b")
    plan = plan_event_pattern(
        query, EventClasses(query, InputSchema(TYPES), "type"), EventTimes("ts", None, "bigint"), closure="on the fly"
    )
    subsets = [list(some) for size in range(1, 7) for some in itertools.combinations(range(1, 7), size)]
    for buffer in range(1, 30):
        output = run(EventPatternSpec(plan, SCHEMA, buffer=buffer), [table], until=[END_OF_TIME], restore=False)
        assert sorted(output.column(0).to_pylist()) == sorted(subsets)
