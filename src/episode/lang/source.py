"""The text of a query and the places in it that errors speak of, for all languages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from episode.errors import EpisodeError
from episode.lang.syntax import NOWHERE, Span

Kind = TypeVar("Kind", bound=EpisodeError)


@dataclass(frozen=True)
class Source:
    """span: the whole query or clause inside the text. pattern: what stands in its PATTERN."""

    text: str = ""
    span: Span = NOWHERE
    pattern: Span = NOWHERE

    def written(self, span: Span) -> str:
        """What the user wrote at a place."""
        return self.text[span.start : span.end]

    def error(self, kind: type[Kind], message: str, span: Span | None = None, hint: str | None = None) -> Kind:
        """An error of a kind that shows its place, by default where the query begins."""
        place = self.span.beginning if span is None else span
        return kind(message, source=self.text, position=place.start, length=place.end - place.start, hint=hint)

    def locate(self, error: Kind, span: Span) -> Kind:
        """Let an error show a place."""
        error.source, error.position, error.length = self.text, span.start, max(1, span.end - span.start)
        return error
