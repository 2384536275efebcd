"""The patterns of a query as `explain` shows them: the section of each, with what a run of it did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError
from episode.matchers.code.listing import code_lines
from episode.plan.sections import Section, fact, lines_of
from episode.queries.origins import PlacedPattern

TEXT, HTML, SVG, NATIVE = "text", "html", "svg", "native"
FORMATS = (TEXT, HTML, SVG, NATIVE)


@dataclass(frozen=True)
class ExplainedPattern:
    """One pattern. code: what it is compiled to, for the format NATIVE."""

    section: Section
    code: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        return [self.section.title, *self.code] if self.code else lines_of(self.section)


def explain_pattern(placed: PlacedPattern, analyze: bool, format: str = TEXT) -> ExplainedPattern:
    """Build the section of a planned pattern. analyze: run it, or compile it for the format NATIVE."""
    planned = placed.planned
    done = planned.analyze() if analyze and format != NATIVE else None
    section = placed.language.section(planned.pattern, None if done is None else done.reports, placed.query)
    reasons = [reason.partition(": ") for reason in planned.reasons]  # why it runs as it does: scan, shards
    facts = [fact(name, what) if colon else fact("run", name, "{}") for name, colon, what in reasons]
    section = replace(section, blocks=(*section.blocks, *facts))
    if format == NATIVE:
        return ExplainedPattern(section, tuple(code_lines(planned.run.spec, analyze)))
    if done is not None:
        took = f"the whole run, with its scan and its shuffle, took {done.seconds:,.2f} s"
        section = replace(section, run=(fact("analyzed", took), *section.run))
    return ExplainedPattern(section)


def text_of_all(patterns: Iterable[ExplainedPattern]) -> str:
    """Render the plans of a query as text, or the code of its patterns."""
    return "\n\n".join("\n".join(one.lines) for one in patterns)


def check_format(given: object) -> str:
    if given not in FORMATS:
        hint = f"There are: {', '.join(FORMATS)}."
        raise EpisodeAnalysisError(f"format={given!r}: there is no such format of a plan.", hint=hint)
    return str(given)
