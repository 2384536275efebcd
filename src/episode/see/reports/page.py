"""A report as one HTML page: no script, nothing taken from elsewhere, every value escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.see.reports.charts import by_length, over_time
from episode.see.reports.data import InputPart, MatchPart, PatternPart, Report, ReportPicture
from episode.see.reports.gathering import gather
from episode.see.reports.tables import (
    highlight,
    input_table,
    key_text,
    keys_table,
    number,
    result_table,
    share,
    timings_table,
)
from episode.words import count_of, plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Policy for the browser: the page may use its own style, and the pictures that are in it."""


def page_of(report: Report) -> str:
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


class ReportSection(NamedTuple):
    """short: as the list of sections calls it."""

    anchor: str
    title: str
    short: str
    body: str


def _sections(report: Report) -> list[ReportSection]:
    labels = [label for pattern in report.patterns for label in pattern.labels]
    several = len(report.patterns) > 1
    found = [ReportSection("query", "The query", "Query", _query(report, labels))]
    for at, pattern in enumerate(report.patterns, start=1):
        end, of = (f"-{at}", f" of pattern {at}") if several else ("", "")
        matches = _matches(pattern, several, report.result.rows)
        found.append(ReportSection(f"matches{end}", f"Matches{of}", f"Matches{of}", matches))
        if pattern.pictures or pattern.no_pictures:
            found.append(ReportSection(f"pictures{end}", f"Telling matches{of}", f"Pictures{of}", _pictures(pattern)))
    plans = "".join(f'<div class="card">{pattern.plan}</div>' for pattern in report.patterns)
    return [
        *found,
        ReportSection("result", "The result", "Result", _result(report)),
        ReportSection("input", "The rows that were searched", "Input", _inputs(report.patterns)),
        ReportSection("plan", "The plan", "Plan", plans),
        ReportSection("timings", "Timings", "Timings", timings_table(report)),
    ]


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


def tiles(report: Report) -> str:
    """The numbers that are looked at first."""
    found = [_tile(f"{report.result.rows:,}", f"{plural(report.result.rows, 'row')} in the result")]
    several = len(report.patterns) > 1
    for at, pattern in enumerate(report.patterns, start=1):
        of = f" of pattern {at}" if several else ""
        matches = pattern.found
        if matches is None:
            continue
        found.append(_tile(f"{matches.matches:,}", f"{plural(matches.matches, pattern.one, pattern.many)}{of}"))
        keys = pattern.inputs[0].keys
        if matches.key_names and keys is not None and not several:
            found.append(_tile(f"{matches.keys:,}", f"of {count_of(keys[0], 'key')} have {pattern.many}"))
        if matches.lengths and not several:
            found.append(_tile(matches.clock.length(matches.lengths[1]), "median length", words=True))
    if report.patterns:
        rows = sum(part.rows for part in report.patterns[0].inputs)
        found.append(_tile(f"{rows:,}", "rows searched"))
    return f'<div class="tiles">{"".join(found)}</div>'


def _tile(value: str, what: str, words: bool = False) -> str:
    return f'<div class="tile"><b{" class=words" if words else ""}>{escape(value)}</b><span>{escape(what)}</span></div>'


def _matches(pattern: PatternPart, several: bool, result_rows: int) -> str:
    """When matches begin, which keys have them, and how long they are. several: is it one of several patterns?"""
    found = pattern.found
    parts = []
    if several:
        parts.append(f'<div class="card"><pre>{highlight(pattern.text.strip(), pattern.labels)}</pre></div>')
    if found is None:
        return "".join([*parts, f"<p>{escape(pattern.reason)}</p>"])
    parts.append(f"<p>{_summary(pattern, found)}</p>")
    if not several and found.matches != result_rows:
        parts.append(f"<p>The statement around the pattern makes {count_of(result_rows, 'row')} of them.</p>")
    if found.over_time is not None:
        zone = f" Times are those of {escape(found.clock.zone.removeprefix('Etc/'))}." if found.clock.clock else ""
        width = escape(found.clock.length(found.over_time.bins.width))
        parts.append(_card("Over time", over_time(found.over_time, found.clock, pattern)))
        parts.append(_remark(f"Each bar counts the {pattern.many} that begin within {width}.{zone}"))
    columns = []
    if found.top_keys:
        columns.append(_card("By key", keys_table(found, pattern.many) + _other_keys(pattern, found)))
    if found.by_length is not None:
        columns.append(_card("By length", by_length(found.by_length, found.clock, pattern) + _lengths(found)))
    if columns:
        parts.append(f'<div class="two">{"".join(f"<div>{one}</div>" for one in columns)}</div>')
    return "".join(parts)


def _card(title: str, body: str) -> str:
    return f'<h3>{title}</h3><div class="card">{body}</div>'


def _remark(text: str) -> str:
    return f'<p class="soft small">{text}</p>'


def _summary(pattern: PatternPart, found: MatchPart) -> str:
    if not found.matches:
        return "The pattern was not found in these rows."
    words = [f"The {pattern.kind} was found {count_of(found.matches, 'time')}"]
    if found.key_names:
        words.append(f", for {count_of(found.keys, 'key')} ({escape(', '.join(found.key_names))})")
    if found.first is not None and found.last is not None:
        words.append(
            f"; the first {pattern.one} begins at {_unbroken(found.clock.moment(found.first))}, "
            f"and the last one ends at {_unbroken(found.clock.moment(found.last))}"
        )
    words.append(".")
    if found.rows is not None and pattern.inputs:
        words.append(f" A {pattern.one} has {number(round(found.rows / found.matches, 1))} rows on average.")
    without = found.matches - found.placed
    if without and found.placed:
        there = "is" if without == 1 else "are"
        words.append(f" {count_of(without, 'match')} without rows, and so without a time, {there} not drawn.")
    return "".join(words)


def _unbroken(text: str) -> str:
    return f'<span class="nb">{escape(text)}</span>'


def _other_keys(pattern: PatternPart, found: MatchPart) -> str:
    more = found.keys - len(found.top_keys)
    if more <= 0:
        return ""
    rest = found.matches - sum(row.matches for row in found.top_keys)
    words = f"{count_of(more, 'more key')} with {count_of(rest, pattern.one, pattern.many)}"
    if found.rarest is not None:
        words += f"; the fewest, {found.rarest.matches:,}, has {key_text(found.rarest.key)}"
    return _remark(f"{escape(words)}.")


def _lengths(found: MatchPart) -> str:
    names = ("shortest", "median", "90 of 100 within", "99 of 100 within", "longest", "mean")
    items = ", ".join(f"{name} {escape(found.clock.length(value))}" for name, value in zip(names, found.lengths))
    return _remark(f"From the first to the last time of a match: {items}.")


def _pictures(pattern: PatternPart) -> str:
    """Single matches on their series."""
    body = f"<p>{escape(pattern.no_pictures)}</p>" if pattern.no_pictures else ""
    if pattern.pictures:
        body += f'<div class="pictures">{"".join(map(_picture, pattern.pictures))}</div>'
    return body


def _picture(picture: ReportPicture) -> str:
    what = f'<span class="soft small">{escape(picture.what)}</span>'
    caption = f"<figcaption><b>{escape(picture.why)}</b>{what}</figcaption>"
    if picture.svg is None:
        drawn = f'<p class="small">{escape(picture.note)}</p>'
    else:
        alternative = escape(f"{picture.why}: {picture.what}", quote=True)
        data = b64encode(picture.svg.encode()).decode()
        drawn = f'<img alt="{alternative}" src="data:image/svg+xml;base64,{data}">'
    return f'<figure class="card">{caption}{drawn}</figure>'


def _inputs(patterns: Sequence[PatternPart]) -> str:
    """The rows that were searched: ranges, nulls, and what did not come into the search."""
    parts = []
    for at, pattern in enumerate(patterns, start=1):
        for part in pattern.inputs:
            title = " ".join(word for word in (f"Pattern {at}" if len(patterns) > 1 else "", part.title) if word)
            parts.append((f"<h3>{escape(title)}</h3>" if title else "") + _input(part))
    return "".join(parts)


def _input(part: InputPart) -> str:
    keys = "" if part.keys is None else f" of {count_of(part.keys[0], 'key')}, at most {part.keys[1]:,} of one key"
    nulls = [one for one in part.columns if one.nulls and one.role in ("key", "time")]
    words = f"{count_of(part.rows, 'row')}{keys}."
    for one in nulls:
        some = f"{count_of(one.nulls, 'row')} ({share(one.nulls, part.rows)})"
        words += f" In {some} the {one.role} ({one.name}) is null."
    words += " Late events: none. A table is put in order of time before it is searched; only streams have late events."
    return f'<p>{escape(words)}</p><div class="card scroll">{input_table(part)}</div>'
