"""Kernels recorded without the compiler, and compiled by several processes into one cache: small ones of the test."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config

from episode.kernels import call_graph, compiling, locking, stamps
from episode.kernels.recording import as_returned

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="there is no compiler")

KERNELS = """
import numpy as np
from numba import njit

@njit(cache=True)
def inner(x, by):
    return x * by

@njit(cache=True)
def total(values):
    found = np.uint64(0)
    for value in values:
        found += np.uint64(inner(value, 2))
    return found, values[0]

@njit(cache=True)
def more(number, by=3):
    return inner(number, by)
"""

COMPILE = """
import numpy as np, sys
import small_kernels as kernels
from episode.kernels.compiling import by_kernel, compile_calls
from episode.kernels.recording import recorded_calls

with recorded_calls() as calls:
    found, first = kernels.total(np.array([1, 2, 3], np.int32))
    assert (found, first) == (12, 1) and type(found) is int and type(first) is int
    assert kernels.more(found) == 36 and kernels.more(2.5) == 7.5
    kernels.total(np.array([4], np.int32))
assert not any(kernel.overloads for kernel in (kernels.inner, kernels.total, kernels.more))
assert [call.name for call in calls] == ["small_kernels.total", "small_kernels.more", "small_kernels.more"]
ready = []
compile_calls(calls, JOBS, ready.append)
assert sorted(ready) == ["small_kernels.more", "small_kernels.total"], ready
"""

RUN = """
import numpy as np
import small_kernels as kernels

assert kernels.total(np.array([1, 2, 3], np.int32)) == (12, 1)
assert kernels.more(12) == 36 and kernels.more(2.5) == 7.5
for kernel in (kernels.total, kernels.more):
    assert kernel.stats.cache_hits and not kernel.stats.cache_misses
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_recorded_calls_are_compiled_into_the_cache(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "small_kernels.py").write_text(KERNELS)
    for code in (COMPILE.replace("JOBS", str(jobs)), RUN):
        subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


FAILING = COMPILE.replace("JOBS", "2").replace(
    "ready = []",
    """
ready = []
import os
from episode.kernels import compiling
usual, here = compiling._compile, os.getpid()
def compile_or_die(kernel, signatures):
    if os.getpid() != here and kernel is kernels.total:
        os._exit(1)
    usual(kernel, signatures)
compiling._compile = compile_or_die
""",
)


def test_what_a_lost_process_had_is_compiled_here(tmp_path: Path) -> None:
    (tmp_path / "small_kernels.py").write_text(KERNELS)
    for code in (FAILING, RUN):
        subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_results_are_as_compiled_kernels_give_them() -> None:
    array = np.zeros(1)
    result = as_returned((np.uint64(7), np.bool_(True), (np.float32(0.5), array)))
    assert result == (7, True, (0.5, array))
    assert [type(part) for part in (*result[:2], result[2][0])] == [int, bool, float]


# ---- order -------------------------------------------------------------------------------------------------


def test_the_longest_kernel_comes_first_unless_it_needs_what_is_being_compiled(monkeypatch) -> None:
    class Kernel(str):
        pass

    shared, long, longer, short = map(Kernel, ("shared", "long", "longer", "short"))
    calls = {long: {shared}, longer: {shared}, short: set(), shared: set()}
    sizes = {long: 5, longer: 9, short: 2, shared: 1}
    monkeypatch.setattr(compiling, "called_by", calls.__getitem__)
    monkeypatch.setattr(compiling, "size_of", sizes.__getitem__)
    assert compiling.next_of([long, longer, short], [], []) is longer
    assert compiling.next_of([long, short], [longer], []) is short
    assert compiling.next_of([long], [longer], []) is long
    assert compiling.next_of([long, short], [short], [longer]) is long


def test_what_a_kernel_calls_is_found_through_modules_and_others() -> None:
    from episode.kernels import decimals, machine

    called = call_graph.called_by(machine.run)
    assert {machine._run_wide, machine._multiply, decimals.compare} <= called
    assert machine.run not in called
    assert call_graph.size_of(machine.run) > call_graph.size_of(machine._multiply) > 0


# ---- stamps and locks --------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stamps, "directory", lambda: tmp_path)
    monkeypatch.setattr(stamps, "_ready", set())
    return tmp_path


def test_a_stamp_is_of_a_group_and_its_sources(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not stamps.is_ready("rows")
    stamps.mark_ready(["rows"])
    assert stamps.is_ready("rows")
    assert not stamps.is_ready("events")
    monkeypatch.setattr(stamps, "_ready", set())
    monkeypatch.setattr(stamps, "_sources", lambda folder: "changed")
    stamps._digest.cache_clear()
    assert not stamps.is_ready("rows")
    monkeypatch.undo()
    stamps._digest.cache_clear()


def test_a_group_that_cannot_be_compiled_is_not_tried_again(place: Path) -> None:
    stamps.give_up(["rows"])
    assert stamps.is_ready("rows")


def test_caches_of_other_sources_are_emptied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(stamps.__file__).parent
    monkeypatch.setattr(stamps, "_caches", lambda: iter([(folder, place)]))
    compiled, other = place / "machine.run-1.py311.nbi", place / "machine.pyc"
    for path in (compiled, other):
        path.touch()
    stamps.empty_stale_caches()
    assert not compiled.exists()
    assert other.exists()
    compiled.touch()
    stamps.empty_stale_caches()
    assert compiled.exists()


def test_one_at_a_time_has_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locking.locked(str(path)), path.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_where_no_file_can_be_locked_nobody_waits(tmp_path: Path) -> None:
    with locking.locked(str(tmp_path / "missing" / "lock")), locking.locked(str(tmp_path / "missing" / "lock")):
        pass
