"""A worker loads while the first query of a session is planned: once for each session, on this machine only."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace

import pytest

from episode.spark.startup import workers as warming


class Context:
    """A context that notes what it is asked for."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.calls: list[str] = []
        self.cancelled = Event()

    def statusTracker(self) -> SimpleNamespace:
        return SimpleNamespace(getJobIdsForGroup=lambda group: [3], getActiveJobsIds=lambda: [3])

    def cancelJobGroup(self, group: str) -> None:
        self.calls.append(f"cancel {group}")
        self.cancelled.set()

    def stop(self) -> None:
        self.calls.append("stop")


@pytest.mark.parametrize(("master", "runs"), [("local[2]", 1), ("spark://host:7077", 0)])
def test_once_for_each_local_session(monkeypatch: pytest.MonkeyPatch, master: str, runs: int) -> None:
    started = []
    thread = SimpleNamespace(start=lambda: started.append(master), join=lambda patience: None, is_alive=lambda: False)
    monkeypatch.setattr(warming, "Thread", lambda **given: thread)
    session = SimpleNamespace(sparkContext=Context(master))
    for _ in range(2):
        warming.warm(session)
    assert len(started) == runs


def test_a_connect_session_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "Thread", None)  # would fail if it were called
    warming.warm(SimpleNamespace())


def test_the_job_ends_before_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context("local[2]")
    monkeypatch.setattr(warming, "_GRACE", 0.0)
    monkeypatch.setattr(warming, "_run", lambda spark: spark.sparkContext.cancelled.wait(60))
    warming.warm(SimpleNamespace(sparkContext=context))
    context.stop()
    assert context.calls == ["cancel episode-warming", "stop"]
