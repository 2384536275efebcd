"""The simulated cluster against what was measured on one machine: figures are read from the pages of bench/results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.simulated_cluster import Cluster, Costs, Load, simulate_batch, simulate_live, simulate_micro_batches

RESULTS = Path(__file__).parents[3] / "bench" / "results"
TWO_CORES = Cluster(1, 2)
KEYS = 1_000


def found_in(page: str, pattern: str) -> list[tuple[str, ...]]:
    text = (RESULTS / page).read_text(encoding="utf-8")
    return [match.groups() for match in re.finditer(pattern, text, flags=re.MULTILINE)]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_batches_of_several_sizes() -> None:
    """The smallest and the largest run give the costs; those between are simulated."""
    rows = found_in("growth.md", r"^\| ([\d,]+,000) \| ([\d.]+) s .*×? \| [\d.]+ \|$")
    measured = {number(size): float(seconds) for size, seconds in rows}
    least, *between, most = sorted(measured)
    each = (measured[most] - measured[least]) / (most - least) * TWO_CORES.slots
    fixed = measured[least] - least * each / TWO_CORES.slots
    assert len(between) == 2
    for size in between:
        simulated = simulate_batch(TWO_CORES, size, Costs(each / 2, each / 2, fixed), Load(0, 0, KEYS))
        assert simulated == pytest.approx(measured[size], rel=0.2)


def test_micro_batches_follow_each_other_as_they_were_measured() -> None:
    """At the rate that a micro-batch of a million events leaves, they go on having a million events."""
    [(large,)] = found_in("stream.md", r"^\| episode: envelopes, state by shard \| ([\d.]+) s")
    [(small,)] = found_in("stream-small.md", r"^\| episode \| ([\d.]+) s")
    length, floor = float(large), float(small)
    each = (length - floor) / 1e6 * TWO_CORES.slots
    found = simulate_micro_batches(TWO_CORES, Load(1e6 / length, 120.0, KEYS), Costs(each / 2, each / 2, floor))
    assert found.lengths[-1] == pytest.approx(length, rel=0.2)


def test_live_tasks_are_as_fast_as_they_were_measured() -> None:
    """Twice the rate of two live tasks leaves half of the events behind."""
    [(rate,)] = found_in("live-throughput.md", r"^\| live tasks, pull \| ([\d,]+) \|")
    each = TWO_CORES.slots / number(rate)
    found = simulate_live(TWO_CORES, Load(2 * number(rate), 20.0, KEYS), Costs(0.0, each))
    assert found.throughput == pytest.approx(number(rate), rel=0.05)
    assert found.backlog[-1] == pytest.approx(number(rate) * 20, rel=0.05)
