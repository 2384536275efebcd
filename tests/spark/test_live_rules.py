"""Rules in live tasks on Spark: added, replaced and removed while the tasks run, and through a restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.changing_rules import SCHEMA, TEXTS, Row, Version, alone, as_rows
from tests.support.waiting import wait_until

import episode
from episode import Options, StreamOptions, streams
from episode.spark.live import LiveQuery

pytestmark = [pytest.mark.spark]
END = 1_000_000
PATIENCE = 120.0


def events(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"k": n * n % 7, "ts": n, "v": n * 31 % 5, "type": "ABC"[n * 7 % 11 % 3]} for n in range(first, first + count)
    ]


def until(holds: Callable[[], Any], query: LiveQuery) -> None:
    wait_until(holds, lambda: query.isActive, lambda: query.exception() or query.status)


def test_rules_change_while_live_tasks_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    streams.create("Ticks", "k BIGINT, ts BIGINT, v BIGINT, type STRING", time="ts", key="k", delay=5)
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "rising.pattern").write_text(TEXTS[0])
    (folder / "pair.pattern").write_text(TEXTS[2])
    rows: list[dict[str, Any]] = []

    def append(count: int) -> None:
        new = events(len(rows) + 1, count)
        rows.extend(new)
        streams.append("Ticks", pa.Table.from_pylist(new, schema=SCHEMA))

    def start() -> LiveQuery:
        return episode.start_rules(
            "Ticks", folder, into="Alerts", spark=spark, type_column="type", tasks=1, look_every=0.05,
            snapshot_every=0.2, options=Options(stream=StreamOptions(end=END)),
        )  # fmt: skip

    def active(name: str, version: int) -> Callable[[], bool]:
        return lambda: (
            (name, version, "active")
            in {(row["name"], row["version"], row["status"]) for row in query.rules().to_pylist()}
        )

    append(200)
    query = start()
    until(lambda: (query.lastProgress or {"events": 0})["events"] >= 200, query)
    (folder / "pair.pattern").write_text(TEXTS[3])
    until(active("pair", 3), query)
    append(200)
    (folder / "rising.pattern").unlink()
    (folder / "states.pattern").write_text(TEXTS[4])
    until(active("states", 5), query)
    query.stop()
    append(100)
    (folder / "broken.pattern").write_text("PATTERN")
    with pytest.warns(episode.EpisodeWarning, match="broken"):
        query = start()
    append(100)
    streams.append("Ticks", pa.Table.from_pylist([{"k": 0, "ts": END + 100, "v": 0, "type": "A"}], schema=SCHEMA))
    assert query.awaitTermination(PATIENCE)
    known = query.rules().to_pylist()
    assert {(row["name"], row["status"]) for row in known} == {
        ("rising", "removed"), ("pair", "replaced"), ("pair", "active"), ("states", "active"), ("broken", "refused"),
    }  # fmt: skip
    expected: Counter[Row] = Counter()
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    for row in known:
        if row["version"] is not None:
            after = -(2**62) if row["active_from"] is None else row["active_from"] - 1
            expected.update(alone(Version(row["name"], row["text"], after, row["active_until"]), table, END))
    found, _ = streams.read("Alerts")
    assert as_rows(found.to_pylist()) == expected
    assert {row[0] for row in expected} == {"rising", "pair", "states"}
