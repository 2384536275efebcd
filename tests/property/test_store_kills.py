"""Producers and archivers that are really killed, as tests/kill/store.py does for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    """In a process of its own, which forks: the one that runs the tests has too much in it."""
    arguments = ["--seconds", "4", "--seed", str(seed), "--directory", str(tmp_path / "store")]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill.store", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "every event is there once, in order" in done.stdout
