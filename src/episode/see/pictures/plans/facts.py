"""Facts that plans of all languages have: why a run is as it is, and how long it took."""

from __future__ import annotations

from episode.queries.explaining import ExplainedPattern


def reason_facts(explained: ExplainedPattern) -> list[tuple[str, str]]:
    """Scan, shards, and what else says why it runs as it does."""
    found = []
    for reason in explained.reasons:
        name, colon, what = reason.partition(": ")
        found.append((name, what) if colon else ("run", reason))
    return found


def run_facts(explained: ExplainedPattern) -> list[tuple[str, str]]:
    """How long a run for the analysis took."""
    if explained.seconds is None:
        return []
    return [("whole run", f"{explained.seconds:,.2f} s, with its scan and its shuffle")]
