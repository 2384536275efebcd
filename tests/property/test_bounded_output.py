"""Output of bounded size: a feed hands its matches out in parts, and together they are what they would be at once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from episode.matchers import assembly
from episode.matchers.events import output as event_output
from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.rows import arrays as work
from episode.matchers.running import LocalRun
from episode.matchers.situations import matcher as situation_matcher
from tests.support import events, rows, situations

ROWS = [{"k": t % 2, "ts": t, "v": t * 7 % 5, "f": 0.5, "s": "x"} for t in range(240)]
ROW_TABLE = pa.Table.from_pylist(ROWS, schema=pa.schema(list(rows.ARROW_TYPES.items())))
EVENTS = [
    {"pos": t, "ts": t, "te": t, "type": "ABC"[t * 7 % 3], "k": t % 2, "x": t % 4, "y": 1, "s": ""} for t in range(60)
]
EVENT_TABLE = pa.Table.from_pylist(EVENTS, schema=events.SCHEMA)
INSTANTS = [
    {"k": "x", "t": t, "a": t % 4 == 0, "b": t % 4 == 2, "c": False, "d": None, "x": 0.0, "n": t, "s": ""}
    for t in range(120)
]
SITUATION_TABLE = pa.Table.from_pylist(INSTANTS, schema=situations.SCHEMA)

ONE, ALL, UNMATCHED = "ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"
MODES = [
    *((mode, shown) for mode in ("", "MAXIMAL MATCH", "ALL MATCHES") for shown in (ONE, ALL, UNMATCHED)),
    *(("INCREMENTAL MATCH", shown) for shown in (ONE, ALL)),
]


def parts_of(spec: MatcherSpec, table: pa.Table, pieces: int = 1) -> Iterator[pa.Table]:
    """The tables that a matcher hands out, feed by feed."""
    running = LocalRun(spec)
    size = -(-table.num_rows // pieces)
    for begin in range(0, table.num_rows, size):
        batch = running.events(table.slice(begin, size))
        yield from running.matcher.feed(batch, int(batch.time.max()) if begin + size < table.num_rows else END_OF_TIME)
    yield from running.matcher.finish()


def joined(spec: MatcherSpec, table: pa.Table, pieces: int = 1) -> pa.Table:
    return pa.concat_tables([spec.output_schema.empty_table(), *parts_of(spec, table, pieces)]).combine_chunks()


def elements(table: pa.Table) -> int:
    """Values in the columns of a table, elements of arrays included."""
    lists = [column for column in table.columns if pa.types.is_list(column.type)]
    return table.num_rows + sum(len(column.combine_chunks().flatten()) for column in lists)


@pytest.mark.parametrize("rows_per_match", [ONE, ALL])
def test_arrays_of_rows(rows_per_match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running arrays of one long match grow with its square."""
    spec = rows.spec_of(
        "PARTITION BY k ORDER BY ts MEASURES RUNNING array_agg(A.v) AS seen, FINAL LAST(A.ts) AS last, "
        f"RUNNING sum(A.v) AS total {rows_per_match} PATTERN (A+) DEFINE A AS TRUE"
    )
    whole = joined(spec, ROW_TABLE)
    monkeypatch.setattr(assembly, "MOST_VALUES", 500)
    parts = list(parts_of(spec, ROW_TABLE))
    assert joined(spec, ROW_TABLE).equals(whole)
    if rows_per_match == ALL:
        assert len(parts) > 25
        assert max(map(elements, parts)) <= 500


@pytest.mark.parametrize(("mode", "rows_per_match"), MODES)
@pytest.mark.parametrize("pieces", [1, 3])
def test_many_matches_of_rows(mode: str, rows_per_match: str, pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel goes on where it was when its matches were handed out."""
    spec = rows.spec_of(
        "PARTITION BY k ORDER BY ts MEASURES MATCH_NUMBER() AS number, FIRST(A.ts) AS first, LAST(ts) AS last "
        f"{rows_per_match} AFTER MATCH SKIP TO NEXT ROW {mode} PATTERN (A B*) "
        "DEFINE A AS v > 0, B AS B.ts - FIRST(A.ts) < 200"
    )
    whole = joined(spec, ROW_TABLE, pieces)
    assert len(whole) > 100
    handed_out = []
    forget = work.WorkArrays.forget_found
    monkeypatch.setattr(work, "MOST_MATCHES", 1)
    monkeypatch.setattr(work, "MOST_ROWS", 1)
    monkeypatch.setattr(work.WorkArrays, "forget_found", lambda arrays: handed_out.append(1) or forget(arrays))
    assert joined(spec, ROW_TABLE, pieces).equals(whole)
    assert handed_out


@pytest.mark.parametrize(
    "text", ["PATTERN A; B; C WITHIN 30", "PATTERN A; B+; C WITHIN 30", "PATTERN A | (B & C) WITHIN 9"]
)
def test_matches_of_events(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = events.spec_of(text)
    whole = joined(spec, EVENT_TABLE)
    assert len(whole) > 100
    monkeypatch.setattr(event_output, "MOST_EVENTS", 40)
    parts = list(parts_of(spec, EVENT_TABLE))
    assert pa.concat_tables(parts).combine_chunks().equals(whole)
    assert max(map(elements, parts)) <= 41
    assert len(parts) > 5


def test_matches_of_situations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every A is before all later Bs: one event completes as many matches as there were As."""
    spec = situations.spec_of("FROM t DEFINE A AS a, B AS b PATTERN A before B RETURN sum(A.n) AS n, B.end AS ended")
    whole = joined(spec, SITUATION_TABLE)
    assert len(whole) > 300
    monkeypatch.setattr(situation_matcher, "SOFT_LIMIT", 7)
    parts = list(parts_of(spec, SITUATION_TABLE))
    assert pa.concat_tables(parts).combine_chunks().equals(whole)
    assert max(part.num_rows for part in parts) <= 7
