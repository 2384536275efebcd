"""Constants that tests know: round numbers, nothing of any machine."""

from __future__ import annotations

from episode.sizing.constants import UNITS, Constants, MeasuredConstant
from episode.sizing.profile import ROWS, QueryProfile, assumed_profile

VALUES = {
    "scan": 0.5,
    "pack": 40.0,
    "order": 30.0,
    "match_rows": 60.0,
    "match_events": 100.0,
    "match_situations": 20.0,
    "row_bytes": 20.0,
    "envelope_bytes": 10.0,
    "wire_share": 0.5,
    "matches": 0.1,
    "spark_row": 10.0,
    "moved_row": 20.0,
    "transport": 3.0,
    "hand_over": 100.0,
    "write": 100.0,
    "jvm_row": 200.0,
    "session": 5.0,
    "query": 0.4,
    "query_cores": 1.0,
    "commit": 0.1,
    "task": 0.01,
    "dispatch": 0.001,
    "busy_slot": 1.25,
    "contention": 1.2,
    "batch_floor": 0.6,
    "batch_event": 500.0,
    "live_event": 100.0,
    "live_median": 0.015,
    "live_99": 0.05,
    "snapshot": 0.5,
    "state_bytes": 40.0,
    "worker": 400 * 2.0**20,
    "worker_factor": 4.0,
    "state_factor": 2.0,
    "heap": 2.0**30,
    "heap_core": 2.0**29,
    "network": 1.25e9,
    "restart": 10.0,
    "reference_scan": 20.0,
    "reference_pack": 40.0,
    "reference_order": 30.0,
    "reference_match": 60.0,
}
ASSUMED = ("dispatch", "network")


def constants(**changed: float) -> Constants:
    """All constants, some of them changed."""
    values = {**VALUES, **changed}
    return Constants(
        {
            name: MeasuredConstant(
                value,
                UNITS.get(name, "ns/row"),
                "assumed: a round number" if name in ASSUMED else "a round number",
                "a machine of tests",
                "2026-01-01",
            )
            for name, value in values.items()
        }
    )


def profile(language: str = ROWS) -> QueryProfile:
    return assumed_profile(language, constants(), "for tests")
