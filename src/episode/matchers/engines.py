"""From a planned pattern to the spec of its matchers, whatever its language."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.plan.correlation.pairs import PairPlan
    from episode.plan.pattern import PatternPlan

ENGINES: dict[type, Callable[[Any, pa.Schema, StateLimit | None], MatcherSpec]] = {}
"""Makers of specs, by the class of the plan: each language registers its own (`queries.languages.register`)."""


def matcher_spec(plan: PatternPlan | PairPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
    """Return what workers open matchers from, for an Arrow schema. limit: of the rows held for a key."""
    return ENGINES[type(plan)](plan, schema, limit)


def load_matchers() -> None:
    """Load the matchers of all languages."""
    import episode.matchers.correlation.spec
    import episode.matchers.events.spec
    import episode.matchers.rows.spec
    import episode.matchers.rows.windows
    import episode.matchers.situations.spec  # noqa: F401


def load() -> None:
    """Load the matchers and the compiler: all that a query needs in a process that matches."""
    from episode.native.llvm import identity

    load_matchers()
    identity()
