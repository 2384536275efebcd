"""The MATCH_RECOGNIZE clause: from the text between its parentheses to a MatchRecognize tree.

The clause is first cut into its sections, then PATTERN and SUBSET are read, so that the expressions of MEASURES
and DEFINE are read with the labels known.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, closest, describe, label_name
from episode.lang.duration import UNITS, parse_duration
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.pattern import labels_of, parse_pattern
from episode.lang.scalar import parse_scalar
from episode.lang.syntax import (
    ColumnRef,
    Definition,
    Duration,
    Exclusion,
    MatchMode,
    MatchRecognize,
    Measure,
    OrderItem,
    Pattern,
    RowsPerMatch,
    SkipTo,
    Span,
    Subset,
)

SECTION_ORDER = (
    "PARTITION BY, ORDER BY, MEASURES, ONE ROW | ALL ROWS PER MATCH, AFTER MATCH SKIP, match mode, "
    "PATTERN, WITHIN, SUBSET, DEFINE"
)
SECTIONS = (
    ("PARTITION", "BY"),
    ("ORDER", "BY"),
    ("MEASURES",),
    ("ONE", "ROW"),
    ("ALL", "ROWS"),
    ("ALL", "ROW"),
    ("AFTER", "MATCH"),
    ("MAXIMAL", "MATCH"),
    ("INCREMENTAL", "MATCH"),
    ("ALL", "MATCHES"),
    ("PATTERN",),
    ("WITHIN",),
    ("SUBSET",),
    ("DEFINE",),
    ("INITIAL",),
    ("SEEK",),
)
NAMES_OF_ROWS = ("ONE ROW", "ALL ROWS", "ALL ROW")
NAMES_OF_MODES = {
    "MAXIMAL MATCH": MatchMode.MAXIMAL,
    "INCREMENTAL MATCH": MatchMode.INCREMENTAL,
    "ALL MATCHES": MatchMode.ALL,
}
SHOWN_NAMES = {"ROWS PER MATCH": "ONE ROW or ALL ROWS PER MATCH", "AFTER MATCH": "AFTER MATCH SKIP", "MATCH MODE": "The match mode"}
SKIPS = "Write AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST A or TO LAST A."
ROWS = "Write ONE ROW PER MATCH, or ALL ROWS PER MATCH [SHOW EMPTY MATCHES | OMIT EMPTY MATCHES | WITH UNMATCHED ROWS]."
RANK = {
    "PARTITION BY": 0,
    "ORDER BY": 1,
    "MEASURES": 2,
    "ROWS PER MATCH": 3,
    "AFTER MATCH": 4,
    "MATCH MODE": 4,
    "PATTERN": 5,
    "WITHIN": 6,
    "SUBSET": 7,
    "DEFINE": 8,
}


@dataclass(frozen=True)
class _Section:
    name: str
    keyword: Token
    begin: int
    end: int


def parse_clause(text: str) -> MatchRecognize:
    """The inside of MATCH_RECOGNIZE ( … ), given alone."""
    tokens = tokenize(text)
    return parse_clause_tokens(text, tokens, 0, len(tokens) - 1)


def parse_clause_tokens(source: str, tokens: list[Token], begin: int, end: int) -> MatchRecognize:
    """The clause in tokens[begin:end] of a larger query."""
    sections = _cut(Cursor(source, tokens, begin, end))

    def cursor_of(name: str) -> Cursor | None:
        section = sections.get(name)
        return None if section is None else Cursor(source, tokens, section.begin, section.end)

    pattern_cursor = cursor_of("PATTERN")
    if pattern_cursor is None:
        _fail_without_pattern(Cursor(source, tokens, begin, end))
    pattern, pattern_span = _pattern(pattern_cursor)
    labels = labels_of(pattern)
    subsets = _subsets(cursor_of("SUBSET"), labels)
    names = frozenset(labels) | {subset.name for subset in subsets}
    rows_per_match = _rows_per_match(sections.get("ROWS PER MATCH"), cursor_of("ROWS PER MATCH"))
    if rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED and _has_exclusion(pattern):
        raise EpisodeAnalysisError(
            "Exclusion {- … -} cannot be combined with ALL ROWS PER MATCH WITH UNMATCHED ROWS.",
            source=source,
            position=pattern_span.start,
            length=pattern_span.end - pattern_span.start,
            hint="Use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES, or drop the exclusion.",
        )
    skip_to, skip_label, skip_span = _skip(cursor_of("AFTER MATCH"), names)
    mode = sections.get("MATCH MODE")
    return MatchRecognize(
        partition_by=_partition_by(cursor_of("PARTITION BY")),
        order_by=_order_by(cursor_of("ORDER BY")),
        measures=_measures(cursor_of("MEASURES"), names),
        rows_per_match=rows_per_match,
        skip_to=skip_to,
        skip_label=skip_label,
        match_mode=MatchMode.PREFERRED if mode is None else NAMES_OF_MODES[_spelled(mode.keyword, tokens)],
        pattern=pattern,
        within=_within(cursor_of("WITHIN")),
        subsets=subsets,
        definitions=_definitions(cursor_of("DEFINE"), labels, names, subsets),
        source=source,
        span=Span(tokens[begin].start, tokens[end].start),
        skip_span=skip_span,
        pattern_span=pattern_span,
    )


# ---- sections ----------------------------------------------------------------------------------------


def _section_at(cursor: Cursor) -> tuple[str, ...] | None:
    """The section keywords at the cursor, unless they are a name after AS or a qualified name."""
    before = cursor.peek(-1)
    if before.upper == "AS" or before.is_symbol(".") or cursor.peek().is_symbol("."):
        return None
    for words in SECTIONS:
        if cursor.at_words(*words):
            following = cursor.peek(len(words))
            if words == ("PATTERN",) and not following.is_symbol("("):
                continue
            if words in (("INITIAL",), ("SEEK",)) and following.upper != "PATTERN":
                continue
            if words in (("MEASURES",), ("DEFINE",), ("SUBSET",), ("WITHIN",)) and _ends_operand(following):
                continue
            return words
    return None


def _ends_operand(token: Token) -> bool:
    """After a section keyword an operand follows; after a column of that name, an operator or a comma does."""
    return (token.kind is Kind.SYMBOL and token.text not in '(-+"') or token.upper in ("AS", "AND", "OR", "IS")


def _cut(cursor: Cursor) -> dict[str, _Section]:
    sections: dict[str, _Section] = {}
    current: _Section | None = None
    if cursor.at_end:
        cursor.fail("MATCH_RECOGNIZE is empty.", None, f"Its parts, in order: {SECTION_ORDER}.")
    while not cursor.at_end:
        words = _section_at(cursor)
        if words is None:
            if current is None:
                cursor.fail(f"Unexpected {describe(cursor.token)}.", None, f"The parts, in order: {SECTION_ORDER}.")
            if cursor.token.kind is Kind.SYMBOL and cursor.token.text in "([{":
                cursor.skip_group()
            elif cursor.token.kind is Kind.SYMBOL and cursor.token.text in ")]}":
                cursor.fail(f"This {cursor.token.text!r} closes nothing.")
            else:
                cursor.advance()
            continue
        keyword = cursor.token
        if words in (("INITIAL",), ("SEEK",)):
            raise EpisodeUnsupportedError(
                f"{words[0]} belongs to row patterns in windows, which are not supported.",
                source=cursor.source, position=keyword.start, length=len(keyword.text),
            )  # fmt: skip
        if current is not None:
            sections[current.name] = _Section(current.name, current.keyword, current.begin, cursor.index)
        name = " ".join(words)
        name = "ROWS PER MATCH" if name in NAMES_OF_ROWS else "MATCH MODE" if name in NAMES_OF_MODES else name
        if name in sections:
            cursor.fail(f"{name} is given twice.", keyword)
        late = next((other for other in sections if RANK[other] > RANK[name]), None)
        if late is not None:
            cursor.fail(f"{name} must come before {late}.", keyword, f"The parts, in order: {SECTION_ORDER}.")
        cursor.index += len(words)
        current = _Section(name, keyword, cursor.index, cursor.end)
        sections[name] = current
    return sections


def _spelled(keyword: Token, tokens: list[Token]) -> str:
    index = tokens.index(keyword)
    return f"{keyword.upper} {tokens[index + 1].upper}"


# ---- the parts ---------------------------------------------------------------------------------------


def _pattern(cursor: Cursor) -> tuple[Pattern, Span]:
    opening = cursor.token
    closing = cursor.skip_group()
    if not cursor.at_end:
        cursor.fail(
            f"Unexpected {describe(cursor.token)} after PATTERN ( … ).", None, f"The parts, in order: {SECTION_ORDER}."
        )
    inner = Cursor(cursor.source, cursor.tokens, cursor.tokens.index(opening) + 1, closing)
    if inner.at_end:
        inner.fail("PATTERN is empty.", opening, "The empty pattern is written PATTERN (()).")
    return parse_pattern(inner), Span(opening.start, cursor.tokens[closing].end)


def _has_exclusion(pattern: Pattern) -> bool:
    if isinstance(pattern, Exclusion):
        return True
    children = getattr(pattern, "parts", None) or ((pattern.part,) if hasattr(pattern, "part") else ())
    return any(_has_exclusion(child) for child in children)


def _column(cursor: Cursor, what: str) -> ColumnRef:
    start = cursor.token
    path = [cursor.expect_identifier(what).identifier]
    while cursor.accept_symbol("."):
        path.append(cursor.expect_identifier(what).identifier)
    return ColumnRef(None, tuple(path), cursor.span_from(start.start))


def _partition_by(cursor: Cursor | None) -> tuple[ColumnRef, ...]:
    if cursor is None:
        return ()
    columns = [_column(cursor, "a column to partition by")]
    while cursor.accept_symbol(","):
        columns.append(_column(cursor, "a column to partition by"))
    if not cursor.at_end:
        cursor.fail(
            f"PARTITION BY takes columns; {describe(cursor.token)} is not expected.",
            None, "Compute expressions in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…).",
        )  # fmt: skip
    return tuple(columns)


def _order_by(cursor: Cursor | None) -> tuple[OrderItem, ...]:
    if cursor is None:
        return ()
    items = []
    while True:
        column = _column(cursor, "a column to order by")
        ascending = not cursor.accept_words("DESC")
        if ascending:
            cursor.accept_words("ASC")
        nulls_first = ascending
        if cursor.at_words("NULLS"):
            cursor.advance()
            if cursor.token.upper not in ("FIRST", "LAST"):
                cursor.fail(f"Expected FIRST or LAST after NULLS, found {describe(cursor.token)}.")
            nulls_first = cursor.advance().upper == "FIRST"
        items.append(OrderItem(column, ascending, nulls_first))
        if cursor.at_end:
            return tuple(items)
        if not cursor.accept_symbol(","):
            cursor.fail(
                f"ORDER BY takes columns; {describe(cursor.token)} is not expected.",
                None, "Compute expressions in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…).",
            )  # fmt: skip


def _next_comma(cursor: Cursor) -> int:
    """Index of the next comma outside brackets, or the end."""
    while not cursor.at_end and not cursor.token.is_symbol(","):
        if cursor.token.kind is Kind.SYMBOL and cursor.token.text in "([{":
            cursor.skip_group()
        else:
            cursor.advance()
    return cursor.index


def _measures(cursor: Cursor | None, labels: frozenset[str]) -> tuple[Measure, ...]:
    if cursor is None:
        return ()
    measures: list[Measure] = []
    seen: set[str] = set()
    while True:
        begin = cursor.index
        stop = _next_comma(cursor)
        if begin == stop:
            cursor.index = begin
            cursor.fail("Expected a measure here.", None, "A measure is written expression AS name.")
        name = cursor.tokens[stop - 1]
        if name.kind not in (Kind.NAME, Kind.QUOTED) or stop - begin < 3 or cursor.tokens[stop - 2].upper != "AS":
            start, last = cursor.tokens[begin], cursor.tokens[stop - 1]
            raise EpisodeSyntaxError(
                "A measure needs a name.", source=cursor.source, position=start.start, length=last.end - start.start,
                hint="A measure is written expression AS name.",
            )  # fmt: skip
        if name.identifier.lower() in seen:
            cursor.fail(f"The measure {name.identifier} is given twice.", name, "Give each measure a name of its own.")
        seen.add(name.identifier.lower())
        expression = parse_scalar(Cursor(cursor.source, cursor.tokens, begin, stop - 2), labels)
        measures.append(Measure(expression, name.identifier, Span(cursor.tokens[begin].start, name.end)))
        if cursor.at_end:
            return tuple(measures)
        cursor.advance()


def _rows_per_match(section: _Section | None, cursor: Cursor | None) -> RowsPerMatch:
    if section is None or cursor is None:
        return RowsPerMatch.ONE_ROW
    cursor.expect_words("PER", "MATCH", after="ROWS")
    if section.keyword.upper == "ONE":
        result = RowsPerMatch.ONE_ROW
        if cursor.at_words("SHOW") or cursor.at_words("OMIT") or cursor.at_words("WITH"):
            cursor.fail(f"{cursor.token.upper} … applies to ALL ROWS PER MATCH only.")
    elif cursor.accept_words("SHOW"):
        cursor.expect_words("EMPTY", "MATCHES", after="SHOW")
        result = RowsPerMatch.ALL_SHOW_EMPTY
    elif cursor.accept_words("OMIT"):
        cursor.expect_words("EMPTY", "MATCHES", after="OMIT")
        result = RowsPerMatch.ALL_OMIT_EMPTY
    elif cursor.accept_words("WITH"):
        cursor.expect_words("UNMATCHED", "ROWS", after="WITH")
        result = RowsPerMatch.ALL_WITH_UNMATCHED
    else:
        result = RowsPerMatch.ALL_SHOW_EMPTY
    _expect_end(cursor, "ROWS PER MATCH")
    return result


def _expect_end(cursor: Cursor, after: str) -> None:
    if not cursor.at_end:
        cursor.fail(
            f"Unexpected {describe(cursor.token)} after {after}.", None, f"The parts, in order: {SECTION_ORDER}."
        )


def _skip(cursor: Cursor | None, names: frozenset[str]) -> tuple[SkipTo, str | None, Span]:
    if cursor is None:
        return SkipTo.PAST_LAST_ROW, None, Span(0, 0)
    start = cursor.token.start
    cursor.expect_words("SKIP", after="AFTER MATCH")
    label: str | None = None
    if cursor.accept_words("PAST"):
        cursor.expect_words("LAST", "ROW", after="SKIP PAST")
        result = SkipTo.PAST_LAST_ROW
    elif cursor.accept_words("TO"):
        if cursor.at_words("NEXT", "ROW"):
            cursor.index += 2
            result = SkipTo.NEXT_ROW
        else:
            result = SkipTo.LAST_LABEL
            names_follow = cursor.peek().kind in (Kind.NAME, Kind.QUOTED) or cursor.peek().is_double_quoted
            if cursor.token.upper in ("FIRST", "LAST") and names_follow:
                result = SkipTo.FIRST_LABEL if cursor.advance().upper == "FIRST" else SkipTo.LAST_LABEL
            token = cursor.expect_identifier("a label to skip to")
            label = label_name(token)
            if label not in names:
                cursor.fail(f"{token.text} is not a label of the pattern.", token, _known(names))
    else:
        cursor.fail(
            f"Expected PAST LAST ROW or TO … after SKIP, found {describe(cursor.token)}.",
            None, "Write SKIP PAST LAST ROW, SKIP TO NEXT ROW, SKIP TO FIRST A or SKIP TO LAST A.",
        )  # fmt: skip
    span = cursor.span_from(start)
    _expect_end(cursor, "AFTER MATCH SKIP")
    return result, label, span


def _known(names: frozenset[str]) -> str:
    return f"Labels of this pattern: {', '.join(sorted(names))}."


def _within(cursor: Cursor | None) -> Duration | None:
    if cursor is None:
        return None
    duration = parse_duration(cursor)
    _expect_end(cursor, "WITHIN")
    return duration


def _subsets(cursor: Cursor | None, labels: list[str]) -> tuple[Subset, ...]:
    if cursor is None:
        return ()
    known = frozenset(labels)
    subsets: list[Subset] = []
    while True:
        token = cursor.expect_identifier("the name of a subset")
        name = label_name(token)
        if name in known:
            cursor.fail(f"{token.text} is a label of the pattern already.", token, "Give the subset a name of its own.")
        if any(subset.name == name for subset in subsets):
            cursor.fail(f"The subset {token.text} is defined twice.", token)
        cursor.expect_symbol("=", "in SUBSET name = (labels)")
        cursor.expect_symbol("(", "before the labels of the subset")
        members: list[str] = []
        while True:
            member = cursor.expect_identifier("a label of the pattern")
            if label_name(member) not in known:
                cursor.fail(f"{member.text} is not a label of the pattern.", member, _known(known))
            if label_name(member) in members:
                cursor.fail(f"{member.text} is in the subset {token.text} already.", member)
            members.append(label_name(member))
            if not cursor.accept_symbol(","):
                break
        closing = cursor.expect_symbol(")", "after the labels of the subset")
        subsets.append(Subset(name, tuple(members), Span(token.start, closing.end)))
        if cursor.at_end:
            return tuple(subsets)
        cursor.expect_symbol(",", "between subsets")


def _definitions(
    cursor: Cursor | None, labels: list[str], names: frozenset[str], subsets: tuple[Subset, ...]
) -> tuple[Definition, ...]:
    if cursor is None:
        return ()
    definitions: list[Definition] = []
    while True:
        token = cursor.expect_identifier("a label to define")
        label = label_name(token)
        if any(subset.name == label for subset in subsets):
            cursor.fail(f"{token.text} is a subset; only labels of the pattern can be defined.", token)
        if label not in labels:
            cursor.fail(f"{token.text} is not a label of the pattern.", token, _known(frozenset(labels)))
        if any(definition.label == label for definition in definitions):
            cursor.fail(f"{token.text} is defined twice.", token)
        if cursor.token.upper != "AS":
            cursor.fail(
                f"Expected AS after {token.text}, found {describe(cursor.token)}.", None, "Write label AS condition."
            )
        cursor.advance()
        begin = cursor.index
        stop = _definition_end(cursor)
        if begin == stop:
            cursor.index = begin
            cursor.fail(f"Expected a condition for {token.text}.")
        condition = parse_scalar(Cursor(cursor.source, cursor.tokens, begin, stop), names)
        definitions.append(Definition(label, condition, Span(token.start, cursor.tokens[stop - 1].end)))
        if cursor.at_end:
            return tuple(definitions)
        cursor.accept_symbol(",")


def _definition_end(cursor: Cursor) -> int:
    """The next comma, or where the next `label AS` begins after a closing parenthesis (the papers leave the comma out)."""
    begin = cursor.index
    while not cursor.at_end and not cursor.token.is_symbol(","):
        after_group = cursor.index > begin and cursor.peek(-1).is_symbol(")")
        if after_group and cursor.token.kind in (Kind.NAME, Kind.QUOTED) and cursor.peek().upper == "AS":
            break
        if cursor.token.kind is Kind.SYMBOL and cursor.token.text in "([{":
            cursor.skip_group()
        else:
            cursor.advance()
    return cursor.index
