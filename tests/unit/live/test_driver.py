"""What the driver of a live query has beside its tasks: progress of all of them, figures for Prometheus, deliveries."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from episode.errors import EpisodeError
from episode.live.progress import (
    LatencyHistogram,
    MetricsServer,
    Progress,
    format_watermark,
    prometheus_text,
    sum_progress,
)
from episode.live.sinks import Delivery
from episode.store.declaration import Declaration
from episode.store.stream import StreamStore


def said(task: int, **given: Any) -> dict[str, Any]:
    """What a task says."""
    progress = Progress(task)
    for name, value in given.items():
        if name in progress.counts:
            progress.counts[name] = value
        else:
            setattr(progress, name, value)
    return progress.as_dict()


def test_tasks_together() -> None:
    fast, slow = LatencyHistogram(), LatencyHistogram()
    fast.add(0.001, 90)
    slow.add(1.0, 10)
    two = [
        said(0, events=100, matches=90, watermark=50, latency=fast, unread=7, mode="push", switches=1),
        said(1, events=20, matches=10, watermark=40, latency=slow, unread=5, mode="pull", switches=2, late=3),
    ]
    found = sum_progress(two, numeric_time=True)
    assert (found["events"], found["matches"], found["late"], found["switches"]) == (120, 100, 3, 3)
    assert (found["unread"], found["mode"], found["eventTime"]) == (7, "mixed", {"watermark": 40})
    assert found["latency"]["p50"] == pytest.approx(1, rel=0.1)
    assert found["latency"]["p99"] == pytest.approx(1000, rel=0.1)
    assert sum_progress(two[:1], numeric_time=True)["mode"] == "push"


def test_tasks_that_have_not_begun() -> None:
    found = sum_progress([said(0), said(1, watermark=5)], numeric_time=True)
    assert (found["eventTime"], found["unread"], found["mode"], found["latency"]["p50"]) == ({}, None, "", None)
    assert sum_progress([], numeric_time=False)["tasks"] == []


def test_watermarks_are_shown_as_moments() -> None:
    assert format_watermark(1_767_225_600_500_000, False) == "2026-01-01T00:00:00.500000Z"
    assert (format_watermark(7, True), format_watermark(None, False), format_watermark(2**62, False)) == (
        7,
        None,
        2**62,
    )


def test_figures_for_prometheus() -> None:
    progress = {
        "name": 'a "b"',
        "isActive": True,
        "restarts": 1,
        **sum_progress([said(0, events=5, mode="push")], True),
    }
    text = prometheus_text(progress)
    assert 'episode_live_events_total{query="a \\"b\\""} 5\n' in text
    assert 'episode_live_pushing{query="a \\"b\\"",task="0"} 1\n' in text
    assert "episode_live_unread_events{" not in text, "what is not known is left out"
    assert all(line.startswith(("# HELP ", "# TYPE ", "episode_live_")) for line in text.splitlines())


def test_figures_are_served_on_this_machine() -> None:
    server = MetricsServer(0, lambda: {"name": "q", "isActive": True, "events": 3})
    try:
        place = f"http://127.0.0.1:{server.port}"
        assert b'episode_live_events_total{query="q"} 3' in urllib.request.urlopen(f"{place}/metrics").read()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{place}/other")
        with pytest.raises(EpisodeError, match="Choose another port"):
            MetricsServer(server.port, dict)
    finally:
        server.close()


# ---- deliveries --------------------------------------------------------------------------------------


def delivery(place: Path, function: Any) -> tuple[Delivery, StreamStore]:
    columns = (("v", "bigint"), ("t", "bigint"))
    inner = Declaration("matches", columns, "t", location=str(place / "matches"), lanes=1)
    return Delivery(inner, str(place / "delivered"), ("v",), function), StreamStore(inner)


def rows(*values: int) -> pa.Table:
    return pa.table({"v": list(values), "t": [0] * len(values)})


def test_matches_are_handed_over_once(tmp_path: Path) -> None:
    got: list[pa.Table] = []
    made, store = delivery(tmp_path, got.append)
    ending = Event()
    ending.set()
    made.run(ending)
    store.append(rows(1, 2))
    store.append(rows(3))
    made.run(ending)
    store.append(rows(4))
    made.run(ending)
    assert [table.to_pydict() for table in got] == [{"v": [1, 2]}, {"v": [3]}, {"v": [4]}]


def test_a_call_that_fails_is_made_again(tmp_path: Path) -> None:
    got: list[Any] = []

    def fails_at_two(table: pa.Table) -> None:
        got.append(table.column("v").to_pylist())
        if got[-1] == [2] and len(got) == 2:
            raise RuntimeError

    made, store = delivery(tmp_path, fails_at_two)
    ending = Event()
    ending.set()
    for value in (1, 2, 3):
        store.append(rows(value))
    with pytest.raises(RuntimeError):
        made.run(ending)
    made.run(ending)
    assert got == [[1], [2], [2], [3]]
