"""The figures of a live query as a text that Prometheus reads, at http://127.0.0.1:port/metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from episode.errors import EpisodeError

_COUNTERS = {
    "events": "Events that were read.",
    "matches": "Matches that were found.",
    "late": "Events that came after the watermark.",
    "duplicates": "Repeated events.",
    "null_times": "Events without a time.",
    "after_end": "Events after the end of the stream.",
    "given_up": "Open matches that were given up.",
    "skipped": "Events of keys that are set aside.",
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
    "skipped_keys": ("skipped_keys", "Keys that are set aside, as their data raised an error."),
    "memory": ("memory_bytes", "Memory of the workers."),
}


def exposed(progress: Mapping[str, Any]) -> str:
    """A progress in the text format of Prometheus."""
    label = f'{{query="{_escaped(str(progress.get("name") or progress.get("id") or ""))}"}}'
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


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


class MetricsServer:
    """Serves what `source` says of a query, on this machine only."""

    def __init__(self, port: int, source: Callable[[], Mapping[str, Any]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path in ("/", "/metrics")
                body = exposed(source()).encode() if found else b"metrics are at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing on the screen."""

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
