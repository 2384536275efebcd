"""Numbers of a running stream, from progress as Spark gives it."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from episode.cli.follow import new_batches
from episode.terminal.progress import RESULT, SHOWN_ROWS, LiveQueryView, LiveView, duration, micro_batch, size


def progress(number: int, *, ran: bool = True, watermark: str | None = "2026-03-02T09:30:00.000Z") -> Any:
    observed = {
        "episode": {"events": 1_000, "late": 2, "matches": 9, "state_rows": 30},
        "episode_2": {"events": 9, "late": 1, "matches": 4, "state_rows": 5},
        RESULT: {"rows": 3},
    }
    return SimpleNamespace(
        batchId=number,
        timestamp="2026-03-02T09:30:45.500Z",
        durationMs={"addBatch": 400, "triggerExecution": 500} if ran else {"triggerExecution": 5},
        numInputRows=1_000 if ran else 0,
        eventTime={} if watermark is None else {"watermark": watermark},
        stateOperators=[SimpleNamespace(numRowsTotal=4_000, memoryUsedBytes=1_500_000)] if ran else [],
        observedMetrics=observed if ran else {},
    )


def shown(view: LiveView) -> list[list[str]]:
    console = Console(width=100, record=True, file=StringIO())
    console.print(view)
    return [line.split() for line in console.export_text().splitlines()]


def test_a_micro_batch_is_a_line() -> None:
    batch = micro_batch(progress(7), numeric_time=False)
    assert batch is not None
    assert batch.line() == (
        "batch 7: 1,000 events (2,000.0/s), 3 matches (6.0/s), 3 late, 35 rows held in shards with work, "
        "state 1.5 MB, watermark 2026-03-02 09:30:00 UTC, 45.5 s behind"
    )


def test_events_of_a_stream_store_are_counted_and_not_its_envelopes() -> None:
    found = progress(7)
    found.numInputRows = 33
    found.sources = [SimpleNamespace(description="…python.PythonMicroBatchStreamWithAdmissionControl@5a4d")]
    batch = micro_batch(found, numeric_time=False)
    assert batch is not None
    assert batch.events == 1_000


@pytest.mark.parametrize("watermark", [None, "1970-01-01T00:00:00.000Z"])
def test_before_there_is_a_watermark(watermark: str | None) -> None:
    batch = micro_batch(progress(0, watermark=watermark), numeric_time=False)
    assert batch is not None
    assert (batch.watermark, batch.lag) == ("none yet", None)


def test_a_watermark_that_is_a_number() -> None:
    batch = micro_batch(progress(0, watermark="1970-01-01T00:00:02.500Z"), numeric_time=True)
    assert batch is not None
    assert (batch.watermark, batch.lag) == ("2,500", None)


def test_each_micro_batch_is_taken_once() -> None:
    recent = [progress(4), progress(5), progress(6, ran=False)]
    first = new_batches(recent, None, numeric_time=False)
    assert [batch.number for batch in first] == [4, 5]
    again = new_batches([*recent, progress(6)], first[-1], numeric_time=False)
    assert [batch.number for batch in again] == [6]


def test_the_view_has_totals_and_the_latest_matches() -> None:
    view = LiveView(["symbol", "price"], shows_matches=True)
    assert shown(view)[0] == ["waiting", "for", "events"]
    for batch in new_batches([progress(0), progress(1)], None, numeric_time=False):
        view.add(batch)
    view.latest.extend(("[A]", i) for i in range(SHOWN_ROWS + 5))
    lines = shown(view)
    assert ["events", "2,000", "2,000.0/s"] in lines
    assert ["matches", "6", "6.0/s"] in lines
    assert ["late", "6"] in lines
    assert ["rows", "held", "35", "in", "shards", "with", "work"] in lines
    assert ["[A]", "4"] not in lines
    assert ["[A]", "5"] in lines
    assert ["[A]", str(SHOWN_ROWS + 4)] in lines
    assert view.totals() == "2,000 events, 6 matches, 6 late"


def test_matches_in_files_are_not_shown() -> None:
    view = LiveView(["symbol"], shows_matches=False)
    view.add(new_batches([progress(0)], None, numeric_time=False)[0])
    assert ["symbol"] not in shown(view)


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (2_500_000, "2.5 MB"), (7e15, "7000.0 TB")]
)
def test_sizes(count: float, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.2 s"), (59, "59.0 s"), (90, "1.5 min"), (-7200, "-2.0 h"), (1e6, "11.6 d")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


# ---- live queries ------------------------------------------------------------------------------------


def live_progress(**given: Any) -> dict[str, Any]:
    return {
        "events": 12_345,
        "matches": 67,
        "late": 0,
        "inputRowsPerSecond": 1_234.5,
        "unprocessed": 8,
        "unread": 9,
        "mode": "push",
        "switches": 1,
        "latency": {"p50": 3.21, "p90": 8.0, "p99": 120.4},
        "state_rows": 55,
        "live_keys": 1,
        "eventTime": {"watermark": 1_000},
        "memory": 2_000_000,
        "restarts": 2,
        "tasks": [{}, {}],
        "last_matches": [{"symbol": "a[b]", "low": 1.5}, {"symbol": None, "low": 2.5}],
        **given,
    }


def test_a_live_query_in_a_line() -> None:
    view = LiveQueryView("Alerts")
    assert view.line() == "starting"
    view.update({"message": "Matching"}, live_progress())
    assert view.line() == (
        "12,345 events (1,234/s), 67 matches, 8 unprocessed, 9 in the store, push (1 switch), "
        "latency 3.2 / 8.0 / 120 ms, 55 rows held, watermark 1,000"
    )
    view.update({"message": "Matching"}, live_progress(unread=None, eventTime={}, late=3))
    assert "67 matches, 3 late, 8 unprocessed, push" in view.line()
    assert view.line().endswith("watermark none yet")
    assert view.totals() == "12,345 events, 67 matches, 3 late"


def test_a_live_query_as_a_picture() -> None:
    view = LiveQueryView("Alerts")
    screen = Console(file=StringIO(), width=100)
    screen.print(view)
    view.update({"message": "Matching"}, live_progress(latency={"p50": None, "p90": None, "p99": None}))
    screen.print(view)
    shown = screen.file.getvalue()
    assert "Alerts  starting" in shown
    assert "2.0 MB of memory, 2 restarts" in shown
    assert "a[b]" in shown
    assert "latency –" in shown
