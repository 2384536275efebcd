"""From what a matcher counts to the bound, with counts that are scripted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from episode.live.push_limit import Busiest, Prediction
from episode.matchers.protocol import EventBatch, Selectivities
from tests.support.correlation import correlation
from tests.support.events import spec_of as events_spec_of
from tests.support.rows import spec_of
from tests.support.situations import spec_of as situations_spec_of
from tests.unit.matchers.correlation.test_strategies import FALL, TICK

CLAUSE = "PARTITION BY k ORDER BY ts MEASURES count(*) AS n {skip} PATTERN (A B+ C) DEFINE B AS v > 1"


class Counted:
    """A matcher of the states A, B, B*, C that has counted this; keys wait at states."""

    windows = 20

    def __init__(self, matches: int = 10, waiting: dict[int, int] | None = None) -> None:
        self.counting = False
        self.matches = matches
        self.waiting = waiting or {}

    def selectivities(self) -> Selectivities:
        star = np.array([False, False, True, False])
        entered, left = np.array([20, 20, 60, 15]), np.array([20, 15, 15, 10])
        return Selectivities(("A", "B", "B", "C"), star, entered, left, self.windows, self.matches)

    @property
    def current_states(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(sorted(self.waiting), np.int64), np.array([self.waiting[key] for key in sorted(self.waiting)])


def fed(*keys: int) -> EventBatch:
    key = np.array(keys, np.int64)
    return EventBatch(pa.table({"v": key}), key, np.arange(len(key)))


def predicted(matcher: Any, skip: str = "AFTER MATCH SKIP PAST LAST ROW", future: int = 0) -> Prediction:
    return Prediction(spec_of(CLAUSE.format(skip=skip)), matcher, future)


def test_the_kernel_is_asked_to_count() -> None:
    matcher = Counted()
    predicted(matcher)
    assert matcher.counting


def test_a_sample_is_counted_once_enough_is_known() -> None:
    matcher = Counted()
    prediction = predicted(matcher)
    prediction.current_bound()
    assert matcher.counting
    matcher.windows = 1_000
    counted = []
    for _ in range(15):
        prediction.current_bound()
        counted.append(matcher.counting)
    assert sum(counted) == 2


def test_the_bound_follows_the_counts() -> None:
    assert predicted(Counted()).current_bound() == (1 + 1 + 3 + 1) + 1
    assert predicted(Counted(), "AFTER MATCH SKIP TO NEXT ROW").current_bound() == 1 + 1 + 3 + 1
    assert predicted(Counted(), future=2).current_bound() == 7 + 2 * 6
    assert predicted(Counted(matches=0)).current_bound() == 4


def test_the_busiest_key_decides() -> None:
    prediction = predicted(Counted(waiting={3: 3, 7: 2}))
    bounds = []
    for events in (fed(3), fed(7, 7, 8), fed(8, 8, 8, 8, 8)):
        prediction.busiest.note(events)
        bounds.append(prediction.current_bound())
    assert bounds == [1 + 1, 3 + 1 + 1, 6 + 1]  # waits at C; at B*; at nothing


def test_the_busiest_key_is_the_one_with_most_events_of_late() -> None:
    busiest = Busiest()
    busiest.note(fed())
    assert busiest.key is None
    busiest.note(fed(1, 2, 2, 2, 3))
    assert busiest.key == 2
    busiest.note(fed(1, 1))
    assert busiest.key == 2  # 2.7 of it are left
    busiest.note(fed(1, 1, 1, 2))
    assert busiest.key == 2
    for _ in range(5):
        busiest.note(fed(1, 1, 1))
    assert busiest.key == 1


def test_without_counts_the_states_are_the_bound() -> None:
    assert predicted(object()).current_bound() == 3
    assert events_spec_of("PATTERN A; B; C; D WITHIN 10").traits.states == 4
    assert situations_spec_of("DEFINE A AS a, B AS b PATTERN A before B WITHIN 50").traits.states == 2
    assert correlation(FALL, TICK).traits.states == 2 + 4


@pytest.mark.parametrize(
    ("skip", "expected"),
    [("", True), ("AFTER MATCH SKIP PAST LAST ROW", True), ("AFTER MATCH SKIP TO NEXT ROW", False),
     ("AFTER MATCH SKIP TO LAST B", False)],
)  # fmt: skip
def test_events_are_gone_with_a_match(skip: str, expected: bool) -> None:
    assert spec_of(CLAUSE.format(skip=skip)).traits.consumes == expected
