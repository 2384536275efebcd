"""`t VERSION AS OF 3` and `t TIMESTAMP AS OF '…'` before a pattern: where the table's name ends, and its alias.

The text goes to Spark as it is written; only the names matter here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from episode.lang.lexer import Kind, Token

VERSIONS, TIMES = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")
INTERVALS = frozenset(
    f"{unit}{plural}"
    for unit in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for plural in ("", "S")
)
_BEGINNINGS = ("FROM", "JOIN", "USING", "SELECT", "WHERE", "ON", "MATCH_RECOGNIZE")


def as_of(tokens: Sequence[Token], partners: Mapping[int, int], last: int) -> tuple[int, str | None] | None:
    """The last token of the table's name, and the alias, where a table up to `last` is read as of a version or a time;
    None where it is not. partners: the index of the partner of every round bracket."""
    at = last
    while at >= 2:
        token = tokens[at]
        if token.is_symbol(")"):
            at = partners[at]
        elif token.is_symbol("(") or token.is_symbol(",") or token.upper in _BEGINNINGS:
            return None
        elif token.upper == "OF" and tokens[at - 1].upper == "AS" and tokens[at - 2].upper in VERSIONS + TIMES:
            before = at - 3
            if before >= 0 and tokens[before].upper == "FOR":
                before -= 1
            return before, _alias(tokens, at + 1, last)
        at -= 1
    return None


def _alias(tokens: Sequence[Token], first: int, last: int) -> str | None:
    """The alias after a version or a time, whose first token is given."""
    name = tokens[last]
    if last == first or name.kind not in (Kind.NAME, Kind.QUOTED):
        return None
    before = tokens[last - 1]
    if before.upper == "AS":
        return name.identifier
    if name.upper in INTERVALS and name.kind is Kind.NAME and tokens[max(last - 2, 0)].upper == "INTERVAL":
        return None
    ends = before.kind in (Kind.NUMBER, Kind.STRING, Kind.NAME, Kind.QUOTED) or before.is_symbol(")")
    return name.identifier if ends else None
