"""Correlations in slices of time: a slice owns the pairs whose live matches end in it.

Both patterns are matched over the slice with its overlap, as over a table of its own. Near the ends of that stretch of
time they may find what is no match of the whole input; the overlap is so long that no such match is part of a pair that
the slice owns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.matchers.correlation.side import SideEvents
from episode.matchers.slicing import Overlap, Sliceable, Slicing, Unsliced

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan


@dataclass(frozen=True)
class RegionSurroundings:
    """What a match of one pattern depends on: events less than `time` before its start or after it, and so many rows
    before and after these. No match lasts longer than `time`."""

    time: int
    before_rows: int
    after_rows: int


def correlation_slicing(spec: CorrelationSpec) -> Slicing | Unsliced:
    """A live match of an owned pair ends in the slice; its archive match starts at most the recency before, and before
    the slice is over."""
    if spec.history is not None:
        return Unsliced("events from before the stream are read from its archive")
    if spec.plan.ordered:
        return Unsliced("pairs of a key come in order")
    live, archive = _surroundings(spec, spec.live), _surroundings(spec, spec.archive)
    for name, side in (("live", live), ("archive", archive)):
        if isinstance(side, str):
            return Unsliced(f"of the {name} pattern: {side}")
    assert not isinstance(live, str)
    assert not isinstance(archive, str)
    return Slicing(
        Overlap(
            before_time=max(2 * live.time, spec.recency + archive.time),
            before_rows=max(live.before_rows, archive.before_rows),
            after_time=max(live.time, archive.time),
            after_rows=max(live.after_rows, archive.after_rows),
        )
    )


def _surroundings(spec: CorrelationSpec, side: SidePlan) -> RegionSurroundings | str:
    """Of one pattern; or why it is not known."""
    order = side.spec.input_order
    if not isinstance(side.spec, Sliceable):
        return "its language does not say on which events a match depends"
    slicing = side.spec.slicing
    if isinstance(slicing, Unsliced):
        return slicing.reason
    if slicing.chained:
        return side.spec.traits.dependent or "a match depends on the matches before it"
    if order.imprecise:
        return "its times are imprecise"
    if dict(side.columns)[order.order[0].column] != spec.time:
        return "it has a time of its own"
    overlap = slicing.overlap
    time = max(overlap.before_time + overlap.after_time, side.spec.traits.within or 0)
    if time == 0:
        return "without WITHIN nothing says how long a match lasts"
    mixed = spec.side is not None or not SideEvents(spec, side, 0).shared
    if mixed and overlap.before_rows + overlap.after_rows > 0:
        return "a match depends on a number of rows of its own partition, among which there are others"
    return RegionSurroundings(time, overlap.before_rows, overlap.after_rows)
