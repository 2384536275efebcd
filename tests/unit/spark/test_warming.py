"""A worker loads while the first query of a session is planned: once for each session, on this machine only."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from episode.spark import warming


class Context:
    def __init__(self, master: str) -> None:
        self.master = master


@pytest.mark.parametrize(("master", "runs"), [("local[2]", 1), ("spark://host:7077", 0)])
def test_once_for_each_local_session(monkeypatch: pytest.MonkeyPatch, master: str, runs: int) -> None:
    started = []
    thread = SimpleNamespace(start=lambda: started.append(master), join=lambda patience: None)
    monkeypatch.setattr(warming, "Thread", lambda **given: thread)
    session = SimpleNamespace(sparkContext=Context(master))
    for _ in range(2):
        warming.warm(session)
    assert len(started) == runs


def test_a_connect_session_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "Thread", None)  # would fail if it were called
    warming.warm(SimpleNamespace())
