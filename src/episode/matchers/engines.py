"""The matchers of all languages, for processes that are to find them loaded."""

from __future__ import annotations

from episode.matchers.correlation.spec import CorrelationSpec
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import MatcherSpec
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.rows.windows import WindowSpec
from episode.matchers.situations.spec import SituationPatternSpec

ENGINES: tuple[type[MatcherSpec], ...] = (
    RowPatternSpec,
    WindowSpec,
    EventPatternSpec,
    SituationPatternSpec,
    CorrelationSpec,
)


def load() -> None:
    """Load the compiler, too: with this module, all that a query needs in a process that matches."""
    from episode.native.llvm import identity

    identity()
