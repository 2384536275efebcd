"""Before a query runs: the kernels that it needs are compiled, once on each machine.

A group of kernels that has no stamp is compiled by a process of its own, on all cores; others that need it wait. Where
that fails, nothing is lost: kernels are compiled as they are first called.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

from episode.kernels.locking import locked
from episode.kernels.stamps import give_up, is_ready, lock_path
from episode.matchers.compile_reports import JSON, PACKING, RULES, SLICES, Report, log, reporter
from episode.matchers.protocol import MatcherSpec

COMPILER = "episode.queries.compiling"
"""The module that is run to compile groups: it says how many kernels there are, then the name of each that is ready."""

_SHOWN = 2_000
"""How many characters of what a failed compiler says are shown."""


def groups_of(spec: MatcherSpec) -> tuple[str, ...]:
    """The groups of kernels that a query needs. The name of a group begins with the name of its language."""
    return tuple(getattr(spec, "kernels", ()))


def is_compiled(group: str) -> bool:
    """Whether a group is compiled, or cannot be kept anyway."""
    return is_ready(group)


def ensure_compiled(groups: Sequence[str], jobs: int | None = None) -> None:
    """Have the groups compiled that are not. jobs: in how many processes (default: one for each core)."""
    lock = lock_path()
    if lock is None or not sys.executable or all(is_ready(group) for group in groups):
        return
    with locked(lock):
        missing = [group for group in groups if not is_ready(group)]
        if missing:
            with reporter()(missing) as report:
                _run_compiler(missing, jobs, report)


def _run_compiler(groups: Sequence[str], jobs: int | None, report: Report) -> None:
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    root = Path(__file__).parents[2]
    if not root.name.endswith("-packages"):  # where a new process would not look by itself
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", COMPILER, *groups, *([] if jobs is None else ["--jobs", str(jobs)])]
    with TemporaryFile("w+") as said:
        try:
            with subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True, env=environment
            ) as process:
                assert process.stdout is not None
                total = int(process.stdout.readline() or 0)
                report(0, total)
                for ready, _ in enumerate(process.stdout, start=1):
                    report(ready, total)
            failed = process.returncode != 0
        except (OSError, ValueError):
            failed = True
        if failed:
            said.seek(0)
            give_up(groups)
            log.warning("Kernels could not be compiled ahead; they are, as they are called.\n%s", said.read()[-_SHOWN:])


__all__ = ["JSON", "PACKING", "RULES", "SLICES", "ensure_compiled", "groups_of", "is_compiled"]
