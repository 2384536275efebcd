"""The simulated cluster against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench.simulated_cluster import (
    Cluster,
    Costs,
    Faults,
    Load,
    batch_costs,
    live_costs,
    makespan,
    micro_batch_costs,
    percentiles,
    shares_of,
    simulate_batch,
    simulate_live,
    simulate_micro_batches,
)

from episode.sizing.model import live_tasks, micro_batches
from tests.unit.sizing.fixed import constants, profile

MANY = 10**8
COSTS = Costs(even=1e-6, by_key=1e-6, fixed=0.5, base=0.01, restore=2.0)
CLUSTER = Cluster(4, 4)


def test_shares() -> None:
    draw = np.random.default_rng(1)
    even = shares_of(Load(1.0, 1.0, MANY), 10, draw)
    assert even.sum() == pytest.approx(1)
    assert even == pytest.approx(np.full(10, 0.1), rel=0.01)
    assert shares_of(Load(1.0, 1.0, 1000, hottest=0.5), 10, draw).max() > 0.5
    assert sorted(shares_of(Load(1.0, 1.0, 1), 4, draw)) == [0, 0, 0, 1]


def test_makespan() -> None:
    assert makespan(np.array([1.0, 2.0, 3.0]), 3) == 3
    assert makespan(np.array([1.0, 1.0, 1.0, 1.0]), 2) == 2
    assert makespan(np.array([3.0, 1.0, 1.0, 1.0]), 2) == 3
    assert makespan(np.zeros(0), 2) == 0


# ---- batches -------------------------------------------------------------------------------------------------


def test_a_batch_takes_fixed_costs_and_work_by_cores() -> None:
    for cluster in (Cluster(1, 1), Cluster(1, 2), Cluster(4, 4)):
        found = simulate_batch(cluster, 1e8, COSTS, Load(0, 0, MANY))
        assert found == pytest.approx(0.5 + 1e8 * 2e-6 / cluster.slots, rel=0.01)


def test_a_hot_key_decides() -> None:
    found = simulate_batch(CLUSTER, 1e8, COSTS, Load(0, 0, MANY, hottest=0.5))
    assert found >= 0.5 + 1e8 * (1e-6 / 16 + 0.5e-6)


def test_stragglers_and_losses_make_it_longer() -> None:
    usual = simulate_batch(CLUSTER, 1e8, COSTS, Load(0, 0, MANY))
    assert simulate_batch(CLUSTER, 1e8, COSTS, Load(0, 0, MANY), Faults(stragglers=0.1)) > usual
    middle = 0.5 + 3.0  # of the first stage, which takes 6.25 s: the work of a node until then is done again
    lost = simulate_batch(CLUSTER, 1e8, COSTS, Load(0, 0, MANY), Faults(lost=(middle,), replaced=0.0))
    rest = (100 * (1 - 3.0 / 6.25) + 100 / 4 * 3.0 / 6.25) / 12
    assert lost == pytest.approx(0.5 + 3.0 + rest + 6.25, rel=0.01)


# ---- micro-batches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [0.1, 0.5, 0.8])
def test_micro_batches_settle(used: float) -> None:
    rate = used * CLUSTER.slots / COSTS.each
    found = simulate_micro_batches(CLUSTER, Load(rate, 600.0, MANY), COSTS)
    length = COSTS.fixed / (1 - used)
    assert found.lengths[-1] == pytest.approx(length, rel=0.02)
    assert found.busy == pytest.approx(used, rel=0.03)  # the utilisation law
    assert found.throughput == pytest.approx(rate, rel=0.03)
    assert found.at(0.5) == pytest.approx(2.5 * length, rel=0.03)
    assert found.at(0.1) == pytest.approx(2.1 * length, rel=0.03)  # even between two lengths and three
    assert found.at(0.9) == pytest.approx(2.9 * length, rel=0.03)


def test_micro_batches_that_cannot_keep_up_grow() -> None:
    rate = 1.2 * CLUSTER.slots / COSTS.each
    found = simulate_micro_batches(CLUSTER, Load(rate, 600.0, MANY), COSTS)
    assert found.lengths[-1] > 10 * found.lengths[2]
    assert list(found.backlog[2:]) == sorted(found.backlog[2:])


def test_micro_batches_recover_from_a_lost_node() -> None:
    rate = 0.4 * CLUSTER.slots / COSTS.each
    found = simulate_micro_batches(CLUSTER, Load(rate, 300.0, MANY), COSTS, Faults(lost=(100.0,), replaced=30.0))
    usual = simulate_micro_batches(CLUSTER, Load(rate, 300.0, MANY), COSTS)
    assert found.at(0.99) > usual.at(0.99) + COSTS.restore
    assert 30.0 <= found.recovery(100.0, tolerance=0.02) < 60.0
    assert usual.recovery(100.0, tolerance=0.02) == 0.0


# ---- live tasks ----------------------------------------------------------------------------------------------


def test_live_tasks_keep_up() -> None:
    rate = 0.7 * CLUSTER.slots / COSTS.each
    found = simulate_live(CLUSTER, Load(rate, 60.0, MANY), COSTS)
    assert found.busy == pytest.approx(0.7, rel=0.01)
    assert found.throughput == pytest.approx(rate, rel=0.01)
    assert found.at(0.99) == pytest.approx(COSTS.base)
    assert found.backlog.max() == 0


def test_a_backlog_grows_by_what_is_too_much() -> None:
    capacity = CLUSTER.slots / COSTS.each
    found = simulate_live(CLUSTER, Load(1.5 * capacity, 60.0, MANY), COSTS)
    assert found.backlog[-1] == pytest.approx(0.5 * capacity * 60, rel=0.02)
    assert found.throughput == pytest.approx(capacity, rel=0.02)


def test_recovery_is_the_backlog_by_the_spare_capacity() -> None:
    cluster, step = Cluster(1, 1), 0.01
    rate, each = 4e5, COSTS.each
    faults = Faults(lost=(55.0,), replaced=8.0, checkpoint=10.0)
    found = simulate_live(cluster, Load(rate, 200.0, MANY), COSTS, faults, step=step)
    down = faults.replaced + COSTS.restore
    backlog = rate * (down + 5.0)  # events that came meanwhile, and those since the checkpoint at 50 s
    assert found.backlog.max() == pytest.approx(backlog, rel=0.02)
    assert found.recovery(55.0) == pytest.approx(down + backlog / (1 / each - rate), rel=0.02)
    replayed = 5.0 * rate * each  # an event that comes with the loss waits for the task, and for what is replayed
    assert found.latency.max() == pytest.approx(COSTS.base + down + replayed, rel=0.01)


def test_a_hot_key_holds_up_its_task_alone() -> None:
    rate = 0.5 * CLUSTER.slots / COSTS.each
    found = simulate_live(CLUSTER, Load(rate, 60.0, MANY, hottest=0.2), COSTS)
    assert found.at(0.5) == pytest.approx(COSTS.base)
    assert found.at(0.99) > 10.0


def test_stragglers_lengthen_the_tail() -> None:
    rate = 0.6 * CLUSTER.slots / COSTS.each
    usual = percentiles(simulate_live(CLUSTER, Load(rate, 120.0, MANY), COSTS))
    slow = percentiles(simulate_live(CLUSTER, Load(rate, 120.0, MANY), COSTS, Faults(stragglers=0.05)))
    assert slow["99%"] > 10 * usual["99%"]


def test_the_same_seed_gives_the_same() -> None:
    load, faults = Load(1e6, 60.0, 10_000), Faults(stragglers=0.1, lost=(20.0,))
    one, again, other = (simulate_live(CLUSTER, load, COSTS, faults, seed=seed) for seed in (3, 3, 4))
    assert (one.latency == again.latency).all()
    assert not (one.latency == other.latency).all()


def test_what_never_recovers() -> None:
    found = simulate_live(Cluster(1, 1), Load(1e6, 100.0, MANY), COSTS, Faults(lost=(50.0,)))
    assert found.recovery(50.0) == math.inf


def test_latency_over_time() -> None:
    found = simulate_live(Cluster(2, 2), Load(4e5, 100.0, MANY), COSTS, Faults(lost=(50.0,), replaced=10.0))
    times, latency = found.over_time(10.0)
    assert len(times) in (10, 11)
    assert latency[:4] == pytest.approx(np.full(4, COSTS.base))
    assert latency[5] > 5.0


# ---- against the cost model ----------------------------------------------------------------------------------


def test_the_simulation_and_the_model_agree() -> None:
    known, one = constants(), profile()
    found = micro_batches(1e6, MANY, one, known)
    cluster = Cluster(1, found.cores)
    simulated = simulate_micro_batches(cluster, Load(1e6, 120.0, MANY), micro_batch_costs(one, known, found.cores))
    assert simulated.lengths[-1] == pytest.approx(found.length, rel=0.02)
    assert simulated.at(0.5) == pytest.approx(found.median, rel=0.03)
    live = live_tasks(1e6, MANY, one, known)
    assert simulate_live(Cluster(1, live.cores), Load(1e6, 20.0, MANY), live_costs(one, known)).busy == pytest.approx(
        live.utilisation, rel=0.02
    )
    assert batch_costs(one, known).each == pytest.approx(220e-9 * 1.2)
