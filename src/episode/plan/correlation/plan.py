"""How two patterns are correlated by recency: which of them is evaluated first, and what is remembered of the other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from episode.errors import EpisodeAnalysisError

LIVE_PREFIX, ARCHIVE_PREFIX = "__live_", "__archive_"
"""Before the names of columns of a pair: whose they are."""


class Strategy(Enum):
    """Which matches are computed (PCQ, sections 3.2, 3.3 and 4.4).

    EAGER: all of both patterns. LIVE_FIRST: all live ones, and those of the archive that they ask for. ARCHIVE_FIRST:
    all of the archive, and the live ones that they ask for.
    """

    EAGER = "eager"
    LIVE_FIRST = "live first"
    ARCHIVE_FIRST = "archive first"


@dataclass(frozen=True)
class CorrelationPlan:
    """What the user asks of the evaluation. The rows of the result are the same for all of them.

    strategy: None: chosen by cost while running, between rounds. result_cache: are matches of the pattern that is
    evaluated second remembered for further matches of the first (PCQ, section 4.3)? Without it each match has its
    region computed from scratch. recent_buffer: rows of a key that the recent buffer holds (section 4.2); None: as many
    as the recency needs. ordered: do the pairs of a key come in order of their start, then of their end?
    """

    strategy: Strategy | None = None
    result_cache: bool = True
    recent_buffer: int | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        if self.ordered and not self.result_cache:
            raise EpisodeAnalysisError(
                "Pairs in order need the result cache: a pair is held back until none can come before it.",
                hint="Leave ORDERED out, or result_cache=False.",
            )
