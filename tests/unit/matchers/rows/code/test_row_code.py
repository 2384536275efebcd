"""The code of row patterns: kept, and found again."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from episode.matchers.rows.code import row_code


class SlowKey:
    """A shape whose hash lets other threads run, as those of long patterns do."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        os.sched_yield()
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlowKey) and other.number == self.number


def test_threads_find_code_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo runs its queries in threads: code that one of them drops may be what another is about to drop."""
    monkeypatch.setattr(row_code, "MOST_PROGRAMS", 2)
    monkeypatch.setattr(row_code, "_known", {})
    monkeypatch.setattr(row_code, "_build_code", lambda plan, places, shape: shape.number)
    plan = SimpleNamespace(labels=SimpleNamespace(names=("A",)), conditions={})
    with ThreadPoolExecutor(8) as threads:
        numbers = [number % 7 for number in range(4_000)]
        found = list(threads.map(lambda number: row_code._find_code(plan, None, SlowKey(number)), numbers))
    assert found == numbers
