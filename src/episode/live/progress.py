"""The progress of a live task, in a JSON file that is replaced atomically: counts, rates, latencies, last matches."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeError
from episode.live.protocol import Position
from episode.matchers.stream_shard import Counters

COUNTED = ("events", "late", "null_times", "duplicates", "after_end", "matches", "given_up", "skipped")
"""Counters over the life of a query, kept in the checkpoint."""
SHOWN = 10
"""Number of matches that are shown, the last ones."""
_APART = ("counts", "latency", "_last", "_rates")
"""Fields of a task's progress that JSON has in another form, or not at all."""
_LEAST = 1e-5
_PER_OCTAVE = 8
_BUCKETS = 28 * _PER_OCTAVE


class LatencyHistogram:
    """Counts of durations in buckets that grow by 9%: 10 µs to 40 minutes."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self.counts = np.zeros(_BUCKETS, np.int64)
        for bucket, count in (counts or {}).items():
            self.counts[int(bucket)] = count

    def add(self, seconds: float, times: int = 1) -> None:
        place = int(np.log2(max(seconds, _LEAST) / _LEAST) * _PER_OCTAVE)
        self.counts[min(place, _BUCKETS - 1)] += times

    def include(self, other: LatencyHistogram) -> None:
        self.counts += other.counts

    def percentile(self, share: float) -> float | None:
        """The duration that this share did not exceed, in seconds; None if nothing was counted."""
        total = int(self.counts.sum())
        if not total:
            return None
        place = int(np.searchsorted(np.cumsum(self.counts), share * total))
        return float(_LEAST * 2 ** ((min(place, _BUCKETS - 1) + 1) / _PER_OCTAVE))

    def as_dict(self) -> dict[str, int]:
        """The counts of buckets that are not empty, by number."""
        return {str(bucket): int(self.counts[bucket]) for bucket in np.flatnonzero(self.counts)}


@dataclass
class Progress:
    """The progress of one task.

    latency: of each match in this process, from the append of the step's first event until the match is readable.
    held_average, held_most: events in memory in this process, unmatched or held by the matcher.
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
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    _last: tuple[pa.Table, ...] = ()
    _rates: deque[tuple[float, int]] = field(default_factory=deque)

    def step(self, counters: Counters) -> None:
        for name in COUNTED:
            self.counts[name] += getattr(counters, name)
        self.steps += 1
        self.state_rows, self.waiting_events = counters.state_rows, counters.waiting_events
        self.live_keys, self.skipped_keys = counters.live_keys, counters.skipped_keys

    def show(self, matches: pa.Table) -> None:
        """Keep the last matches. Another thread may read them meanwhile."""
        last = [*self._last, matches.slice(max(0, matches.num_rows - SHOWN))]
        while sum(table.num_rows for table in last[1:]) >= SHOWN:
            last.pop(0)
        self._last = tuple(last)

    def as_dict(self) -> dict[str, Any]:
        """Return the progress for JSON; times of matches are texts."""
        now = time.time()
        self._rates.append((now, self.counts["events"]))
        while len(self._rates) > 2 and self._rates[0][0] < now - 5:
            self._rates.popleft()
        (begin, before), (end, after) = self._rates[0], self._rates[-1]
        percentiles = {f"p{int(share * 100)}": self.latency.percentile(share) for share in (0.5, 0.9, 0.99)}
        return {
            "time": now,
            "pid": os.getpid(),
            **self.counts,
            "events_per_second": 0.0 if end == begin else (after - before) / (end - begin),
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in _APART},
            "position": dict(self.position),
            "held_average": round(self.held_average, 1),
            "memory": resident_bytes(),
            "latency": {**percentiles, "buckets": self.latency.as_dict()},
            "last_matches": _rows(self._last),
        }


def _rows(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    rows = [row for table in tables for row in table.to_pylist()][-SHOWN:]
    plain = (bool, int, float, str, type(None))
    return [{name: value if isinstance(value, plain) else str(value) for name, value in row.items()} for row in rows]


def resident_bytes() -> int:
    """Memory of this process; 0 if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def write_progress(path: Path, progress: Mapping[str, Any]) -> None:
    """Replace the progress file of a task; readers see the old or the new one."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(progress), encoding="utf-8")
    os.replace(unfinished, path)


def read_progress(checkpoint: str, tasks: int) -> list[dict[str, Any]]:
    """Return the progress of a query's tasks, without those that have not written any yet."""
    found = []
    for task in range(tasks):
        try:
            found.append(json.loads(progress_path(checkpoint, task).read_bytes()))
        except FileNotFoundError:
            continue
    return found


def progress_path(checkpoint: str, task: int) -> Path:
    return Path(checkpoint) / "tasks" / str(task) / "progress.json"


ADDED = (
    *COUNTED,
    "steps",
    "snapshots",
    "state_rows",
    "waiting_events",
    "live_keys",
    "skipped_keys",
    "unprocessed",
    "held_average",
    "switches",
)
"""Keys of the tasks' progress that are added up."""
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def sum_progress(said: Sequence[Mapping[str, Any]], numeric_time: bool) -> dict[str, Any]:
    """Return the progress of a query from that of its tasks.

    unread: events that wait in the store, for all tasks. Each task counts those of all lanes after its own position, so
    the maximum is taken. latency: in milliseconds.
    """
    latency = LatencyHistogram()
    for one in said:
        latency.include(LatencyHistogram(one["latency"]["buckets"]))
    shares = {f"p{int(share * 100)}": latency.percentile(share) for share in (0.5, 0.9, 0.99)}
    marks = [one["watermark"] for one in said]
    unread = [one["unread"] for one in said if one["unread"] is not None]
    modes = {one["mode"] for one in said if one["mode"]}
    rate = sum(one["events_per_second"] for one in said)
    events = sum(one["events"] for one in said)
    matches = [match for one in sorted(said, key=lambda one: one["time"]) for match in one["last_matches"]]
    return {
        "numInputRows": events,
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "eventTime": {"watermark": format_watermark(min(marks), numeric_time)} if marks and None not in marks else {},
        **{name: sum(one.get(name, 0) for one in said) for name in ADDED},
        "unread": max(unread) if unread else None,
        "mode": modes.pop() if len(modes) == 1 else "mixed" if modes else "",
        "memory": sum(one["memory"] for one in said),
        "checkpoint_bytes": sum(one["checkpoint_bytes"] for one in said),
        "latency": {name: None if value is None else round(value * 1000, 3) for name, value in shares.items()},
        "last_matches": matches[-SHOWN:],
        "tasks": [{**one, "watermark": format_watermark(one["watermark"], numeric_time)} for one in said],
    }


def format_watermark(time: int | None, numeric: bool) -> str | int | None:
    """Format a watermark: a number, or a date and time."""
    if time is None or numeric:
        return time
    try:
        return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return time


_COUNTERS = {
    "events": "Events that were read.",
    "matches": "Matches that were found.",
    "late": "Events that came after the watermark.",
    "duplicates": "Repeated events.",
    "null_times": "Events without a time.",
    "after_end": "Events after the end of the stream.",
    "given_up": "Open matches that were given up.",
    "skipped": "Events of quarantined keys.",
    "switches": "Changes between push and pull.",
    "snapshots": "Snapshots that were taken.",
    "restarts": "Restarts of the job after a lost worker.",
}
_GAUGES = {
    "inputRowsPerSecond": ("events_per_second", "Events per second, of the last seconds."),
    "unprocessed": ("unprocessed_events", "Events that were read and are not matched yet."),
    "unread": ("unread_events", "Events that wait in the store."),
    "state_rows": ("state_rows", "Events held for open matches."),
    "live_keys": ("live_keys", "Keys with events that are held."),
    "skipped_keys": ("skipped_keys", "Keys that are quarantined because their data raised an error."),
    "memory": ("memory_bytes", "Memory of the workers."),
}


def prometheus_text(progress: Mapping[str, Any]) -> str:
    label = f'{{query="{_escape(str(progress.get("name") or progress.get("id") or ""))}"}}'
    lines: list[str] = []

    def add(name: str, kind: str, text: str, rows: list[tuple[str, Any]]) -> None:
        lines.extend([f"# HELP episode_live_{name} {text}", f"# TYPE episode_live_{name} {kind}"])
        lines.extend(f"episode_live_{name}{labels} {value}" for labels, value in rows if value is not None)

    for key, text in _COUNTERS.items():
        add(f"{key}_total", "counter", text, [(label, progress.get(key))])
    for key, (name, text) in _GAUGES.items():
        add(name, "gauge", text, [(label, progress.get(key))])
    add("active", "gauge", "Whether the query runs.", [(label, int(bool(progress.get("isActive"))))])
    shares = progress.get("latency") or {}
    quantiles = [
        (f'{label[:-1]},quantile="{int(name[1:]) / 100}"}}', None if value is None else value / 1000)
        for name, value in shares.items()
    ]
    add("latency_seconds", "summary", "From append to a match that can be read.", quantiles)
    tasks = progress.get("tasks") or []
    pushing = [(f'{label[:-1]},task="{one["task"]}"}}', int(one["mode"] == "push")) for one in tasks]
    add("pushing", "gauge", "Whether the task is pushed its input (else it pulls).", pushing)
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


class MetricsServer:
    """Serves the progress of a query at http://127.0.0.1:port/metrics."""

    def __init__(self, port: int, source: Callable[[], Mapping[str, Any]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path in ("/", "/metrics")
                body = prometheus_text(source()).encode() if found else b"metrics are at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        try:
            self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise EpisodeError(
                f"Metrics cannot be served at port {port}: {error.strerror or error}.",
                hint="Choose another port, or 0 for any that is free.",
            ) from None
        self.server.daemon_threads = True
        self.port: int = self.server.server_address[1]
        self._thread = Thread(target=self.server.serve_forever, name="episode metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
