"""The clock of an analysis: every moment belongs to one stage, or to none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from episode.matchers import stage_clock as stages
from episode.matchers.stage_clock import MATCH, ORDER, PREPARE, READ, StageClock


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test moves on."""
    time = [100.0]
    monkeypatch.setattr(stages, "perf_counter", lambda: time[0])
    return time


def test_time_goes_to_the_stage_that_runs(now: list[float]) -> None:
    clock = StageClock()
    now[0] += 5.0  # before the first stage
    assert clock.enter(PREPARE) is None
    now[0] += 1.0
    assert clock.enter(MATCH) == PREPARE
    now[0] += 2.0
    assert clock.enter(None) == MATCH
    now[0] += 4.0  # left out
    assert clock.enter(MATCH) is None
    now[0] += 8.0
    assert clock.take() == {READ: 0.0, ORDER: 0.0, PREPARE: 1.0, MATCH: 10.0, "assemble": 0.0}
    now[0] += 1.0
    assert clock.take()[MATCH] == 1.0


def test_what_is_read_is_then_put_in_order(now: list[float]) -> None:
    def source() -> Iterator[int]:
        for number in range(2):
            now[0] += 1.0
            yield number
        now[0] += 3.0

    clock = StageClock()
    found = []
    for number in clock.reading(source()):
        now[0] += 10.0
        found.append(number)
    assert found == [0, 1]
    taken = clock.take()
    assert (taken[READ], taken[ORDER]) == (5.0, 20.0)
