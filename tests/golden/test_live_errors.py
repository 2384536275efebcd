"""Queries that cannot run live, and the full text of what a user is shown: why, where, and what to do instead.

Comments of the form `-- name = value` before a query are arguments of `start`: into, tasks, slots, and any option.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from episode.errors import EpisodeError
from episode.queries.live import plan_live
from episode.queries.live_start import output_of, tasks_for
from episode.store.catalog import Catalog, declare
from tests.golden.cases import Case, check, parametrized
from tests.support.flat_options import grouped

LEAKS = re.compile(r"sqlglot|__episode|__derived|__atom|<class|Token\(|Traceback|object at 0x|None\b|exp\.")
TICKS = "symbol STRING, ts TIMESTAMP, price DOUBLE, seen TIMESTAMP, tags ARRAY<STRING>"
KAFKA = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "trades"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path)
    made.create(declare("Ticks", TICKS, time="ts", key="symbol", delay="1 second", archive="OldTicks", lanes=4))
    made.create(declare("Orders", "id BIGINT, symbol STRING, ts TIMESTAMP", time="ts", key="id"))
    made.create(declare("Quotes", "symbol STRING, ts TIMESTAMP, bid DOUBLE", time="ts", key="symbol", lanes=2))
    made.create(declare("Trades", "symbol STRING, ts TIMESTAMP", time="ts", key="symbol", using="kafka", options=KAFKA))
    made.create(declare("Clicks", "page STRING, ts TIMESTAMP", time="ts", using="kafka", options=KAFKA))
    made.create(declare("Alerts", "symbol STRING, low DOUBLE, at TIMESTAMP", time="at"))
    return made


def error_of(query: str, catalog: Catalog) -> str:
    given: dict[str, Any] = {"into": "Found", "tasks": None, "slots": 9}
    options: dict[str, Any] = {}
    for name, value in re.findall(r"^-- (\w+) = (.+)$", query, re.MULTILINE):
        (given if name in given else options)[name] = ast.literal_eval(value)
    text = re.sub(r"^-- .+\n", "", query, flags=re.MULTILINE)

    def start() -> None:
        plan = plan_live(text, catalog, grouped(**options))
        tasks_for(plan, given["tasks"], None, given["slots"])
        output_of(given["into"], plan, catalog, "checkpoint")

    with pytest.raises(EpisodeError) as raised:
        start()
    error = raised.value
    assert not LEAKS.search(error.message + (error.hint or "")), "nothing of our insides is shown"
    return f"{type(error).__name__}: {error}".replace(str(catalog.directory), "CATALOG")


@pytest.mark.filterwarnings("ignore:The state of this stream is not bounded")
@parametrized("live")
def test_error(case: Case, catalog: Catalog) -> None:
    check(case, lambda query: error_of(query, catalog))
