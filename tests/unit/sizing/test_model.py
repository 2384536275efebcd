"""The cost model: closed forms, units, and that more work takes longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.errors import EpisodeError
from episode.sizing.model import (
    BUSY,
    DIRECT,
    PARTS,
    THROUGH_JVM,
    contention_at,
    cores_for_batch,
    imbalance,
    live_tasks,
    live_work,
    match_tasks,
    micro_batch_work,
    micro_batches,
    predict_batch,
    state_of,
    tasks_of,
    work_of,
)
from episode.sizing.profile import EVENTS, ROWS, HeldPerKey
from tests.unit.sizing.fixed import constants, profile

MANY_KEYS = 1e12


def test_parts_of_a_row() -> None:
    work = work_of(profile(), constants())
    assert tuple(work.parts) == PARTS
    assert work.parts == {"scan": 20, "pack": 40, "shuffle": 50, "order": 30, "match": 60, "write": 20}
    assert work.total == 220
    assert (work.first, work.second, work.of_one_key, work.largest) == (85, 135, 110, "match")


def test_rows_through_the_jvm_and_results_that_are_not_written() -> None:
    through = work_of(profile(), constants(), THROUGH_JVM)
    assert through.total - work_of(profile(), constants(), DIRECT).total == 200
    assert work_of(profile(), constants(), written=False).parts["write"] == 10


def test_only_rows_that_pass_the_screen_are_moved() -> None:
    few = work_of(replace(profile(), passing=0.1), constants())
    assert few.parts == {"scan": 20, "pack": 40, "shuffle": 5, "order": 3, "match": 6, "write": 20}


def test_the_language_decides_where_nothing_is_measured() -> None:
    assert work_of(profile(EVENTS), constants()).parts["match"] == 100


def test_a_batch_is_fixed_costs_and_work_by_cores() -> None:
    plain = constants(busy_slot=1.0, contention=1.0)
    work = work_of(profile(), plain)
    for cores in (1, 2, 8):
        tasks = tasks_of(1e8 * 20, cores)
        run = predict_batch(1e8, work, plain, cores, row_bytes=20, keys=MANY_KEYS)
        assert run.fixed == pytest.approx(0.5 + 2 * tasks * (0.001 + 0.01 / cores))
        assert run.tasks == 2 * tasks
        assert run.seconds == pytest.approx(run.fixed + 1e8 * 220e-9 / cores, rel=1e-3)
        assert run.core_seconds == pytest.approx(1 + 22.0)


def test_one_task_at_a_time_uses_part_of_a_second_core() -> None:
    work = work_of(profile(), constants(contention=1.0))
    alone = predict_batch(1e8, work, constants(contention=1.0), 1, row_bytes=20, keys=MANY_KEYS)
    beside = predict_batch(1e8, work, constants(contention=1.0), 1, row_bytes=20, keys=MANY_KEYS, cores=2)
    assert (beside.seconds - beside.fixed) / (alone.seconds - alone.fixed) == pytest.approx(0.8)


def test_contention_grows_with_busy_cores() -> None:
    assert [contention_at(busy, 3, constants()) for busy in (1, 2, 3)] == pytest.approx([1.0, 1.1, 1.2])
    assert contention_at(1, 1, constants()) == 1.0


def test_one_key_decides_if_it_has_too_much() -> None:
    work = work_of(profile(), constants())
    even = predict_batch(1e9, work, constants(), 16, row_bytes=20, keys=1e6)
    skewed = predict_batch(1e9, work, constants(), 16, row_bytes=20, keys=1e6, hottest=0.5)
    assert not even.bound_by_key
    assert skewed.bound_by_key
    assert skewed.seconds > 2 * even.seconds


def test_tasks_come_in_waves() -> None:
    assert tasks_of(0, 4) == 8
    assert tasks_of(1e12, 4) % 4 == 0
    assert tasks_of(1e12, 4) >= 1e12 / 2**27
    assert match_tasks(1e12, 4) == 4096
    assert match_tasks(1e12, 5000) == 5000


def test_imbalance() -> None:
    assert imbalance(100, 1) == 1.0
    assert imbalance(1, 8) > 2
    assert imbalance(1e12, 1000) == pytest.approx(1.0, abs=1e-3)
    # of two normal values the greater one is 1/sqrt(pi) = 0.564 above the mean; the formula says 0.589
    assert imbalance(1000, 2) == pytest.approx(1 + 0.589 * (2 / 1000) ** 0.5, abs=1e-4)


@given(rows=st.floats(1e5, 1e12), cores=st.integers(1, 500), keys=st.floats(1, 1e9), more=st.floats(1.01, 10))
def test_more_rows_and_more_expensive_ones_take_longer(rows: float, cores: int, keys: float, more: float) -> None:
    work = work_of(profile(), constants())
    dearer = work_of(replace(profile(), match=60 * more), constants())
    usual = predict_batch(rows, work, constants(), cores, row_bytes=20, keys=keys)
    assert predict_batch(rows * more, work, constants(), cores, row_bytes=20, keys=keys).seconds >= usual.seconds
    assert predict_batch(rows, dearer, constants(), cores, row_bytes=20, keys=keys).seconds > usual.seconds
    assert usual.seconds > usual.fixed > 0


@given(rows=st.floats(1e6, 1e12), seconds=st.floats(60, 1e5))
def test_the_fewest_cores_that_are_in_time(rows: float, seconds: float) -> None:
    work = work_of(profile(), constants())
    shared = {"row_bytes": 20.0, "keys": 1e9}
    try:
        cores = cores_for_batch(rows, work, constants(), seconds, **shared)
    except EpisodeError:
        return
    assert predict_batch(rows, work, constants(), cores, **shared).seconds <= seconds
    assert cores == 1 or predict_batch(rows, work, constants(), cores - 1, **shared).seconds > seconds


def test_no_number_of_cores_is_enough() -> None:
    with pytest.raises(EpisodeError, match="No number of cores"):
        cores_for_batch(1e12, work_of(profile(), constants()), constants(), 0.1, row_bytes=20, keys=1e6)


# ---- streams -----------------------------------------------------------------------------------------------


def test_a_micro_batch_settles_at_its_floor_by_what_is_left() -> None:
    plain = constants(contention=1.0, dispatch=0.0)
    work = micro_batch_work(profile(), plain)
    assert work.total == 220 + 200 + 500 + 40 * 0.5
    found = micro_batches(1e6, MANY_KEYS, profile(), plain, cores=2)
    assert found.utilisation == pytest.approx(0.47, rel=1e-3)
    assert found.length == pytest.approx(0.6 / (1 - 0.47), rel=1e-3)
    assert found.median == pytest.approx(2.5 * found.length)


def test_cores_are_busy_no_more_than_they_should_be() -> None:
    for rate in (1e3, 1e5, 1e7):
        for found in (micro_batches(rate, 1e7, profile(), constants()), live_tasks(rate, 1e7, profile(), constants())):
            assert found.utilisation <= BUSY
            assert found.cores == 1 or found.utilisation > BUSY * 0.8


def test_live_tasks_need_no_shuffle() -> None:
    assert live_work(profile(), constants()).parts == {"read and report": 100, "order": 30, "match": 60, "state": 20}
    found = live_tasks(1e6, 1e6, profile(), constants(), delay=2.0)
    assert (found.median, found.most) == (2.015, 2.05)


def test_more_than_one_key_can_have_never_ends() -> None:
    found = micro_batches(1e7, 1, profile(), constants())
    assert (found.cores, found.median) == (1, float("inf"))


def test_state_of_a_query_that_was_not_measured_is_the_whole_window() -> None:
    state = state_of(1e6, 1e4, 600.0, profile(), 2.0)
    assert (state.held, state.most, state.waiting) == (6e8, 6e8, 2e6)
    assert state.bytes == 6e8 * 40 + 2e6 * 10


@pytest.mark.parametrize(("elasticity", "held"), [(1.0, 6e8 / 10), (0.0, 2e4), (0.5, 1e4 * 2 * (6e4 / 20) ** 0.5)])
def test_state_grows_as_it_did_in_the_sample(elasticity: float, held: float) -> None:
    one = replace(profile(), held=HeldPerKey(2.0, 20.0, elasticity, 40.0, measured=True))
    assert state_of(1e6, 1e4, 600.0, one, 0.0).held == pytest.approx(held)


def test_no_more_than_the_window_is_held() -> None:
    one = replace(profile(), language=ROWS, held=HeldPerKey(5.0, 5.0, 0.0, 40.0, measured=True))
    assert state_of(100.0, 1e6, 10.0, one, 0.0).held == 1000
