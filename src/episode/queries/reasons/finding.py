"""What keeps a match from being, said once for all languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from episode.lang.source import Source
from episode.lang.syntax import Span
from episode.queries.reasons.plain import plain


@dataclass(frozen=True)
class Asked:
    """The place that a question is about: a key, and the times between which a match was expected to begin (rows and
    events), or to be (situations); both included, in values of the time column; None: no bound. One time alone is
    both."""

    key: Mapping[str, object]
    first: Any
    last: Any


@dataclass(frozen=True)
class Finding:
    """One answer.

    kind: what it is, one of few words ('condition', 'end of rows', 'skipped', 'window', 'found', 'missing' …).
    message: in one sentence. span: the place in the query's text that it is about, if it is about one.
    at: the time of the event that it speaks of. values: what the columns that matter had there, by how the query names
    them. count: of how many attempts, events or candidates it is true.
    data: further values by name, for programs.
    """

    kind: str
    message: str
    span: Span | None = None
    at: Any = None
    values: Mapping[str, object] = field(default_factory=dict)
    count: int | None = None
    data: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self, source: Source) -> dict[str, object]:
        """Ready to be written as JSON. source: the text that the span is in."""
        span = self.span
        return {
            "kind": self.kind,
            "message": self.message,
            "span": None if span is None else [span.start, span.end],
            "text": None if span is None else source.written(span),
            "at": plain(self.at),
            "values": plain(self.values),
            "count": self.count,
            "data": plain(self.data),
        }
