"""Times of matches: read at the first and the last event if the tree says which these are, else over all events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from episode.lang.events.parser import parse_event_query
from episode.matchers.events import output
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.running import run
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema

TYPES = {"ts": "bigint", "te": "bigint", "type": "string", "x": "bigint"}
SCHEMA = pa.schema([("ts", pa.int64()), ("te", pa.int64()), ("type", pa.string()), ("x", pa.int64())])


def plan_of(text: str, lasting: bool) -> EventPlan:
    query = parse_event_query(f"PATTERN {text} WITHIN 12")
    classes = EventClasses(query, InputSchema(TYPES), type_column="type")
    return plan_event_pattern(query, classes, EventTimes("te", "ts" if lasting else None, "bigint"))


def events(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    end = np.sort(random.integers(0, 60, 60))
    start = end - random.integers(0, 3, 60)
    columns = [start, end, random.choice(list("ABCD"), 60), random.integers(0, 3, 60)]
    return pa.table([pa.array(column) for column in columns], SCHEMA)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(
    ("text", "ends"),
    [("A; B", 2), ("A; B; C", 2), ("A; !B; C", 2), ("!B; A; C", 2), ("A; C; !B", 2), ("A; B+; C", 2), ("B+; A; C", 1),
     ("A; C; B+", 1), ("A; (B & C)", 1), ("(A | B); C", 1), ("A & B", 0), ("A | B", 0), ("A; (B; C | D)", 1)],
)  # fmt: skip
def test_times_at_the_ends_are_those_of_all_events(
    text: str, ends: int, lasting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(text, lasting)
    assert len(output.times_at_ends(plan)) == ends
    spec = EventPatternSpec(plan, SCHEMA)
    direct = [run(spec, events(seed)) for seed in range(3)]
    monkeypatch.setattr(output, "times_at_ends", lambda plan: {})
    assert direct == [run(replace(spec), events(seed)) for seed in range(3)]
    assert sum(len(one) for one in direct) > 0
