"""Live tasks of rules that are really killed while rules change, as tests/kill/live_rules.py does for longer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """In a process of its own, which forks: the one that runs the tests has too much in it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill.live_rules", "--kills", "10", "--directory", str(tmp_path / "live")],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "every match is out once" in done.stdout
