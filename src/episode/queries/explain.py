"""Planned patterns in words."""

from __future__ import annotations

from typing import Any

from episode.plan.events.explain import explain_event_pattern
from episode.plan.rows.explain import explain_row_pattern
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.situations.explain import explain_situation_pattern
from episode.plan.situations.plan import SituationPlan


def explain_planned(planned: Any) -> list[str]:
    """Lines on a planned pattern: its plan, and why it runs as it does."""
    return [*_words(planned.plan), *(f"  {reason}" for reason in planned.reasons)]


def _words(plan: Any) -> list[str]:
    if isinstance(plan, RowPatternPlan):
        return explain_row_pattern(plan)
    return explain_situation_pattern(plan) if isinstance(plan, SituationPlan) else explain_event_pattern(plan)
