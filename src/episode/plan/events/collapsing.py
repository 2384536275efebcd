"""Collapsed results: what is asked of them, and which patterns have none."""

from __future__ import annotations

from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import Closure, EventPattern, EventQuery, Negation, Strategy, nodes_of
from episode.plan.events.conditions import Conjunct
from episode.plan.events.postponed import AUTO, Parted, reason_for_runs
from episode.plan.events.returns import COUNTED

PLAIN = "Ask for the matches themselves: leave COLLAPSED, or results='collapsed', out."


@dataclass(frozen=True)
class Collapsed:
    """What is asked of results. asked: are they intermediate matches? exact: are the final ones counted exactly?"""

    asked: bool = False
    exact: bool = True


def check_collapsed(query: EventQuery, pattern: EventPattern, strategy: Strategy, closure: str) -> None:
    """Intermediate matches are those of closures of SEQ under skip-till-any-match."""
    place = query.collapsed or query.source.pattern
    if strategy is not Strategy.ANY:
        raise query.source.error(
            EpisodeUnsupportedError,
            f"Results are collapsed under skip-till-any-match, not under {strategy.value}.",
            place,
            "Leave COLLAPSED out: each run gives one match.",
        )
    if closure != AUTO:
        raise query.source.error(
            EpisodeAnalysisError,
            f"Collapsed results are made by pattern matching alone; Options(closure={closure!r}) says how choices are "
            "made.",
            place,
            "Leave one of the two out.",
        )
    if not any(isinstance(node, Closure) and not node.groups for node in nodes_of(pattern)):
        raise query.source.error(
            EpisodeAnalysisError,
            "There is nothing to collapse: the pattern has no closure that chooses its events.",
            place,
            "Closures inside SEQ choose: SEQ(A a, B+ b[], C c).",
        )
    reason = reason_for_runs(pattern, whole=True)
    if reason is not None:
        raise query.source.error(
            EpisodeUnsupportedError, f"The results cannot be collapsed: {reason}.", query.source.pattern, PLAIN
        )


def check_parted(query: EventQuery, parted: Parted, kept: list[Conjunct], closures: frozenset[str]) -> None:
    """Nothing may depend on the choice that is not counted with."""
    for node in nodes_of(parted.constructing):
        if isinstance(node, Negation):
            raise query.source.error(
                EpisodeUnsupportedError,
                "The results cannot be collapsed: whether this negation holds depends on which events are chosen.",
                node.span,
                PLAIN,
            )
    for conjunct in kept:
        if conjunct.variables & closures:
            raise query.source.error(
                EpisodeUnsupportedError,
                "The results cannot be collapsed: Spark evaluates this condition on finished matches.",
                conjunct.scalar.span,
                PLAIN,
            )
    names = [item.name for item in query.returns or ()]
    if COUNTED in (name.lower() for name in names):
        item = next(one for one in query.returns or () if one.name.lower() == COUNTED)
        raise query.source.error(
            EpisodeAnalysisError,
            f"A column of collapsed results cannot be called {item.name}.",
            item.span,
            "matches is added to them; choose another name with AS.",
        )
