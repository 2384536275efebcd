"""Why a row pattern has no match at a place."""

from __future__ import annotations

from episode.queries.inspecting import Inspected
from episode.queries.reasons.finding import Asked, Finding


def reasons(inspected: Inspected, asked: Asked) -> tuple[Finding, ...]:
    """How far the attempts that begin at the asked place came, and what kept them from going on."""
    return (Finding("not yet", "Row patterns cannot be asked yet."),)
