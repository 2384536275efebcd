"""Findings as a person reads them: text with carets into the query, and HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from episode.errors import place_of
from episode.lang.source import Source
from episode.queries.reasons.finding import Finding


def text_of_finding(finding: Finding, source: Source) -> str:
    """The sentence, and where in the query it is about."""
    lines = [finding.message]
    if finding.span is not None:
        lines += place_of(source.text, finding.span.start, finding.span.end - finding.span.start)
    return "\n".join(lines)


def html_of(title: str, findings: Sequence[Finding], source: Source) -> str:
    """A list of findings, each with its place in the query marked."""
    items = []
    for finding in findings:
        shown = ""
        if finding.span is not None:
            lines = place_of(source.text, finding.span.start, finding.span.end - finding.span.start)
            shown = f"<pre style='margin:0.3em 0 0.8em 1em'>{html.escape(chr(10).join(lines))}</pre>"
        items.append(f"<li><b>{html.escape(finding.kind)}</b>: {html.escape(finding.message)}{shown}</li>")
    return f"<div class='episode-why-not'><p>{html.escape(title)}</p><ul>{''.join(items)}</ul></div>"
