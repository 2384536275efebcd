"""The text of a query as HTML, its words marked by what they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from html import escape

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Kind, Token, tokenize

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


def highlighted(text: str, labels: Collection[str] = ()) -> str:
    """HTML for the inside of a <pre>. labels: names that the pattern gives to rows, events or situations."""
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
