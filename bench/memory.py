"""Peak memory of Spark's Python workers, watched from outside through /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from bench.harness import descendants

PAUSE = 0.02


class WorkerMemory:
    """Watches the Python workers below this process while the `with` block runs.

    together: the greatest sum of resident memory over all workers at one time, in bytes.
    largest: the greatest resident memory of a single worker (the system's own high-water mark).
    largest_own: the same without mapped files (libraries, spilled rows), as far as it was seen.
    """

    def __init__(self) -> None:
        self.together = 0
        self.largest = 0
        self.largest_own = 0
        self.workers = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(PAUSE):
            sizes = [_memory_of(process) for process in _python_workers(os.getpid())]
            self.together = max(self.together, sum(now for now, _, _ in sizes))
            self.largest = max(self.largest, max((peak for _, peak, _ in sizes), default=0))
            self.largest_own = max(self.largest_own, max((own for _, _, own in sizes), default=0))
            self.workers = max(self.workers, len(sizes))


def _python_workers(root: int) -> list[int]:
    """Processes below a process that run pyspark's workers. Their daemon, which forks them, is not one."""
    daemons = [process for process in descendants(root) if _is_daemon(process)]
    return daemons[1:] if daemons else []


def _is_daemon(process: int) -> bool:
    """Is it the daemon, or one of the workers that it has forked? Java, and what it forks, names the daemon, too."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return command[1:2] == [b"-m"] and command[2:3] in ([b"pyspark.daemon"], [b"episode.spark.daemon"])


def _memory_of(process: int) -> tuple[int, int, int]:
    """Resident bytes now, and at the most; and those now that are of no file."""
    found = {"VmRSS": 0, "VmHWM": 0, "RssAnon": 0}
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            name = line.split(":", 1)[0]
            if name in found:
                found[name] = int(line.split()[1]) * 1024
    except OSError:
        pass
    return found["VmRSS"], found["VmHWM"], found["RssAnon"]
