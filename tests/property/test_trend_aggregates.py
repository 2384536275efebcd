"""Aggregates over all matches: oracle equality (by enumeration), chunks, shards, restarts, streams, bounded state."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.matchers.columns import to_bytes
from episode.matchers.events.aggregated import AggregatedSpec
from episode.matchers.events.aggregated_search import FEW
from episode.matchers.protocol import StateChunk
from episode.matchers.running import run
from episode.matchers.stream_shard import ShardSettings, StreamShard
from tests.property.test_event_pattern_laws import pieces_of
from tests.reference.event_patterns import Event
from tests.reference.generate_trends import TrendCase, trend_cases
from tests.reference.scalars import grouping
from tests.reference.trend_aggregates import TrendAggregate, aggregate_matches
from tests.support.aggregated import Rows, aggregated_spec, exact, rows_of, run_aggregated
from tests.support.events import events_until, table_of

END = 1_000
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
FEWS = st.sampled_from((0, 3, FEW))
"""Partitions of how many rows are compared event by event: none, some, all."""


def planned(case: TrendCase, **options: Any) -> AggregatedSpec:
    """The spec; what is refused at plan time is none of these tests'."""
    try:
        return aggregated_spec(f"{case.text} {case.clause}", key=case.key, **options)
    except EpisodeUnsupportedError as error:
        note(str(error))
        assume(False)
        raise


def expected(case: TrendCase, spec: AggregatedSpec) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The oracle's rows; what is grouped by and is the key as well stands there once."""
    found = {}
    columns = [column for _, column in case.group_by]
    for group, values in case.expected().items():
        if case.key in columns:
            group = group[1:]
        found[group] = values
    return found


def check_equal(found: Rows, oracle: dict[tuple[Any, ...], tuple[Any, ...]]) -> None:
    compared = {
        tuple(grouping(value) if value is not None else None for value in group): v for group, v in found.items()
    }
    oracle = {tuple(group): v for group, v in oracle.items()}
    assert compared.keys() == oracle.keys()
    for group, values in compared.items():
        for value, right in zip(values, oracle[group], strict=True):
            if isinstance(value, float) and isinstance(right, Fraction):
                assert value == pytest.approx(float(right), rel=1e-12, abs=1e-12)
            else:
                assert exact(value) == exact(right)


@SETTINGS
@given(trend_cases(), FEWS)
def test_equals_the_oracle(case: TrendCase, few: int) -> None:
    spec = planned(case, few=few)
    check_equal(run_aggregated(spec, [case.events]), expected(case, spec))


@SETTINGS
@given(trend_cases(beyond=True))
def test_conditions_with_the_first_event_equal_the_oracle(case: TrendCase) -> None:
    spec = planned(case)
    check_equal(run_aggregated(spec, [case.events]), expected(case, spec))


@SETTINGS
@given(trend_cases(), st.data())
def test_chunks_and_restarts_do_not_matter(case: TrendCase, data: st.DataObject) -> None:
    spec = planned(case, few=data.draw(FEWS))
    pieces = data.draw(pieces_of(case.events))
    check_equal(run_aggregated(spec, pieces, data.draw(st.booleans())), expected(case, spec))


@SETTINGS
@given(trend_cases(), st.data())
def test_shards_do_not_matter(case: TrendCase, data: st.DataObject) -> None:
    spec = planned(case, few=data.draw(FEWS))
    assume(spec.input_order.keys)
    shards: dict[int, list[Event]] = {}
    where: dict[tuple[Any, ...], int] = {}
    for event in case.events:
        key = tuple(event.values[name] for name in spec.input_order.keys)
        if key not in where:
            where[key] = data.draw(st.integers(0, 2))
        shards.setdefault(where[key], []).append(event)
    found: Rows = {}
    for events in shards.values():
        found |= run_aggregated(spec, [events])
    check_equal(found, expected(case, spec))


@SETTINGS
@given(trend_cases(), st.data())
def test_streams_equal_tables(case: TrendCase, data: st.DataObject) -> None:
    """Through the reorder buffer of streams, in micro-batches, with restarts: as over the whole."""
    assume(case.every is not None)
    spec = planned(case)
    shard = StreamShard(spec, ShardSettings(end=END))
    state: dict[str, StateChunk] = {}
    cuts = sorted(data.draw(st.sets(st.integers(0, len(case.events)), max_size=4)))
    outputs = [spec.output_schema.empty_table()]
    watermark = -1
    for begin, end in zip([0, *cuts], [*cuts, len(case.events)], strict=True):
        table = table_of(case.events[begin:end])
        outputs.append(shard.step([(to_bytes(table), table)] if table.num_rows else [], watermark).matches)
        watermark = max([watermark, *(event.te - 1 for event in case.events[:end])])
        if data.draw(st.booleans()):
            shard.snapshot().apply(state)
            last = shard.watermark
            shard = StreamShard(spec, ShardSettings(end=END))
            shard.restore(list(state.values()), last, False)
    outputs.append(shard.step([], END).matches)
    check_equal(rows_of(spec, pa.concat_tables(outputs)), expected(case, spec))


@pytest.mark.parametrize("where", ["", "WHERE b[i].x > b[i-1].x", "WHERE b[i].x >= a.x"])
def test_state_is_bounded_by_the_window_and_the_bucket(where: str) -> None:
    spec = aggregated_spec(f"PATTERN SEQ(A a, B+ b[], C c) {where} WITHIN 20 AGGREGATE count(*) AS n EVERY 10")
    held = [rows for rows, _ in events_until(spec, chunks=60, per_chunk=7)]
    assert max(held) <= 30
    assert max(held[5:10]) == max(held[-5:])


NUMBERS = {"pos": "bigint", "te": "bigint", "type": "string", "d": "double", "m": "decimal(10,2)", "l": "bigint"}
ARROW = pa.schema(
    [("pos", pa.int64()), ("te", pa.int64()), ("type", pa.string()), ("d", pa.float64()), ("m", pa.decimal128(10, 2)),
     ("l", pa.int64())]
)  # fmt: skip


@st.composite
def rows_of_numbers(draw: st.DrawFn) -> list[dict[str, Any]]:
    cents = st.integers(-(10**9), 10**9).map(lambda value: Decimal(value).scaleb(-2))
    return [
        {
            "pos": n,
            "te": time,
            "type": draw(st.sampled_from("ABBBC")),
            "d": draw(st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf, 1.5, -2.25, 3.0])),
            "m": draw(st.none() | cents),
            "l": draw(st.none() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63 - 1, -(2**63)])),
        }
        for n, time in enumerate(sorted(draw(st.lists(st.integers(0, 9), max_size=9))))
    ]


@pytest.mark.parametrize("operation", ["<", "<=", ">", ">=", "=", "<>"])
@pytest.mark.parametrize("column", ["d", "m", "l"])
def test_numbers_of_all_kinds(operation: str, column: str) -> None:
    """Sums, extremes and averages, and comparisons of neighbours: doubles with NaN, decimals, the whole of bigint."""
    text = (
        f"PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].{column} {operation} b[i-1].{column} WITHIN 8 AGGREGATE "
        f"count(*) AS n, sum(b[].m), avg(b[].m), min(b[].m), sum(b[].l), avg(b[].l), max(b[].l), min(b[].l), "
        f"min(b[].d), max(b[].d), count(b[].d), sum(a.d)"
    )
    spec = aggregated_spec(text, types=NUMBERS, schema=ARROW)
    items = [(function, name, column) for function, name, column in (
        ("count", None, None), ("sum", "b", "m"), ("avg", "b", "m"), ("min", "b", "m"), ("sum", "b", "l"),
        ("avg", "b", "l"), ("max", "b", "l"), ("min", "b", "l"), ("min", "b", "d"), ("max", "b", "d"),
        ("count", "b", "d"))]  # fmt: skip
    query = parse_event_query(text)

    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)
    @given(rows_of_numbers())
    def check(rows: list[dict[str, Any]]) -> None:
        events = [Event(row["pos"], row["te"], row["te"], row) for row in rows]
        oracle = aggregate_matches(
            query, events, [TrendAggregate(*item) for item in items],
            member=lambda place, event: event.values["type"] == place.name,
        )  # fmt: skip
        found = rows_of(spec, run(spec, pa.Table.from_pylist(rows, schema=ARROW)))
        without_doubles = {group: values[:-1] for group, values in found.items()}
        assert without_doubles.keys() == oracle.keys()
        for group, values in without_doubles.items():
            for value, right in zip(values, oracle[group], strict=True):
                if isinstance(value, float) and isinstance(right, Fraction):
                    assert value == pytest.approx(float(right), rel=1e-12)
                elif isinstance(value, float):
                    assert value == right or (math.isnan(value) and math.isnan(right))
                else:
                    assert exact(value) == exact(right)

    check()


@pytest.mark.parametrize("where", ["", "WITHIN 1000", "WHERE b[i].x >= b[i-1].x", "WHERE b[i].x >= a.x WITHIN 500"])
@pytest.mark.parametrize("n", [1, 31, 62, 63, 64, 65, 100, 125, 126])
def test_numbers_beyond_a_word_are_exact(where: str, n: int) -> None:
    """2^n - 1 choices of n events, each event in 2^(n-1) of them; up to 38 digits, and beyond them an error."""
    rows = [Event(i, i, i, {"type": t, "k": 1, "x": 3, "y": -2, "s": ""}) for i, t in enumerate(f"A{'B' * n}C")]
    spec = aggregated_spec(
        f"PATTERN SEQ(A a, B+ b[], C c) {where} AGGREGATE count(*), sum(b[].y), count(b[]), avg(b[].x), max(b[].x)"
    )
    pairs = n * 2 ** (n - 1)
    if 2 * pairs >= 10**38:
        with pytest.raises(EpisodeDataError, match="more than 38 digits"):
            run_aggregated(spec, [rows])
        return
    assert run_aggregated(spec, [rows]) == {(): (2**n - 1, -2 * pairs, pairs, 3.0, 3)}


@pytest.mark.parametrize("where", ["", "WITHIN 1000", "WHERE b[i].x >= b[i-1].x"])
def test_doubles_on_request(where: str) -> None:
    rows = [Event(i, i, i, {"type": t, "k": 1, "x": 3, "y": 1, "s": ""}) for i, t in enumerate(f"A{'B' * 500}C")]
    text = f"PATTERN SEQ(A a, B+ b[], C c) {where} AGGREGATE count(*), sum(b[].x), avg(b[].x), count(b[])"
    with pytest.raises(EpisodeDataError, match="Tuning\\(counts='double'\\)"):
        run_aggregated(aggregated_spec(text), [rows])
    found = run_aggregated(aggregated_spec(text, doubles=True), [rows])
    assert found[()] == pytest.approx((2.0**500, 3 * 500 * 2.0**499, 3.0, 500 * 2.0**499))


def test_what_is_beyond_in_no_match_does_no_harm() -> None:
    """A thousand events of a closure before the first start: no match has them."""
    rows = [Event(i, i, i, {"type": t, "k": 1, "x": i, "y": 1, "s": ""}) for i, t in enumerate("B" * 1000 + "ABBC")]
    for where in ("WITHIN 2000", "WITHIN 100", ""):
        spec = aggregated_spec(f"PATTERN SEQ(A a, B+ b[], C c) {where} AGGREGATE count(*), sum(b[].x)")
        assert run_aggregated(spec, [rows]) == {(): (3, 2 * 1001 + 2 * 1002)}


@SETTINGS
@given(
    st.lists(st.tuples(st.sampled_from("ABBC"), st.integers(0, 3)), max_size=60), st.integers(1, 40), st.integers(1, 9)
)
def test_engines_agree_on_many_events(drawn: list[tuple[str, int]], window: int, every: int) -> None:
    """A condition that always holds between neighbours changes the engine and nothing else."""
    events, time = [], 0
    for n, (name, gap) in enumerate(drawn):
        time += gap
        events.append(Event(n, time, time, {"type": name, "k": 1, "x": n % 7 - 3, "y": 1, "s": ""}))
    clause = f"WITHIN {window} AGGREGATE count(*), sum(b[].x), min(b[].x), max(a.x), count(b[]) EVERY {every}"
    sliding = aggregated_spec(f"PATTERN SEQ(A a, B+ b[], C c) {clause}")
    others = [
        aggregated_spec(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {where} {clause}")
        for where in (
            "b[i].y = b[i-1].y",
            "b[i].y <= b[i-1].y AND b[i].y >= b[i-1].y",
            "b[i].y = a.y",
            "b[i].pos > b[i-1].pos",
        )
    ]
    assert not sliding.plan.per_start
    assert all(one.plan.per_start for one in others)
    found = run_aggregated(sliding, [events])
    for other in others:
        assert run_aggregated(other, [events]) == found


@pytest.mark.parametrize(
    "pattern",
    [
        "SEQ(A a, B b) | SEQ(A a, C c)",
        "SEQ(A a, B+ b[]) | SEQ(B d, C c)",
        "SEQ(A a, B{3} b[], C c)",
        "SEQ(A a, B{2} b[], C c) WHERE b[i].x > b[i-1].x",
        "A; B; C WHERE B.x < C.x AND A.x <= B.x",
        "A; (B | C); C d WHERE d.x > A.x",
        "SEQ(A a, B+ b[], C c) WHERE c.x > b[last].x AND b[1].x >= a.x",
        "SEQ(B d, A a, B+ b[], C c) WHERE a.x < b[1].x AND b[i].x <> b[i-1].x AND b[last].x >= c.y",
        "SEQ(A a, B b, C c) WHERE b.x = c.x AND b.y < c.x",
        "SEQ(A a, B+ b[], C c) WHERE b[i].x > max(b[..i-1].x) AND b[i].y <= a.x + 1",
        "SEQ(A a, B* b[]) WHERE b[i].x = a.x",
        "SEQ(B+ b[])",
        "SEQ(B* b[], C* c[], A a)",
    ],
)
def test_listed_patterns_equal_the_oracle(pattern: str) -> None:
    where = "" if "WHERE" in pattern else "WHERE [k]"
    text = f"PATTERN {pattern} {where} WITHIN 6"
    name, brackets = ("a", "") if "A a" in pattern else ("b", "[]") if "b[]" in pattern else ("A", "")
    clause = f"AGGREGATE count(*), sum({name}{brackets}.x), max({name}{brackets}.y)"
    query = parse_event_query(text)
    aggregates = [TrendAggregate("count"), TrendAggregate("sum", name, "x"), TrendAggregate("max", name, "y")]
    spec = aggregated_spec(f"{text} {clause}")

    @settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
    @given(
        st.lists(
            st.tuples(st.sampled_from("ABBC"), st.integers(0, 2), *[st.none() | st.integers(0, 3)] * 2), max_size=9
        )
    )
    def check(drawn: list[tuple[str, int, int | None, int | None]]) -> None:
        events, time = [], 0
        for n, (kind, gap, x, y) in enumerate(drawn):
            time += gap
            events.append(Event(n, time, time, {"type": kind, "k": n % 2, "x": x, "y": y, "s": ""}))
        oracle = aggregate_matches(
            query, events, aggregates, member=lambda place, event: bool(event.values["type"] == place.name)
        )
        check_equal(run_aggregated(spec, [events]), oracle)

    check()
