"""A streaming query that is killed goes on from its checkpoint; `make test-kill` does it twenty times."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.live
def test_a_killed_query_loses_and_repeats_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill.run", "--kills", "3"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 lost, 0 unexpected, 0 repeated" in done.stdout


@pytest.mark.live
def test_rules_that_change_while_their_stream_is_killed_lose_and_repeat_nothing() -> None:
    """`make test-kill` does it ten times."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill.rules", "--kills", "2"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 lost, 0 wrong or repeated" in done.stdout


@pytest.mark.live
def test_a_stream_store_whose_processes_are_killed_loses_and_repeats_nothing() -> None:
    """`make test-kill` does it ten times."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill.store_and_query", "--kills", "3"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "0 lost, 0 repeated" in done.stdout


@pytest.mark.live
def test_a_live_query_survives_the_loss_of_a_worker_of_its_cluster() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill.live_cluster"], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 lost, 0 unexpected or repeated" in done.stdout
