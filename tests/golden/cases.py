"""Golden files: cases in text files, each a name, an input and the text expected of it.

    ### name of the case
    input, over any number of lines
    --- expected
    text, over any number of lines

`EPISODE_UPDATE_GOLDEN=1 pytest tests/golden` writes what comes out into the files; the difference is then read and
committed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from episode.lang.events.syntax import EventQuery
from episode.lang.situations.syntax import SituationQuery
from episode.plan.event_time import time_column
from episode.plan.events.aggregated import AggregatedPlan, plan_aggregated
from episode.plan.events.classes import EventClasses
from episode.plan.events.imprecise import imprecise_times
from episode.plan.events.plan import EventPlan, plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import SituationPlan, plan_situation_pattern

HERE = Path(__file__).parent
UPDATE = os.environ.get("EPISODE_UPDATE_GOLDEN", "") not in ("", "0")
SCHEMA = {
    "symbol": "string",
    "ts": "timestamp",
    "price": "double",
    "volume": "bigint",
    "amount": "decimal(10,2)",
    "tags": "array<string>",
    "info": "struct<a:int,b:string>",
    "day": "date",
    "ok": "boolean",
}


def plan_events(query: EventQuery) -> EventPlan:
    """The plan of an event pattern over SCHEMA; without a TYPE BY the names of classes are aliases of any row."""
    assert query.aggregate is None
    schema = InputSchema(SCHEMA)
    if query.input.interval is not None:
        times = imprecise_times(query, schema, query.input.interval)
    else:
        time = time_column(query, schema, query.input.time, "Give time='ts'.")
        times = EventTimes(time, None, SCHEMA[time])
    type_column = query.input.type_column
    classes = EventClasses(query, schema, type_column)
    return plan_event_pattern(query, classes, times, query.input.partition_by)


def plan_aggregates(query: EventQuery) -> AggregatedPlan:
    """The same for aggregates over all matches."""
    schema = InputSchema(SCHEMA)
    time = time_column(query, schema, query.input.time, "Give time='ts'.")
    times = EventTimes(time, None, SCHEMA[time])
    return plan_aggregated(query, EventClasses(query, schema, query.input.type_column), times, query.input.partition_by)


def plan_situations(query: SituationQuery) -> SituationPlan:
    """The plan of a situation pattern over SCHEMA."""
    schema = InputSchema(SCHEMA)
    time = time_column(query, schema, query.input.time, "Give time='ts'.")
    return plan_situation_pattern(query, schema, time, query.input.partition_by)


@dataclass(frozen=True)
class Case:
    file: Path
    name: str
    text: str
    expected: str


def read_cases(file: Path) -> list[Case]:
    cases = []
    for block in re.split(r"^### ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, _, body = block.partition("\n")
        text, _, expected = body.partition("--- expected\n")
        cases.append(Case(file, name, text.rstrip("\n"), expected.rstrip("\n")))
    assert len({case.name for case in cases}) == len(cases), f"names are given twice in {file}"
    return cases


def parametrized(folder: str) -> pytest.MarkDecorator:
    """Every case of every file of a folder, as the argument `case`."""
    cases = [case for file in sorted((HERE / folder).glob("*.txt")) for case in read_cases(file)]
    return pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.file.stem}: {case.name}") for case in cases])


def check(case: Case, actual: Callable[[str], str]) -> None:
    """What comes out is what the file says; or, on request, the file says what comes out."""
    found = "\n".join(line.rstrip() for line in actual(case.text).split("\n"))
    if UPDATE:
        _write(case, found)
        return
    assert found == case.expected


def _write(case: Case, found: str) -> None:
    head = re.split(r"^### ", case.file.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]
    blocks = []
    for other in read_cases(case.file):
        expected = found if other.name == case.name else other.expected
        blocks.append(f"### {other.name}\n{other.text}\n--- expected\n{expected}\n")
    case.file.write_text(head + "\n".join(blocks), encoding="utf-8")
