"""What all tasks of a live query say together: counts and rates added up, latencies of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

from episode.live.progress import COUNTED, Histogram

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
"""What tasks say that is added up."""
SHOWN = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def summed(said: Sequence[Mapping[str, Any]], numeric_time: bool) -> dict[str, Any]:
    """The progress of a query from that of its tasks; what has not been said yet counts nothing.

    unread: events that wait in the store, of all tasks: each task counts those of all lanes after its own position, so
    the most that one of them says. latency: in milliseconds.
    """
    latency = Histogram()
    for one in said:
        latency.include(Histogram(one["latency"]["buckets"]))
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
        "eventTime": {"watermark": shown_time(min(marks), numeric_time)} if marks and None not in marks else {},
        **{name: sum(one.get(name, 0) for one in said) for name in ADDED},
        "unread": max(unread) if unread else None,
        "mode": modes.pop() if len(modes) == 1 else "mixed" if modes else "",
        "memory": sum(one["memory"] for one in said),
        "checkpoint_bytes": sum(one["checkpoint_bytes"] for one in said),
        "latency": {name: None if value is None else round(value * 1000, 3) for name, value in shares.items()},
        "last_matches": matches[-SHOWN:],
        "tasks": [{**one, "watermark": shown_time(one["watermark"], numeric_time)} for one in said],
    }


def shown_time(time: int | None, numeric: bool) -> str | int | None:
    """A watermark as it is shown: a number, or a moment of the clock."""
    if time is None or numeric:
        return time
    try:
        return (_EPOCH + timedelta(microseconds=time)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return time
