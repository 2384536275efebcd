"""The matches of a set of rules, whichever executor finds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.queries.rules.binding import BoundRule
from episode.queries.rules.explain import explain_rules

if TYPE_CHECKING:
    from episode.matchers.rules.spec import RuleSetSpec

Plan = tuple[Sequence[BoundRule], Sequence["RuleSetSpec"], Sequence[str]]
"""Rules, the groups in which they are matched, and how their input is read."""


class RuleMatches(ABC):
    """The matches of a set of rules. Executors: `TableMatches` and `StreamMatches` on Spark, `LocalMatches` in this
    process."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The rules, in order."""

    @abstractmethod
    def _of(self, rule: str) -> Any:
        """Return the matches of a rule of the set."""

    @abstractmethod
    def _plan(self) -> Plan:
        """Return what `explain` shows."""

    def of(self, rule: str) -> Any:
        """Return the matches of one rule, typed as the rule alone gives them."""
        if rule not in self.names:
            raise _no_rule(rule, self.names)
        return self._of(rule)

    def explain(self) -> str:
        """Return what the rules share, and how each is evaluated."""
        return "\n".join(explain_rules(*self._plan()))


def _no_rule(name: object, names: Sequence[str]) -> EpisodeAnalysisError:
    """Return the error for a rule that is not in the set."""
    guess = closest(name, names) if isinstance(name, str) else None
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return EpisodeAnalysisError(
        f"There is no rule {name}.", hint=f"Did you mean {guess}?" if guess else f"Rules: {shown}."
    )
