"""What a live task says of itself while it runs: counts, rates, latencies, its last matches; a JSON file that is always
whole."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from episode.live.protocol import Position
from episode.matchers.live import Counters

COUNTED = ("events", "late", "null_times", "duplicates", "after_end", "matches", "given_up", "skipped")
"""What is counted over the life of a query; the checkpoint keeps it."""
SHOWN = 10
"""Matches that are shown, the last ones."""
_LEAST = 1e-5
_PER_OCTAVE = 8
_BUCKETS = 28 * _PER_OCTAVE


class Histogram:
    """How often durations were how long, in buckets that grow by 9%: 10 µs to 40 minutes."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = np.zeros(_BUCKETS, np.int64)
        for bucket, count in (counts or {}).items():
            self.counts[int(bucket)] = count

    def add(self, seconds: float, times: int = 1) -> None:
        place = int(np.log2(max(seconds, _LEAST) / _LEAST) * _PER_OCTAVE)
        self.counts[min(place, _BUCKETS - 1)] += times

    def include(self, other: Histogram) -> None:
        self.counts += other.counts

    def percentile(self, share: float) -> float | None:
        """The duration that this share of all did not exceed, in seconds; None: there were none."""
        total = int(self.counts.sum())
        if not total:
            return None
        place = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return float(_LEAST * 2 ** ((min(place, _BUCKETS - 1) + 1) / _PER_OCTAVE))

    def as_dict(self) -> dict[str, int]:
        """The buckets that have something, by number."""
        return {str(bucket): int(self.counts[bucket]) for bucket in np.flatnonzero(self.counts)}


@dataclass
class Progress:
    """Of one task.

    latency: from the append of the first event of a step to its matches being readable, of each match in this process.
    held_average, held_most: events in memory, read and not matched or held by the matcher, in this process.
    """

    task: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    steps: int = 0
    snapshots: int = 0
    state_rows: int = 0
    waiting_events: int = 0
    live_keys: int = 0
    skipped_keys: int = 0
    position: Position = field(default_factory=dict)
    watermark: int | None = None
    unprocessed: int = 0
    held_average: float = 0.0
    held_most: int = 0
    unread: int | None = None
    mode: str = ""
    switches: int = 0
    checkpoint_bytes: int = 0
    ended: bool = False
    replayed: int = 0
    latency: Histogram = field(default_factory=Histogram)
    _last: tuple[pa.Table, ...] = ()
    _rates: deque[tuple[float, int]] = field(default_factory=deque)

    def step(self, counters: Counters) -> None:
        """Count what happened in a step."""
        for name in COUNTED:
            self.counts[name] += getattr(counters, name)
        self.steps += 1
        self.state_rows, self.waiting_events = counters.state_rows, counters.waiting_events
        self.live_keys, self.skipped_keys = counters.live_keys, counters.skipped_keys

    def show(self, matches: pa.Table) -> None:
        """Matches that came last. Another thread may look at them meanwhile."""
        last = [*self._last, matches.slice(max(0, matches.num_rows - SHOWN))]
        while sum(table.num_rows for table in last[1:]) >= SHOWN:
            last.pop(0)
        self._last = tuple(last)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able: times of matches as texts."""
        now = time.time()
        self._rates.append((now, self.counts["events"]))
        while len(self._rates) > 2 and self._rates[0][0] < now - 5:
            self._rates.popleft()
        (begin, before), (end, after) = self._rates[0], self._rates[-1]
        percentiles = {f"p{int(share * 100)}": self.latency.percentile(share) for share in (0.5, 0.9, 0.99)}
        return {
            "task": self.task,
            "time": now,
            "pid": os.getpid(),
            **self.counts,
            "events_per_second": 0.0 if end == begin else (after - before) / (end - begin),
            "steps": self.steps,
            "snapshots": self.snapshots,
            "state_rows": self.state_rows,
            "waiting_events": self.waiting_events,
            "live_keys": self.live_keys,
            "skipped_keys": self.skipped_keys,
            "position": dict(self.position),
            "watermark": self.watermark,
            "unprocessed": self.unprocessed,
            "held_average": round(self.held_average, 1),
            "held_most": self.held_most,
            "unread": self.unread,
            "mode": self.mode,
            "switches": self.switches,
            "checkpoint_bytes": self.checkpoint_bytes,
            "memory": resident_bytes(),
            "ended": self.ended,
            "replayed": self.replayed,
            "latency": {**percentiles, "buckets": self.latency.as_dict()},
            "last_matches": _rows(self._last),
        }


def _rows(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    rows = [row for table in tables for row in table.to_pylist()][-SHOWN:]
    plain = (bool, int, float, str, type(None))
    return [{name: value if isinstance(value, plain) else str(value) for name, value in row.items()} for row in rows]


def resident_bytes() -> int:
    """The memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def write_progress(path: Path, progress: Mapping[str, Any]) -> None:
    """Replace what a task has said before; a reader sees one or the other."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(progress), encoding="utf-8")
    os.replace(unfinished, path)


def read_progress(checkpoint: str, tasks: int) -> list[dict[str, Any]]:
    """What the tasks of a query have said last; those that have said nothing yet are left out."""
    found = []
    for task in range(tasks):
        try:
            found.append(json.loads(progress_path(checkpoint, task).read_bytes()))
        except FileNotFoundError:
            continue
    return found


def progress_path(checkpoint: str, task: int) -> Path:
    return Path(checkpoint) / "tasks" / str(task) / "progress.json"
