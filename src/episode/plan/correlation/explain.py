"""A correlation in words: which rows it reads, what is equal, how it is evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from episode.plan.correlation.inputs import JointInput
from episode.plan.correlation.plan import CorrelationPlan

STRATEGIES = {
    None: "chosen by cost while running",
    "eager": "eager: all matches of both patterns",
    "live first": "live first: matches of the archive that live ones ask for",
    "archive first": "archive first: live matches that those of the archive ask for",
}


def explain_correlation(
    plan: CorrelationPlan, inputs: JointInput, recency: str, inside: Sequence[str] = (), after: Sequence[str] = ()
) -> list[str]:
    """Lines for one correlation, without its two patterns. recency: as written; inside, after: conditions over pairs
    that are tested in the join, and after it."""
    strategy = None if plan.strategy is None else plan.strategy.value
    rows = "every row is an event of both patterns" if inputs.shared else "rows of two inputs, each of one pattern"
    keys = ", ".join(inputs.keys) or "none: matches of all partitions are joined in one place"
    buffer = "as recency needs" if plan.recent_buffer is None else f"{plan.recent_buffer:,} rows of a key"
    return [
        f"Correlation: RECENCY {recency}{', ORDERED' if plan.ordered else ''}",
        f"  input: {rows}; event time {inputs.time}",
        f"  equal in both: {keys}",
        *([f"  tested in the join: {' AND '.join(inside)}"] if inside else []),
        *([f"  tested after the join: {' AND '.join(after)}"] if after else []),
        f"  strategy: {STRATEGIES[strategy]}",
        f"  result cache: {'on' if plan.result_cache else 'off'}; recent buffer: {buffer}",
    ]
