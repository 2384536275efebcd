"""Tables, numbers, times and query texts of a report as HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Kind, Token, tokenize
from episode.words import duration, value_text

if TYPE_CHECKING:
    from episode.see.reports.data import InputPart, MatchPart, Report, ResultPart


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class TimeFormat:
    """Format of values of a time column. clock: are they microseconds since 1970, or bare numbers? zone: of the
    clock that is shown."""

    clock: bool
    zone: str = "UTC"

    def moment(self, value: float) -> str:
        """A time in full."""
        if not self.clock:
            return number(value)
        try:
            found = self.at(value)
        except OverflowError:
            return f"{value:,.0f} µs"
        return value_text(found)

    def at(self, value: float) -> datetime:
        """A time as the clock on the wall shows it."""
        zone: tzinfo = timezone.utc
        with suppress(ZoneInfoNotFoundError, ValueError):
            zone = ZoneInfo(self.zone)
        return (_EPOCH + timedelta(microseconds=int(value))).astimezone(zone).replace(tzinfo=None)

    def wall(self, value: float) -> float:
        """A time as microseconds on that clock, or the number itself."""
        if not self.clock:
            return value
        try:
            return (self.at(value) - _EPOCH.replace(tzinfo=None)) / timedelta(microseconds=1)
        except OverflowError:
            return value

    def length(self, value: float) -> str:
        return duration(value) if self.clock else number(value)


def number(value: float) -> str:
    """Write a number with separated thousands; whole numbers without a point."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:,.0f}"


def share(part: float, whole: float) -> str:
    """In per cent, never rounded to nothing or to all."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %" if percent < 99.95 else "100 %"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:,.1f} s"


_WORDS = """
    ADD AFTER AGGREGATE ALL AND ANY ARRAY AS ASC AT BEFORE BETWEEN BY CASE CAST COLLAPSED CREATE CROSS CURRENT
    DEFINE DESC DISTINCT DURING ELSE EMIT EMPTY END EQUALS EVENTS EVERY EXCEPT EXISTS FALSE FINAL FINISHES FIRST
    FOLLOWING FROM FULL GROUP HAVING IN INCREMENTAL INITIAL INNER INSERT INTERSECT INTERVAL INTO IS JOIN LAST
    LATERAL LEAST LEFT LIKE LIMIT MATCH MATCHES MATCH_RECOGNIZE MAXIMAL MEASURES MEETS MOST NEXT NOT NULL NULLS
    OFFSET OMIT ON ONE OR ORDER OUT OUTER OVER OVERLAPS PARTITION PAST PATTERN PER PERMUTE PRECEDING RECENCY REPLACE
    RETURN RIGHT ROW ROWS RUNNING SAME SEEK SELECT SEQ SHOW SITUATIONS SKIP STARTS STRATEGY SUBSET TABLE TEMP
    TEMPORARY THEN TIME TIMED TO TRUE TYPE UNION UNMATCHED USING VALUES VIEW WHEN WHERE WINDOW WITH WITHIN
"""
KEYWORDS = frozenset(_WORDS.split())
"""Words of the languages; those that may as well be names (FIRST, TIME) are marked all the same."""


def highlight(text: str, labels: Collection[str] = ()) -> str:
    """Highlight a query as HTML for a <pre>. labels: names that the pattern gives to rows, events or situations."""
    try:
        return "".join(_pieces(text, frozenset(label.upper() for label in labels)))
    except EpisodeSyntaxError:  # cannot be read alone, as a part of a text may be
        return escape(text)


def _pieces(text: str, labels: frozenset[str]) -> Iterator[str]:
    tokens, at = tokenize(text), 0
    for index, token in enumerate(tokens):
        between = text[at : token.start]
        comment = between.strip()
        if comment:
            before, after = between.split(comment, 1)
            yield f'{before}<span class="co">{escape(comment)}</span>{after}'
        else:
            yield between
        kind = _kind(token, tokens[index + 1] if index + 1 < len(tokens) else None, labels)
        written = escape(token.text)
        yield written if kind is None else f'<span class="{kind}">{written}</span>'
        at = token.end


def _kind(token: Token, following: Token | None, labels: frozenset[str]) -> str | None:
    """The class of a token in the page's style; None: nothing special."""
    if token.kind is Kind.STRING:
        return "st"
    if token.kind is Kind.NUMBER:
        return "nu"
    if token.kind is not Kind.NAME:
        return None
    if token.upper in labels:
        return "la"
    called = following is not None and following.is_symbol("(") and following.start == token.end
    if called and token.upper not in ("AND", "OR", "NOT", "IN", "SEQ", "PERMUTE"):
        return "fn"
    return "kw" if token.upper in KEYWORDS else None


_LONGEST_CELL = 300
"""Characters of a value that are shown."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numeric: frozenset[int] = frozenset()) -> str:
    """heads: escaped here. rows: cells, each a whole <td>."""
    head = "".join(
        f'<th scope="col"{" class=n" if at in numeric else ""}>{escape(name)}</th>' for at, name in enumerate(heads)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def cell(value: Any) -> str:
    if value is None:
        return '<td class="null">null</td>'
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return number_cell(f"{value:.10g}" if isinstance(value, float) else str(value))
    text = value_text(value)
    wide = ' class="wide"' if len(text) > 60 else ""
    return f"<td{wide}>{escape(text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + ' …')}</td>"


def number_cell(text: str) -> str:
    """A number that is written already."""
    return f'<td class="n">{escape(text)}</td>'


def key_text(key: Sequence[Any]) -> str:
    """The values of a key in words."""
    return ", ".join(value_text(value) for value in key)


def result_table(result: ResultPart) -> str:
    columns = range(len(result.columns))
    values = [[row[at] for row in result.first if row[at] is not None] for at in columns]
    numeric = frozenset(
        at
        for at in columns
        if values[at]
        and all(isinstance(one, (int, float, Decimal)) and not isinstance(one, bool) for one in values[at])
    )
    return table(result.columns, [[cell(value) for value in row] for row in result.first], numeric)


def keys_table(found: MatchPart, many: str) -> str:
    """Return the keys with the most matches, as bars that a screen reader can also read."""
    most = max(row.matches for row in found.top_keys)
    heads = f'<th scope="col">{escape(", ".join(found.key_names))}</th>'
    heads += f'<th class="n">{many}</th><th class="n">share</th><th></th>'
    body = "".join(
        f"<tr><td>{escape(key_text(row.key))}</td>{number_cell(f'{row.matches:,}')}"
        f"{number_cell(share(row.matches, found.matches))}"
        f'<td class="barcell"><span class="keybar" style="width:{100 * row.matches / most:.1f}%"></span></td></tr>'
        for row in found.top_keys
    )
    return f'<table class="keys"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'


def input_table(part: InputPart) -> str:
    """Return the columns of an input, with their ranges and nulls."""
    rows = []
    for one in part.columns:
        words = [f"<td>{escape(word)}</td>" for word in (one.name, one.role, one.type)]
        ranges = ["<td>–</td>" if value is None else cell(value) for value in (one.least, one.greatest)]
        rows.append([*words, *ranges, number_cell(f"{one.nulls:,}"), number_cell(share(one.nulls, part.rows))])
    heads = ("column", "used as", "type", "least", "greatest", "null", "of all rows")
    return table(heads, rows, frozenset((5, 6)))


def timings_table(report: Report) -> str:
    """Return the steps of a report, and how long they took."""
    whole = sum(value for _, value in report.timings)
    rows = [
        [f"<td>{escape(what)}</td>", number_cell(seconds(value)), number_cell(share(value, whole))]
        for what, value in report.timings
    ]
    rows.append(["<td><b>together</b></td>", f'<td class="n"><b>{seconds(whole)}</b></td>', "<td></td>"])
    return f'<div class="card scroll">{table(("step", "time", "share"), rows, frozenset((1, 2)))}</div>'
