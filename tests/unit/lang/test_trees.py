"""sqlglot is loaded by whoever parses, not by workers that match."""

from __future__ import annotations

import subprocess
import sys


def test_matchers_load_without_sqlglot() -> None:
    program = "import sys, episode.matchers.engines as engines; engines.load(); sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
