"""A standalone cluster of Spark on this machine: a master and workers as processes of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pyspark

from tests.support.waiting import wait_until

PATIENCE = 60.0
ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}


class Cluster:
    """A master, and workers with one core each; `close` ends all of them."""

    def __init__(self, place: Path, workers: int) -> None:
        self.place = place
        self.processes: list[subprocess.Popen[bytes]] = []
        self.url = self._master()
        for number in range(workers):
            self._worker(number)

    def _started(self, name: str, *command: str) -> Path:
        home = Path(pyspark.__file__).parent
        log = self.place / f"{name}.log"
        environment = {**os.environ, **ENVIRONMENT, "SPARK_HOME": str(home)}
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *command],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                cwd=self.place,
            )
        self.processes.append(process)
        return log

    def _master(self) -> str:
        log = self._started(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        return _found(log, r"Starting Spark master at (spark://\S+)")

    def _worker(self, number: int) -> None:
        work = self.place / f"work{number}"
        log = self._started(
            f"worker{number}",
            *("org.apache.spark.deploy.worker.Worker", self.url, "--host", "127.0.0.1", "--cores", "1"),
            *("--memory", "1g", "--work-dir", str(work), "--webui-port", "0"),
        )
        _found(log, r"Successfully registered with master (\S+)")

    def kill_worker_of(self, process: int) -> None:
        """Kill the worker, with its executor and their processes, among whose descendants a process is."""
        ancestors = _ancestors(process)
        for worker in self.processes[1:]:
            if worker.pid in ancestors:
                for one in _descendants(worker.pid):
                    _kill(one)
                worker.wait()
                return
        raise AssertionError(f"no worker has the process {process}: {ancestors}")

    def close(self) -> None:
        for process in self.processes:
            for one in _descendants(process.pid):
                _kill(one)
            process.wait()


def _found(log: Path, pattern: str) -> str:
    def look() -> re.Match[str] | None:
        return re.search(pattern, log.read_text(errors="replace"))

    found = wait_until(look, story=lambda: f"{pattern} is not in {log}:\n{log.read_text(errors='replace')[-2000:]}")
    assert found is not None
    return found.group(1)


def _parents() -> dict[int, int]:
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(path.parent.name)] = int(fields[1])
    return found


def _ancestors(process: int) -> list[int]:
    parents, found = _parents(), [process]
    while found[-1] in parents and parents[found[-1]] > 1:
        found.append(parents[found[-1]])
    return found


def _descendants(process: int) -> list[int]:
    parents = _parents()
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
