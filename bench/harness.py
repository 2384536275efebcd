"""What the experiments share: measuring side by side, a Spark session, and reports in Markdown."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"


# ---- measuring -------------------------------------------------------------------------------------


@dataclass
class Taken:
    """What the counted runs of one work took: seconds by the clock, and seconds of all cores together."""

    wall: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def median_cores(self) -> float:
        return statistics.median(self.cores)

    def __str__(self) -> str:
        """The median, and the least and the greatest."""
        return f"{self.median:.2f} s ({min(self.wall):.2f} – {max(self.wall):.2f})"


def side_by_side(works: dict[str, Callable[[], object]], runs: int) -> dict[str, Taken]:
    """Every work once without counting, then all in turns, so that disturbances hit all alike."""
    taken = {name: Taken() for name in works}
    for turn in range(runs + 1):
        for name, work in works.items():
            wall, cores = seconds_of(work)
            say(f"{name}: {wall:.2f} s, {cores:.2f} s of cores{' (not counted)' if turn == 0 else ''}")
            if turn:
                taken[name].wall.append(wall)
                taken[name].cores.append(cores)
    return taken


def seconds_of(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of one run: by the clock, and of all cores together, in this process and those below it."""
    gc.collect()
    begin, busy = time.perf_counter(), busy_seconds()
    work()
    return time.perf_counter() - begin, busy_seconds() - busy


def busy_seconds() -> float:
    """Seconds that this process and all below it have worked so far, ended ones included."""
    ticks = 0
    for process in [os.getpid(), *descendants(os.getpid())]:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += sum(int(value) for value in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> Iterator[int]:
    """Processes below a process, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    reached = [root]
    while reached:
        below = children.get(reached.pop(), [])
        yield from below
        reached += below


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- Spark -----------------------------------------------------------------------------------------


def local_session(cores: int = 2, settings: Mapping[str, str] | None = None):
    """A session on this machine with Spark's own defaults, but for the memory, which is ample for its sort."""
    from episode.spark.startup import session

    own = {"spark.driver.memory": "8g", "spark.sql.session.timeZone": "UTC"}
    return session.local_session("episode bench", own | dict(settings or {}), cores)


# ---- reporting -------------------------------------------------------------------------------------


@dataclass
class Report:
    """A Markdown page in bench/results."""

    name: str
    title: str
    lines: list[str] = field(default_factory=list)

    def text(self, *paragraphs: str) -> None:
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def heading(self, text: str) -> None:
        self.lines += [f"## {text}", ""]

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        self.lines += [_row(header), _row(["---"] * len(header)), *(_row(row) for row in rows), ""]

    def image(self, file: str, caption: str) -> None:
        self.lines += [f"![{caption}]({file})", ""]

    def write(self, *, packages: Sequence[str]) -> Path:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.md"
        about = ["## Machine and versions", "", *(f"* {line}" for line in surroundings(packages)), ""]
        path.write_text("\n".join([f"# {self.title}", "", *self.lines, *about]).rstrip() + "\n")
        say(f"written: {path.relative_to(ROOT)}")
        return path


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def millions(rows: float) -> str:
    return f"{rows / 1e6:,.1f} million"


def surroundings(packages: Sequence[str]) -> list[str]:
    """Machine, versions and the commit measured; the load tells how quiet the machine was."""
    lines = [f"{_processor()}, {os.cpu_count()} cores, {_memory()} GiB memory, {platform.system()}"]
    lines.append(f"load average when the report was written: {os.getloadavg()[1]:.1f} (5 minutes, this run included)")
    lines.append(f"Python {platform.python_version()}, Java {_java()}")
    lines.append(", ".join(f"{name} {version(name)}" for name in packages))
    lines.append(f"episode at commit {_git('rev-parse', '--short', 'HEAD')}{_changes()}")
    return lines


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def _memory() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    text = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    return text.split('"')[1] if '"' in text else "unknown"


def _git(*arguments: str) -> str:
    import episode

    where = Path(episode.__file__).parent
    return subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, check=False).stdout.strip()


def _changes() -> str:
    changed = [line for line in _git("status", "--porcelain", "--", ".").splitlines() if line]
    return f" with {len(changed)} uncommitted files in src" if changed else ""
