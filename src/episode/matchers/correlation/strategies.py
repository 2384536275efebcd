"""Which strategies there are for two patterns, and why others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from episode.matchers.correlation.side import SideEvents
from episode.plan.correlation.plan import Strategy

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan


def unavailable(spec: CorrelationSpec) -> dict[Strategy, str]:
    """The strategies that cannot be used, each with the reason."""
    reasons = {Strategy.LIVE_FIRST: _not_live_first(spec), Strategy.ARCHIVE_FIRST: _not_archive_first(spec)}
    return {strategy: reason for strategy, reason in reasons.items() if reason is not None}


def _not_live_first(spec: CorrelationSpec) -> str | None:
    live, archive = spec.live.spec.traits, spec.archive.spec.traits
    if archive.dependent is not None:
        return f"the archive pattern must be evaluated as a whole: {archive.dependent}"
    if archive.by_end:
        return "the archive pattern reports matches by their ends, so that those of a region depend on rows before it"
    if not live.prompt:
        return "live matches may be reported after others that end later"
    if spec.closed:
        return "the archive is a table, which is read along with the stream"
    return _own_keys(spec, spec.archive)


def _not_archive_first(spec: CorrelationSpec) -> str | None:
    live, archive = spec.live.spec.traits, spec.archive.spec.traits
    if live.dependent is not None:
        return f"the live pattern must be evaluated as a whole: {live.dependent}"
    if not (live.by_end and live.prompt):
        return "the live pattern does not report the longest match of each end as soon as that row is there"
    if live.longest is None and live.within is None and not live.walls:
        return (
            "nothing says how far before a row a live match that ends there may start: there is no WITHIN, the pattern "
            "is not bounded, and a label after the first has no condition on its row alone"
        )
    if not archive.by_start:
        return "archive matches may be reported after others that start later"
    return _own_keys(spec, spec.live)


def _own_keys(spec: CorrelationSpec, side: SidePlan) -> str | None:
    if SideEvents(spec, side, 0).shared:
        return None
    return "its partitions or its order are not those of the correlation"
