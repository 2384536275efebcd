"""What `explain` knows of one pattern of a query: its plan in words and as data, and what a run of it has shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.matchers.code.listing import code_lines
from episode.plan.correlation.pairs import PairPlan
from episode.plan.pattern import PatternPlan
from episode.queries.language import Language
from episode.queries.languages import language_of
from episode.queries.origins import PlacedPattern

TEXT, HTML, SVG, NATIVE = "text", "html", "svg", "native"
FORMATS = (TEXT, HTML, SVG, NATIVE)


@dataclass(frozen=True)
class ExplainedPattern:
    """One pattern. query: as it was parsed. lines: its plan in words. reasons: why it runs as it does (scan, shards).

    reports: what the matchers of a run did (JSON), if it was run; seconds: how long the whole run took. code: the code
    that it is compiled to, if that is asked for.
    """

    query: Any
    pattern: PatternPlan | PairPlan
    lines: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    reports: tuple[str, ...] | None = None
    seconds: float | None = None
    code: tuple[str, ...] = ()

    @property
    def language(self) -> Language[Any]:
        return language_of(self.query)


def explained(placed: PlacedPattern, analyze: bool, format: str = TEXT) -> ExplainedPattern:
    """A planned pattern, as `explain` shows it. analyze: run it, or compile it for the format NATIVE."""
    planned, language = placed.planned, placed.language
    reasons = tuple(planned.reasons)
    words = (*language.explain(planned.pattern), *(f"  {reason}" for reason in reasons))
    found = ExplainedPattern(placed.query, planned.pattern, words, reasons)
    if format == NATIVE:
        return replace(found, code=tuple(code_lines(planned.run.spec, analyze)))
    if not analyze:
        return found
    done = planned.analyzed()
    lines = (
        *found.lines,
        f"  analyzed: the whole run, with its scan and its shuffle, took {done.seconds:,.2f} s",
        *language.explain_reports(planned.pattern, list(done.reports)),
    )
    return ExplainedPattern(found.query, found.pattern, lines, found.reasons, done.reports, done.seconds)


def text_of_all(patterns: Iterable[ExplainedPattern]) -> str:
    """The plans of a query in words, or the code of its patterns."""
    return "\n\n".join("\n".join((one.lines[0], *one.code) if one.code else one.lines) for one in patterns)


def check_format(given: object) -> str:
    """The format that is asked for, or an error that says which there are."""
    if given not in FORMATS:
        raise EpisodeAnalysisError(
            f"format={given!r}: there is no such format of a plan.", hint=f"There are: {', '.join(FORMATS)}."
        )
    return str(given)
