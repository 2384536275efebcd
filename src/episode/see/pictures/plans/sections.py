"""The section of each pattern of a query, by the kind of its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episode.plan.events.aggregated import AggregatedPlan
from episode.plan.events.plan import EventPlan
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.situations.plan import SituationPlan
from episode.queries.explaining import ExplainedPattern
from episode.queries.languages import language_of
from episode.see.pictures.plans.aggregated import aggregated_section
from episode.see.pictures.plans.blocks import Section
from episode.see.pictures.plans.correlation import correlation_section
from episode.see.pictures.plans.events import event_section
from episode.see.pictures.plans.rows import row_section
from episode.see.pictures.plans.situations import situation_section


def sections_of(patterns: Sequence[ExplainedPattern], text: str = "") -> list[Section]:
    """A section for each pattern; where there is none, one that says so."""
    return [section_of(one) for one in patterns] or [Section(text, (), text)]


def section_of(explained: ExplainedPattern) -> Section:
    """The section of one pattern."""
    plan: Any = explained.pattern
    if isinstance(plan, RowPatternPlan):
        return row_section(explained, plan)
    if isinstance(plan, EventPlan):
        return event_section(explained, plan)
    if isinstance(plan, AggregatedPlan):
        return aggregated_section(explained, plan)
    if isinstance(plan, SituationPlan):
        return situation_section(explained, plan)
    sides = [
        section_of(ExplainedPattern(query, side, tuple(language_of(query).explain(side))))
        for query, side in ((explained.query.live, plan.live), (explained.query.archive, plan.archive))
    ]
    return correlation_section(explained, plan.plan, sides)
