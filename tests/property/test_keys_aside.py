"""Keys whose data raise an error are set aside: what comes out of them does not depend on how the events came.

The oracle runs every key alone, one instant after the other, and stops at the first error: what came out before it is
what a stream with on_error='skip key' gives of the key, and all that it gives.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import END_OF_TIME, KEY_COLUMN
from episode.matchers.running import LocalRun
from episode.matchers.stream_shard import ShardSettings
from tests.property.test_live_shards import END, Driven, marker
from tests.property.test_row_pattern_laws import canonical, finished, planned
from tests.reference.generate import clauses, tables
from tests.support.aggregated import aggregated_spec
from tests.support.events import SCHEMA as EVENTS
from tests.support.events import spec_of as events_spec_of
from tests.support.live import LiveQuery
from tests.support.rows import spec_of, table_in
from tests.support.situations import SCHEMA as SITUATIONS
from tests.support.situations import spec_of as situations_spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
LONG = settings(SETTINGS, max_examples=500)
SKIPS = (
    "PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n "
    "ONE ROW PER MATCH AFTER MATCH SKIP TO FIRST B PATTERN (A B*? C) DEFINE A AS v = 0, B AS v = 1, C AS v >= 2"
)
"""A match without a B cannot be skipped to."""


def one_key(spec: Any, rows: list[dict[str, Any]]) -> tuple[list[pa.Table], int]:
    """What comes out of the rows of one key before the first error, and how many rows come after the last good time."""
    matcher, coder, tables_out = spec.open(), KeyCoder(spec.input_order.keys), []
    last = max(row["ts"] for row in rows)
    for time in range(min(row["ts"] for row in rows), last + 2):
        final = time > last
        here = [row for row in rows if row["ts"] == time]
        try:
            if final:
                tables_out += [*_fed(spec, matcher, coder, [], END_OF_TIME), *matcher.finish()]
            else:
                tables_out += _fed(spec, matcher, coder, here, time)
        except EpisodeDataError:
            return tables_out, len([row for row in rows if row["ts"] >= time])
    return tables_out, 0


def _fed(spec: Any, matcher: Any, coder: KeyCoder, rows: list[dict[str, Any]], until: int) -> list[pa.Table]:
    return list(matcher.feed(events_of(table_in(spec, rows), spec.input_order, coder), until))


def expected_of(spec: Any, rows: list[dict[str, Any]]) -> tuple[pa.Table, int]:
    outputs, skipped = [spec.output_schema.empty_table()], 0
    for key in dict.fromkeys(row["k"] for row in rows):
        found, aside = one_key(spec, [row for row in rows if row["k"] == key])
        outputs += found
        skipped += aside
    return pa.concat_tables(outputs), skipped


def driven_over(spec: Any, rows: list[dict[str, Any]], cuts: list[int], restarts: list[bool]) -> Driven:
    driven = Driven(spec, 1, end=END, skip_keys=True, keep_late=True)
    for begin, end, restart in zip([0, *cuts], [*cuts, len(rows)], restarts, strict=False):
        driven.micro_batch(rows[begin:end], restart)
    driven.micro_batch([marker(END + 2)], restarts[0])
    driven.micro_batch([], restarts[-1])
    return driven


@SETTINGS
@given(clauses(), tables(max_rows=16), st.data())
def test_the_matches_of_a_key_that_is_set_aside(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spec = planned(text)
    assume(spec.plan.keys == ("k",))
    assume([(one.column, one.ascending) for one in spec.plan.order] == [("ts", True)])
    time = 0
    for event in rows:
        time += 1 + event["ts"] // 4
        event["ts"] = time
    _check(spec, rows, data)


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=24), st.data())
def test_a_skip_that_is_not_possible(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Errors are frequent here, and several keys fail at one time."""
    time, events = 0, []
    for key, value, step in rows:
        time += step
        events.append({"k": key, "ts": time + 1, "v": value, "f": 0.0, "s": "a"})
    _check(spec_of(SKIPS), events, data)


@pytest.mark.slow
@LONG
@given(clauses(), tables(max_rows=16), st.data())
def test_the_matches_of_a_key_that_is_set_aside_at_length(
    text: str, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    test_the_matches_of_a_key_that_is_set_aside.hypothesis.inner_test(text, rows, data)


@pytest.mark.slow
@LONG
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=24), st.data())
def test_a_skip_that_is_not_possible_at_length(rows: list[tuple[int, int, int]], data: st.DataObject) -> None:
    test_a_skip_that_is_not_possible.hypothesis.inner_test(rows, data)


def _check(spec: Any, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    borders = [i for i in range(1, len(rows)) if rows[i]["ts"] != rows[i - 1]["ts"]]
    cuts = sorted(data.draw(st.sets(st.sampled_from(borders), max_size=5))) if borders else []
    restarts = data.draw(st.lists(st.booleans(), min_size=len(cuts) + 2, max_size=len(cuts) + 2))
    expected, skipped = expected_of(spec, rows)
    driven = driven_over(spec, rows, cuts, restarts)
    assert canonical(finished(spec, pa.concat_tables(driven.outputs))) == canonical(finished(spec, expected))
    assert driven.total("skipped") == skipped == len(driven.late)
    assert driven.total("late") == 0


# ---- matchers that are parted from some of their keys -----------------------------------------------------------

WITHIN = "WITHIN 30"


def _rows() -> Any:
    clause = "PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, count(*) AS n PATTERN (A B+ C) WITHIN 40 "
    spec = spec_of(clause + "DEFINE B AS v > PREV(v), C AS v < PREV(v)")
    return spec, lambda rows: table_in(spec, [{**row, "f": 0.0, "s": "a"} for row in rows])


def _events(text: str, aggregated: bool = False) -> Any:
    spec = (aggregated_spec if aggregated else events_spec_of)(text, key="k")
    columns = {"pos": "ts", "ts": "ts", "te": "ts", "k": "k", "x": "v", "y": "v"}

    def table(rows: list[dict[str, Any]]) -> pa.Table:
        made = [{new: row[old] for new, old in columns.items()} | {"type": "ABC"[row["v"] % 3]} for row in rows]
        return pa.Table.from_pylist([{**row, "s": "a"} for row in made], schema=EVENTS)

    return spec, table


def _situations() -> Any:
    text = f"FROM t PARTITION BY k DEFINE A AS a, B AS b PATTERN A before B {WITHIN} RETURN A.start AS s, B.start AS t"

    def table(rows: list[dict[str, Any]]) -> pa.Table:
        made = [{"k": str(row["k"]), "t": row["ts"], "a": row["v"] < 3, "b": row["v"] > 2, "x": 1.0} for row in rows]
        return pa.Table.from_pylist(made, schema=SITUATIONS)

    return situations_spec_of(text), table


CASES = {
    "rows": _rows,
    "events": lambda: _events(f"PATTERN SEQ(A a, B b) WHERE skip_till_any_match {WITHIN} RETURN a.ts, b.ts"),
    "closures": lambda: _events(f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match {WITHIN} RETURN a.ts"),
    "negation": lambda: _events(f"PATTERN A; B; !C {WITHIN} RETURN A.ts"),
    "aggregated": lambda: _events(f"PATTERN SEQ(A a, B b) {WITHIN} AGGREGATE count(*) AS n EVERY 10", aggregated=True),
    "situations": _situations,
}


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_forgotten_keys_leave_no_trace(case: str, restored: bool) -> None:
    """The other keys give what they give where the forgotten ones never were."""
    spec, table = CASES[case]()
    draw = random.Random(11)
    rows = [{"k": draw.randrange(4), "ts": ts, "v": draw.randrange(6)} for ts in range(160)]
    kept, gone = {0, 2}, {1, 3}
    others = [row for row in rows if row["k"] in kept]

    alone = LocalRun(spec)
    alone.matcher.keyed = True
    early, late = ([row for row in others if row["ts"] < 80], [row for row in others if row["ts"] >= 80])
    expected = [*_found(alone, table(early), 79), *_found(alone, table(late), 159), *alone.matcher.finish()]

    parted = LocalRun(spec)
    parted.matcher.keyed = True
    first = _found(parted, table([row for row in rows if row["ts"] < 80]), 79)
    if restored:
        parted.move()
        parted.matcher.keyed = True
    codes = parted.events(table([{"k": key, "ts": 0, "v": 0} for key in sorted(gone)])).key
    assert np.isin(codes, parted.matcher.live_keys).any()
    parted.matcher.forget(np.unique(codes))
    assert not np.isin(codes, parted.matcher.live_keys).any()
    found = [one.filter(pa.array(~np.isin(one.column(KEY_COLUMN).to_numpy(), codes))) for one in first]
    if restored:
        parted.move()
        parted.matcher.keyed = True
    found += [*_found(parted, table(late), 159), *parted.matcher.finish()]
    assert _sorted(found) == _sorted(expected)
    assert len(_sorted(expected)) > 3


def _found(run: LocalRun, table: pa.Table, until: int) -> list[pa.Table]:
    return list(run.matcher.feed(run.events(table), until))


def _sorted(tables_of: list[pa.Table]) -> list[str]:
    return sorted(map(repr, pa.concat_tables(tables_of).drop_columns([KEY_COLUMN]).to_pylist()))


# ---- what happens, step by step ------------------------------------------------------------------------------------


def test_the_setting_aside_survives_a_restart_and_the_other_keys_go_on() -> None:
    spec = spec_of(SKIPS)

    def row(key: int, ts: int, v: int) -> dict[str, Any]:
        return {"k": key, "ts": ts, "v": v, "f": 0.0, "s": "a"}

    driven = Driven(spec, 0, skip_keys=True)
    driven.micro_batch([row(1, 1, 0), row(2, 1, 0), row(1, 2, 2), row(2, 2, 1), row(2, 3, 2), row(1, 3, 0)])
    driven.micro_batch([row(3, 5, 9)])
    assert [one["skipped_keys"] for one in driven.steps] == [0, 1]
    assert driven.total("skipped") == 2
    driven.micro_batch([row(1, 6, 0), row(1, 7, 1), row(1, 8, 2), row(2, 6, 0), row(2, 7, 1), row(2, 8, 2)], True)
    driven.micro_batch([row(3, 20, 9)], True)
    driven.micro_batch([])
    found = finished(spec, pa.concat_tables(driven.outputs))
    assert sorted((one["k"], one["first"], one["last"]) for one in found) == [(2, 1, 3), (2, 6, 8)]
    assert driven.steps[-1]["skipped_keys"] == 1
    assert driven.total("skipped") == 5
    (reason,) = driven.shard.quarantine.reasons.values()
    assert "AFTER MATCH SKIP TO FIRST B is not possible" in reason


def test_without_the_option_the_error_stops_the_shard() -> None:
    driven = Driven(spec_of(SKIPS), 0)
    driven.micro_batch([{"k": 1, "ts": ts, "v": v, "f": 0.0, "s": "a"} for ts, v in ((1, 0), (2, 2))])
    with pytest.raises(EpisodeDataError, match="SKIP TO FIRST B"):
        driven.micro_batch([])


def test_a_checkpoint_of_a_query_that_stopped_goes_on_without_the_key() -> None:
    """The option is no part of what a state belongs to: so the remedy of an error is to start again with it."""
    spec = spec_of(SKIPS)
    rows = [{"k": k, "ts": ts, "v": v, "f": 0.0, "s": "a"} for k in (1, 2) for ts, v in ((1, 0), (2, k - 1), (3, 2))]
    stopped = Driven(spec, 0)
    stopped.micro_batch(rows)
    stopped.shard.snapshot().apply(stopped.chunks)
    with pytest.raises(EpisodeDataError):
        stopped.micro_batch([])
    again = Driven(spec, 0, skip_keys=True)
    again.chunks, again.watermark = stopped.chunks, 3
    again.micro_batch([], True)
    found = finished(spec, pa.concat_tables(again.outputs))
    assert [(one["k"], one["first"], one["last"]) for one in found] == [(2, 1, 3)]
    assert again.total("skipped") == 1  # the key's start (v = 0) at 1 is fine, its C at 3 is where matching raises
    assert np.array_equal(list(again.shard.quarantine.until.values()), [2])


def test_in_a_live_task(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(SKIPS), key="k", settings=ShardSettings(end=1_000, skip_keys=True))

    def append(*rows: tuple[int, int, int]) -> None:
        query.append([{"k": k, "ts": ts, "v": v, "f": 0.0, "s": "a"} for k, ts, v in rows])

    append((1, 1, 0), (2, 1, 0), (1, 2, 2), (2, 2, 1), (2, 3, 2), (1, 3, 0))
    append((1, 6, 0), (1, 7, 1), (1, 8, 2), (2, 6, 0), (2, 7, 1), (2, 8, 2))
    append((3, 1_001, 0))
    said = query.task().run()
    assert (said["skipped"], said["skipped_keys"], said["matches"], said["late"]) == (5, 1, 2, 0)
    assert len(query.matches()) == 2
