"""A report as one HTML page: no script, nothing taken from elsewhere, every value escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.see.reports.data import Report
from episode.see.reports.gathering import gather
from episode.see.reports.sections import (
    ReportSection,
    input_section,
    matches_section,
    pictures_section,
    plan_section,
    tiles,
)
from episode.see.reports.tables import highlight, result_table, timings_table
from episode.words import count_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Policy for the browser: the page may use its own style, and the pictures that are in it."""


def page_of(report: Report) -> str:
    """The whole file."""
    sections = _sections(report)
    links = "".join(f'<a href="#{section.anchor}">{escape(section.short)}</a>' for section in sections)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        f'<meta name="generator" content="episode {escape(report.version)}">',
        f'<link rel="icon" href="{_icon()}">',
        f"<title>{escape(report.title)}</title>",
        f"<style>{(files('episode.see.reports') / 'report.css').read_text(encoding='utf-8')}</style></head><body>",
        f"<header><div><h1>{escape(report.title)}</h1>",
        f'<p class="soft small">Written {report.written:%Y-%m-%d %H:%M} UTC by episode {escape(report.version)}, '
        f"{escape(report.session)}.</p>",
        f'<nav aria-label="Sections">{links}</nav></div></header><main>',
        tiles(report),
        *(f'<section id="{one.anchor}"><h2>{escape(one.title)}</h2>{one.body}</section>' for one in sections),
        "<footer>This file is complete: it opens without a network, and holds the rows that are shown in it and no "
        "others.</footer></main></body></html>",
    ]
    return "\n".join(parts)


def _sections(report: Report) -> list[ReportSection]:
    labels = [label for pattern in report.patterns for label in pattern.labels]
    found = [ReportSection("query", "The query", "Query", _query(report, labels))]
    several = len(report.patterns) > 1
    for number, pattern in enumerate(report.patterns, start=1):
        found += matches_section(pattern, number if several else None, report.result.rows)
        found += pictures_section(pattern, number if several else None)
    found.append(ReportSection("result", "The result", "Result", _result(report)))
    found.append(input_section(report.patterns))
    found.append(plan_section(report.patterns))
    found.append(ReportSection("timings", "Timings", "Timings", timings_table(report)))
    return found


def _query(report: Report, labels: list[str]) -> str:
    body = f'<div class="card"><pre>{highlight(report.query.strip(), labels)}</pre></div>'
    if not report.arguments:
        return body
    given = ", ".join(f":{name} = {value!r}" for name, value in report.arguments.items())
    return f'{body}<p class="small">Parameters: <code>{escape(given)}</code></p>'


def _result(report: Report) -> str:
    result = report.result
    shown = len(result.first)
    words = count_of(result.rows, "row")
    if shown < result.rows:
        words = f"The first {shown:,} of {words}."
    else:
        words = "No row." if not result.rows else f"{words}."
    return f"<p>{words}</p>" + (f'<div class="card scroll">{result_table(result)}</div>' if shown else "")


def _icon() -> str:
    """A small picture for the browser's tab, so that it does not ask for one."""
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M1 4l4 8 3-6 3 6 4-8" fill="none" '
        'stroke="#2f5fb3" stroke-width="2"/></svg>'
    )
    return f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"


# Where reports are written.


def checked_path(path: str | PathLike[str]) -> Path:
    """Check that a file can be written, before the work begins, and return its path."""
    if not isinstance(path, (str, PathLike)):
        raise EpisodeAnalysisError(
            f"path={path!r}: the path of a file is needed.", hint="Write for example 'out.html'."
        )
    target = Path(path)
    if target.is_dir():
        raise EpisodeAnalysisError(f"{target} is a directory.", hint=f"Write for example {target / 'report.html'}.")
    if not target.parent.is_dir():
        raise EpisodeAnalysisError(f"There is no directory {target.parent}.", hint="Make it, or choose another path.")
    return target


# `episode.report`: gathers, and writes the file.


def write_report(
    result: DataFrame,
    path: str | PathLike[str],
    title: str | None = None,
    plots: int = 10,
    rows: int = 50,
    begins: Callable[[str], None] = lambda step: None,
) -> Path:
    """Write the report of a query to a file; see `episode.report`. begins: called with the name of each step."""
    target = checked_path(path)
    for name, value in (("plots", plots), ("rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise EpisodeAnalysisError(f"{name}={value!r}: a number from 0 on is needed.")
    page = page_of(gather(result, title, plots, rows, begins))
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise EpisodeError(f"The report could not be written to {target}: {error.strerror}.") from None
    return target
