"""Changes of a rule set that is at work: what is added, replaced and removed, as data that travel with the events."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from episode.errors import EpisodeDataError

FORMAT = 1


@dataclass(frozen=True)
class RuleChange:
    """One change of a rule set: a rule's text from now on; None: the rule is removed.

    number: changes are numbered in the order in which they were made; the number is the version of the rule, too.
    """

    number: int
    name: str
    text: str | None

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, ensure_ascii=False)

    @staticmethod
    def from_json(written: str) -> RuleChange:
        fields = json.loads(written)
        if fields.pop("format", None) != FORMAT:
            raise EpisodeDataError(
                f"A change of a rule is not of format {FORMAT}, which this version reads.",
                hint="Run it with the version that wrote the rule log.",
            )
        return RuleChange(**fields)


@dataclass(frozen=True)
class Effect:
    """When a change took effect: for events after this time, in units of event time (None: for all events).

    query: Spark's id of the streaming query. Every query that reads a rule log takes its changes in its own time.
    """

    number: int
    after: int | None
    query: str


@dataclass(frozen=True)
class Failure:
    """A rule that has failed on data of a shard. keys: the number of keys it is disabled for; until, reason: up to when
    the first of them was matched, and why it failed."""

    number: int
    name: str
    keys: int
    until: int
    reason: str
