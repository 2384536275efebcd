"""Tables of a report as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from html import escape
from typing import Any

from episode.reports.data import InputPart, KeyRow, MatchPart, Report, ResultPart
from episode.reports.wording import seconds, share

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
    """One value."""
    if value is None:
        return '<td class="null">null</td>'
    if isinstance(value, bool):
        return f"<td>{str(value).lower()}</td>"
    if isinstance(value, (int, float, Decimal)):
        return f'<td class="n">{escape(_number(value))}</td>'
    text = _text(value)
    wide = ' class="wide"' if len(text) > 60 else ""
    return f"<td{wide}>{escape(text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + ' …')}</td>"


def key_text(key: Sequence[Any]) -> str:
    """The values of a key in words."""
    return ", ".join("null" if value is None else _text(value) for value in key)


def _number(value: float | Decimal) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        precision = "auto" if value.microsecond % 1000 else "milliseconds" if value.microsecond else "seconds"
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec=precision)
    return str(value)


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
    """The keys with the most matches, as bars that a reader of the screen can read, too."""
    most = max(row.matches for row in found.top_keys)
    rows = [_key_row(row, most, found.matches) for row in found.top_keys]
    heads = (
        f'<th scope="col">{escape(", ".join(found.key_names))}</th><th class="n">{many}</th><th class="n">share</th>'
    )
    body = "".join(rows)
    return f'<table class="keys"><thead><tr>{heads}<th></th></tr></thead><tbody>{body}</tbody></table>'


def _key_row(row: KeyRow, most: int, all_matches: int) -> str:
    width = 100 * row.matches / most
    return (
        f'<tr><td>{escape(key_text(row.key))}</td><td class="n">{row.matches:,}</td>'
        f'<td class="n">{share(row.matches, all_matches)}</td>'
        f'<td class="barcell"><span class="keybar" style="width:{width:.1f}%"></span></td></tr>'
    )


def input_table(part: InputPart) -> str:
    rows = [
        [
            f"<td>{escape(one.name)}</td>",
            f"<td>{escape(one.role)}</td>",
            f"<td>{escape(one.type)}</td>",
            cell(one.least) if one.least is not None else "<td>–</td>",
            cell(one.greatest) if one.greatest is not None else "<td>–</td>",
            f'<td class="n">{one.nulls:,}</td>',
            f'<td class="n">{share(one.nulls, part.rows)}</td>',
        ]
        for one in part.columns
    ]
    heads = ("column", "used as", "type", "least", "greatest", "null", "of all rows")
    return table(heads, rows, frozenset((5, 6)))


def timings_table(report: Report) -> str:
    whole = sum(value for _, value in report.timings)
    rows = [
        [
            f"<td>{escape(what)}</td>",
            f'<td class="n">{seconds(value)}</td>',
            f'<td class="n">{share(value, whole)}</td>',
        ]
        for what, value in report.timings
    ]
    rows.append([f"<td>{word}</td>" for word in ("<b>together</b>", f"<b>{seconds(whole)}</b>", "")])
    rows[-1][1] = f'<td class="n"><b>{seconds(whole)}</b></td>'
    return f'<div class="card scroll">{table(("step", "time", "share"), rows, frozenset((1, 2)))}</div>'
