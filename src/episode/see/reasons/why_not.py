"""`why_not`: what keeps a pattern from matching at a place, asked of the language that the pattern is written in.

See decision 157.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.lang.syntax import Source
from episode.queries.language import ARCHIVE, LIVE
from episode.queries.origins import PlacedPattern, QueryOrigin
from episode.see.inspecting import Inspected, patterns_at
from episode.see.reasons.finding import Expectation, Finding, earlier, plain, time_value


@dataclass(frozen=True)
class Answer:
    """Findings on one pattern. role: 'live' or 'archive', of two that are correlated."""

    language: str
    role: str | None
    source: Source
    asked: Expectation
    findings: tuple[Finding, ...]

    @property
    def title(self) -> str:
        """The pattern and the place, in words."""
        what = f"{self.language}, {self.role}" if self.role else self.language
        key = ", ".join(f"{name} = {plain(value)}" for name, value in self.asked.key.items())
        return f"{what[0].upper()}{what[1:]}{f' with {key}' if key else ''}{self._place}:"

    @property
    def _place(self) -> str:
        first, last = self.asked.first, self.asked.last
        if first is None and last is None:
            return ""
        if first == last:
            return f" at {plain(first)}"
        if last is None:
            return f" from {plain(first)} on"
        return f" up to {plain(last)}" if first is None else f" between {plain(first)} and {plain(last)}"

    def to_dict(self) -> dict[str, object]:
        return {
            "language": self.language,
            "role": self.role,
            "key": {name: plain(value) for name, value in self.asked.key.items()},
            "first": plain(self.asked.first),
            "last": plain(self.asked.last),
            "findings": [one.to_dict(self.source) for one in self.findings],
        }


@dataclass(frozen=True)
class WhyNot:
    """The answers of a question: one, or one for each of two correlated patterns. `str` shows them with their places in
    the query; a notebook shows them as HTML."""

    answers: tuple[Answer, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of all answers, the most telling ones first."""
        return tuple(finding for answer in self.answers for finding in answer.findings)

    def to_dict(self) -> dict[str, object]:
        return {"answers": [answer.to_dict() for answer in self.answers]}

    def __str__(self) -> str:
        parts = []
        for answer in self.answers:
            parts += [answer.title, *(one.text(answer.source) for one in answer.findings)]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = []
        for answer in self.answers:
            items = "".join(one.html(answer.source) for one in answer.findings)
            parts.append(f"<div class='episode-why-not'><p>{escape(answer.title)}</p><ul>{items}</ul></div>")
        return "".join(parts)


def why_not(origin: QueryOrigin, of: object, at: object, between: object, number: int | None) -> WhyNot:
    """Ask one pattern of a query, or both patterns of a correlation."""
    placed = origin.pattern(number)
    answers = []
    for role, one in _sides(placed):
        key = of
        if role is not None and isinstance(of, Mapping) and set(of) == {LIVE, ARCHIVE}:
            key = of[role]  # keys are given for both sides of a correlation
        asked = _expectation(one, key, at, between)
        if role == ARCHIVE and asked.first is not None:
            asked = replace(asked, first=earlier(asked.first, placed.query.duration.amount))
        language = one.placed.language
        answers.append(Answer(language.name, role, one.placed.source, asked, language.reasons(one, asked)))
    return WhyNot(tuple(answers))


def _sides(placed: PlacedPattern) -> list[tuple[str | None, Inspected]]:
    """Return the pattern; or both patterns of a correlation, each as if it were alone, and their roles."""
    sides: list[tuple[str | None, Inspected]] = []
    for (role, query), one in zip(placed.language.sides(placed.query), patterns_at(placed), strict=True):
        events: Any = (one.events,)
        sides.append((role, replace(one, placed=replace(placed, query=query, events=events))))
    return sides


def _expectation(one: Inspected, key: object, at: object, between: object) -> Expectation:
    if key is None and one.keys:
        names = ", ".join(f"{name!r}: …" for name in one.keys)
        hint = f"Write of={{{names}}}. A null key has the value None."
        raise EpisodeAnalysisError(f"Which key? The events are partitioned by {', '.join(one.keys)}.", hint=hint)
    if at is not None and between is not None:
        raise EpisodeAnalysisError("at= and between= are both given.", hint="Give one of them.")
    bounds: Any = (at, at) if between is None else between
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise EpisodeAnalysisError(
            f"between={between!r}: two times are needed.", hint="Write between=(first, last); None: no bound."
        )
    name = "at" if between is None else "between"
    if one.time is None:
        if bounds[0] is not None or bounds[1] is not None:
            raise EpisodeAnalysisError(f"{name}={bounds[0]!r}: the events of this pattern have no order of time.")
        return Expectation(one.key_of(key), None, None)
    type_ = one.plan.types[one.time]
    first, last = (
        None if value is None else time_value(name, value, one.time, type_, one.source.zone) for value in bounds
    )
    if first is not None and last is not None and last < first:
        raise EpisodeAnalysisError(f"between={between!r}: the last time comes before the first.")
    return Expectation(one.key_of(key), first, last)
