"""Rules that change, for tests: a pool of texts, and what each version of a rule gives by itself in its time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.rules.one_rule import RuleChange
from episode.matchers.rules.spec import ChangingSpec
from episode.matchers.running import LocalRun
from episode.plan.options import RunOptions
from episode.queries.language import Given
from episode.queries.rules.planning import StreamPlanner

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.int64()), ("type", pa.string())])
TEXTS = (
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES k AS key, FIRST(ts) AS first, LAST(ts) AS last, "
    "count(*) AS n PATTERN (A B+) WITHIN 20 DEFINE B AS v > PREV(v))",
    "SELECT key, n + 1 AS more FROM events MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.k AS key, "
    "count(*) AS n PATTERN (A B C?) WITHIN 9 DEFINE A AS v > 2, B AS v < 3, C AS v > B.v)",
    "PATTERN SEQ(A a, B b) WHERE b.v > a.v WITHIN 10 RETURN a.k AS key, a.v AS av, b.v AS bv, b.v - a.v AS rise",
    "PATTERN SEQ(A a, B+ b[], C c) WITHIN 12 RETURN c.k AS key, c.v AS v",
    "DEFINE H AS v > 2, L AS v < 2 PATTERN H before L WITHIN 25 "
    "RETURN max(H.k) AS key, count(H.v) AS n, sum(L.v) AS low",
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES k AS key, A.v AS av ALL ROWS PER MATCH "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B) WITHIN 8 DEFINE B AS v = A.v)",
)
FAILING = (
    "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES k AS key, count(*) AS n AFTER MATCH SKIP TO C "
    "PATTERN (A B C?) WITHIN 20 DEFINE A AS v < 2, B AS v > A.v, C AS v = 4)",
)
"""Where C is missing in a match, there is no row to skip to."""

PLANNER = StreamPlanner(SCHEMA, "ts", ("k",), Given(type_column="type"), RunOptions())
SPEC = ChangingSpec(PLANNER, SCHEMA, InputOrder(("k",), (OrderKey("ts"),), needs_time=True))
Row = tuple[str, Any, Any, Any, str]


@dataclass(frozen=True)
class Version:
    """A rule in its time. until: the last time that counts for it; None: to the end of the stream."""

    name: str
    text: str
    after: int
    until: int | None


def versions(changes: Iterable[tuple[RuleChange, int]]) -> list[Version]:
    """The versions of rules, of changes with the times after which they took effect."""
    active: dict[str, tuple[str, int]] = {}
    found = []
    for change, after in changes:
        before = active.pop(change.name, None)
        if before is not None:
            found.append(Version(change.name, *before, after))
        if change.text is not None:
            active[change.name] = (change.text, after)
    return found + [Version(name, *rule, None) for name, rule in active.items()]


def alone(version: Version, events: pa.Table, end: int) -> list[Row]:
    """What a version gives by itself over the events of its time."""
    rule = PLANNER.plan(version.name, version.text)
    ends = version.until is None or version.until >= end - 1
    until = end - 1 if version.until is None or ends else version.until
    rows = [row for row in events.to_pylist() if version.after < row["ts"] <= until]
    table = rule.derive(pa.Table.from_pylist(rows, schema=SCHEMA))
    running = LocalRun(rule.inner)
    outputs = list(running.matcher.feed(running.events(table), until))
    if ends:
        outputs += running.matcher.finish()
    found = [row for output in outputs for row in rule.finish(output).to_pylist()]
    return [_row(version.name, row["k"], row) for row in found]


def _row(name: str, key: Any, row: Mapping[str, Any]) -> Row:
    return name, key, row["match_start"], row["match_end"], json.dumps(json.loads(row["result"]), sort_keys=True)


def rows_of(tables: Sequence[pa.Table]) -> Counter[Row]:
    """The output of a set of rules."""
    return as_rows([row for table in tables for row in table.to_pylist()])


def as_rows(rows: Sequence[Mapping[str, Any]]) -> Counter[Row]:
    """The same, from rows. Every match says its key twice."""
    found = [{**row, "result": str(row["result"])} for row in rows]
    assert all(json.loads(row["result"])["key"] == row["k"] for row in found)
    return Counter(_row(row["rule"], row["k"], row) for row in found)
