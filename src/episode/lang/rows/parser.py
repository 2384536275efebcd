"""The MATCH_RECOGNIZE clause: from the text between its parentheses to a MatchRecognize tree.

The clause is first cut into its sections, then PATTERN and SUBSET are read, so that the expressions of MEASURES
and DEFINE are read with the labels known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NoReturn, TypeVar

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import Cursor, describe, known_labels, label_name
from episode.lang.duration import UNITS, parse_window
from episode.lang.functions import RANDOM
from episode.lang.keys import parse_key, scalar_of, split_alias
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.rows.pattern import labels_of, parse_pattern
from episode.lang.rows.scalar import parse_scalar
from episode.lang.rows.sections import NAMES_OF_MODES, ClauseSection, cut, fail_unexpected, misspelt_section
from episode.lang.rows.syntax import (
    Classifier,
    Definition,
    Exclusion,
    MatchMode,
    MatchNumber,
    MatchRecognize,
    Measure,
    OrderItem,
    Pattern,
    RowsPerMatch,
    SkipTo,
    Subset,
    nodes_of,
)
from episode.lang.syntax import NOWHERE, Duration, RowKey, Source, Span

Part = TypeVar("Part")
KEYS = "Write columns or expressions of one row, with commas between them: symbol, ts DIV 10 AS bucket."
CLAUSES = "Write MATCH_NUMBER or CLASSIFIER, with AS and a name or without; more belongs in MEASURES."
MEASURE = "A measure is written expression AS name."
SUBSET = "Write SUBSET U = (A, B)."
DEFINITION = "Write label AS condition."
SKIPS = "Write AFTER MATCH SKIP PAST LAST ROW, TO NEXT ROW, TO FIRST A or TO LAST A."
ROW_OPTIONS = {
    "SHOW": (RowsPerMatch.ALL_SHOW_EMPTY, "EMPTY", "MATCHES"),
    "OMIT": (RowsPerMatch.ALL_OMIT_EMPTY, "EMPTY", "MATCHES"),
    "WITH": (RowsPerMatch.ALL_WITH_UNMATCHED, "UNMATCHED", "ROWS"),
}
ROWS = "Write ONE ROW PER MATCH, or ALL ROWS PER MATCH [SHOW EMPTY MATCHES | OMIT EMPTY MATCHES | WITH UNMATCHED ROWS]."


def parse_clause(text: str) -> MatchRecognize:
    """The inside of MATCH_RECOGNIZE ( … ), given alone."""
    tokens = tokenize(text)
    return parse_clause_tokens(text, tokens, 0, len(tokens) - 1)


def parse_clause_tokens(source: str, tokens: list[Token], begin: int, end: int) -> MatchRecognize:
    """The clause in tokens[begin:end] of a larger query."""
    sections = cut(Cursor(source, tokens, begin, end))

    def read(name: str, parse: Callable[[Cursor], Part], otherwise: Any) -> Part:
        section = sections.get(name)
        return otherwise if section is None else parse(Cursor(source, tokens, section.begin, section.end))

    found = read("PATTERN", _pattern, None)
    if found is None:
        _fail_without_pattern(Cursor(source, tokens, begin, end))
    pattern, pattern_span = found
    labels = labels_of(pattern)
    subsets = read("SUBSET", partial(_subsets, labels=labels), ())
    names = frozenset(labels) | {subset.name for subset in subsets}
    rows_per_match = read("ROWS PER MATCH", _rows_per_match, RowsPerMatch.ONE_ROW)
    excludes = any(isinstance(node, Exclusion) for node in nodes_of(pattern))
    if rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED and excludes:
        message = "Exclusion {- … -} cannot be combined with ALL ROWS PER MATCH WITH UNMATCHED ROWS."
        hint = "Use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES, or drop the exclusion."
        raise Source(source).error(EpisodeAnalysisError, message, pattern_span, hint)
    skip_to, skip_label, skip_span = read(
        "AFTER MATCH", partial(_skip, names=names), (SkipTo.PAST_LAST_ROW, None, NOWHERE)
    )
    mode = sections.get("MATCH MODE")
    within, timed_out = read("WITHIN", _within, (None, None))
    partition_by, order_by = read("PARTITION BY", _partition_by, ()), read("ORDER BY", _order_by, ())
    measures = read("MEASURES", partial(_measures, labels=names), [])
    for clause in (name for name in sections if name in ("MATCH_NUMBER", "CLASSIFIER")):
        read(clause, partial(_add_measure, clause=clause, measures=measures), None)
    return MatchRecognize(
        partition_by=partition_by,
        order_by=order_by,
        measures=tuple(measures),
        rows_per_match=rows_per_match,
        skip_to=skip_to,
        skip_label=skip_label,
        match_mode=MatchMode.PREFERRED if mode is None else NAMES_OF_MODES[mode.keyword.upper],
        pattern=pattern,
        within=within,
        timed_out=timed_out,
        subsets=subsets,
        definitions=read("DEFINE", partial(_definitions, labels=labels, names=names, subsets=subsets), ()),
        source=Source(source, Span(tokens[begin].start, tokens[end].start), pattern_span),
        skip_span=skip_span,
        rows_span=_whole(sections.get("ROWS PER MATCH"), tokens),
        mode_span=_whole(mode, tokens),
    )


def _whole(section: ClauseSection | None, tokens: list[Token]) -> Span:
    return NOWHERE if section is None else Span(section.keyword.start, tokens[section.end - 1].end)


def _fail_without_pattern(cursor: Cursor) -> NoReturn:
    example = "Write for example PATTERN (A B+) DEFINE B AS B.price < PREV(B.price)."
    while not cursor.at_end:
        if cursor.advance().upper == "PATTERN" and not cursor.token.is_symbol("("):
            cursor.fail(f"Expected '(' after PATTERN, found {describe(cursor.token)}.", None, example)
    cursor.fail("MATCH_RECOGNIZE needs a PATTERN.", None, example)


def _pattern(cursor: Cursor) -> tuple[Pattern, Span]:
    opening, begin = cursor.token, cursor.index + 1
    closing = cursor.skip_group()
    if not cursor.at_end:
        fail_unexpected(cursor, "after PATTERN ( … )")
    inner = cursor.part(begin, closing)
    if inner.at_end:
        inner.fail("PATTERN is empty.", opening, "The empty pattern is written PATTERN (()).")
    return parse_pattern(inner), Span(opening.start, cursor.tokens[closing].end)


def _partition_by(cursor: Cursor) -> tuple[RowKey, ...]:
    return tuple(
        _key(cursor, *item, "PARTITION BY") for item in _items(cursor, "Expected a column to partition by", KEYS)
    )


def _order_by(cursor: Cursor) -> tuple[OrderItem, ...]:
    return tuple(_order_item(cursor, *item) for item in _items(cursor, "Expected a column to order by", KEYS))


def _items(cursor: Cursor, expected: str, hint: str) -> Iterator[tuple[int, int]]:
    """The tokens of each item of a list."""
    while True:
        begin = cursor.index
        if cursor.skip_to_comma() == begin:
            cursor.fail(f"{expected}, found {describe(cursor.token)}.", None, hint)
        yield begin, cursor.index
        if cursor.at_end:
            return
        cursor.advance()


def _order_item(cursor: Cursor, begin: int, stop: int) -> OrderItem:
    """`expression [AS name] [ASC | DESC] [NULLS FIRST | NULLS LAST]`."""
    tokens = cursor.tokens
    nulls: bool | None = None
    at = next((at for at in range(max(begin + 1, stop - 2), stop) if tokens[at].upper == "NULLS"), None)
    if at is not None and tokens[at - 1].upper != "AS":
        if at + 1 == stop or tokens[at + 1].upper not in ("FIRST", "LAST"):
            found = tokens[at + 1]
            cursor.fail(f"Expected FIRST or LAST after NULLS, found {describe(found)}.", found)
        nulls, stop = tokens[at + 1].upper == "FIRST", at
    directed = stop - begin > 1 and tokens[stop - 1].upper in ("ASC", "DESC") and tokens[stop - 2].upper != "AS"
    ascending = not (directed and tokens[stop - 1].upper == "DESC")
    key = _key(cursor, begin, stop - directed, "ORDER BY")
    return OrderItem(key, ascending, ascending if nulls is None else nulls)


def _key(cursor: Cursor, begin: int, stop: int, clause: str) -> RowKey:
    """`expression [AS name]` in tokens[begin:stop]."""
    tokens = cursor.tokens
    name, stop = split_alias(tokens, begin, stop)
    for at in range(begin + 1, stop):
        misspelt = tokens[at].kind is Kind.NAME and tokens[at - 1].is_name
        if misspelt and misspelt_section(tokens[at]) is not None:
            fail_unexpected(Cursor(cursor.source, tokens, at, stop), f"after a column of {clause}", KEYS)
    return RowKey(parse_key(Cursor(cursor.source, tokens, begin, stop), clause), name)


def _measures(cursor: Cursor, labels: frozenset[str]) -> list[Measure]:
    measures: list[Measure] = []
    for begin, stop in _items(cursor, "Expected a measure here", MEASURE):
        _check_comma(cursor, begin, stop)
        if cursor.tokens[begin].upper == "AS":
            cursor.fail("Expected an expression before AS.", cursor.tokens[begin], MEASURE)
        name = cursor.tokens[stop - 1]
        if not name.is_name or stop - begin < 3 or cursor.tokens[stop - 2].upper != "AS":
            cursor.fail("A measure needs a name.", cursor.span_of(begin, stop), MEASURE)
        if name.identifier.lower() in [measure.name.lower() for measure in measures]:
            cursor.fail(f"The measure {name.identifier} is given twice.", name, "Give each measure its own name.")
        expression = parse_scalar(cursor.part(begin, stop - 2), labels)
        measures.append(Measure(expression, name.identifier, cursor.span_of(begin, stop)))
    return measures


def _add_measure(cursor: Cursor, clause: str, measures: list[Measure]) -> None:
    """Add the measure of MATCH_NUMBER [AS name] or CLASSIFIER [AS name]."""
    keyword = name = cursor.tokens[cursor.index - 1]
    if cursor.accept_words("AS"):
        name = cursor.expect_identifier(f"the name of {clause}", CLAUSES)
    if not cursor.at_end:
        fail_unexpected(cursor, f"after {clause}", CLAUSES)
    shown = clause.lower() if name is keyword else name.identifier
    if any(measure.name.lower() == shown.lower() for measure in measures):
        cursor.fail(f"The measure {shown} is given twice.", name, f"Name it: {clause} AS another_name.")
    atom = MatchNumber(keyword.span) if clause == "MATCH_NUMBER" else Classifier(None, keyword.span)
    measures.append(Measure(scalar_of(atom, clause), shown, Span(keyword.start, name.end)))


def _check_comma(cursor: Cursor, begin: int, stop: int) -> None:
    """Refuse a measure that continues after its name, `x AS a y AS b`: a comma is missing."""
    depth = 0
    for index in range(begin, stop - 2):
        token = cursor.tokens[index]
        depth += token.nesting
        if depth == 0 and token.upper == "AS":
            name, after = cursor.tokens[index + 1], cursor.tokens[index + 2]
            cursor.fail(f"Expected ',' after the measure {name.text}, found {describe(after)}.", after, MEASURE)


def _rows_per_match(cursor: Cursor) -> RowsPerMatch:
    words = " ".join(token.upper for token in cursor.tokens[cursor.index - 2 : cursor.index])
    cursor.expect_words("PER", "MATCH", after=words, hint=ROWS)
    option = cursor.token.upper
    result = RowsPerMatch.ONE_ROW if words == "ONE ROW" else RowsPerMatch.ALL_SHOW_EMPTY
    if option in ROW_OPTIONS:
        result, *following = ROW_OPTIONS[option]
        if words == "ONE ROW":
            cursor.fail(f"{option} {' '.join(following)} applies to ALL ROWS PER MATCH only.", None, ROWS)
        cursor.advance()
        cursor.expect_words(*following, after=option, hint=ROWS)
    _expect_end(cursor, "ROWS PER MATCH")
    return result


def _expect_end(cursor: Cursor, after: str) -> None:
    if not cursor.at_end:
        fail_unexpected(cursor, f"after {after}")


def _skip(cursor: Cursor, names: frozenset[str]) -> tuple[SkipTo, str | None, Span]:
    start = cursor.token.start
    cursor.expect_words("SKIP", after="AFTER MATCH", hint=SKIPS)
    label: str | None = None
    if cursor.accept_words("PAST"):
        cursor.expect_words("LAST", "ROW", after="SKIP PAST", hint=SKIPS)
        result = SkipTo.PAST_LAST_ROW
    elif cursor.accept_words("TO"):
        result = SkipTo.LAST_LABEL
        if cursor.accept_words("NEXT", "ROW"):
            result = SkipTo.NEXT_ROW
        else:
            if cursor.token.upper in ("FIRST", "LAST") and cursor.peek().is_identifier:
                result = SkipTo.FIRST_LABEL if cursor.advance().upper == "FIRST" else SkipTo.LAST_LABEL
            token = cursor.expect_identifier("a label to skip to", SKIPS)
            label = label_name(token)
            if label not in names:
                _fail_unknown_label(cursor, token, names)
    else:
        cursor.fail(f"Expected PAST LAST ROW or TO … after SKIP, found {describe(cursor.token)}.", None, SKIPS)
    span = cursor.span_from(start)
    _expect_end(cursor, "AFTER MATCH SKIP")
    return result, label, span


def _fail_unknown_label(cursor: Cursor, token: Token, names: Iterable[str]) -> NoReturn:
    hint = known_labels(names)
    if token.kind is not Kind.NAME and token.identifier.upper() in names:
        hint = f"A name in quotes keeps its case; the pattern has {token.identifier.upper()}."
    cursor.fail(f"{describe(token).strip(chr(39))} is not a label of the pattern.", token, hint)


def _within(cursor: Cursor) -> tuple[Duration | None, Span | None]:
    """Parse the window, and the place of EMIT TIMED OUT MATCHES after it."""
    duration = parse_window(cursor)
    emit, timed_out = cursor.token, None
    if cursor.accept_words("EMIT"):
        if not cursor.accept_words("TIMED", "OUT", "MATCHES"):
            cursor.fail("Expected TIMED OUT MATCHES after EMIT.", None, "Write EMIT TIMED OUT MATCHES.")
        timed_out = cursor.span_from(emit.start)
    elif cursor.token.kind is Kind.NAME:
        cursor.fail(f"{describe(cursor.token)} is not a unit of time.", None, UNITS)
    _expect_end(cursor, "WITHIN")
    return duration, timed_out


def _subsets(cursor: Cursor, labels: list[str]) -> tuple[Subset, ...]:
    subsets: list[Subset] = []
    while not subsets or not cursor.at_end:
        if subsets:
            cursor.expect_symbol(",", "between subsets", SUBSET)
        token = cursor.expect_identifier("the name of a subset")
        name = label_name(token)
        if name in labels:
            cursor.fail(f"{token.text} is a label of the pattern already.", token, "Give the subset its own name.")
        if any(subset.name == name for subset in subsets):
            cursor.fail(f"The subset {token.text} is defined twice.", token, "Keep one of them.")
        cursor.expect_symbol("=", f"after SUBSET {token.text}", SUBSET)
        cursor.expect_symbol("(", "before the labels of the subset", SUBSET)
        members: list[str] = []
        while not members or cursor.accept_symbol(","):
            member = cursor.expect_identifier("a label of the pattern", SUBSET)
            if any(subset.name == label_name(member) for subset in subsets):
                cursor.fail(f"{member.text} is a subset; a subset is made of labels.", member, known_labels(labels))
            if label_name(member) not in labels:
                _fail_unknown_label(cursor, member, labels)
            if label_name(member) in members:
                cursor.fail(f"{member.text} is in the subset {token.text} already.", member, "Name each label once.")
            members.append(label_name(member))
        closing = cursor.expect_symbol(")", "after the labels of the subset", SUBSET)
        subsets.append(Subset(name, tuple(members), Span(token.start, closing.end)))
    return tuple(subsets)


def _definitions(
    cursor: Cursor, labels: list[str], names: frozenset[str], subsets: tuple[Subset, ...]
) -> tuple[Definition, ...]:
    definitions: list[Definition] = []
    more = True
    while more:
        token = cursor.expect_identifier("a label to define", DEFINITION)
        label = label_name(token)
        if any(subset.name == label for subset in subsets):
            message = f"{token.text} is a subset; only labels of the pattern can be defined."
            cursor.fail(message, token, known_labels(labels))
        if label not in labels:
            _fail_unknown_label(cursor, token, labels)
        if any(definition.label == label for definition in definitions):
            cursor.fail(f"{token.text} is defined twice.", token, "Join the conditions with AND or OR.")
        if cursor.token.upper != "AS":
            cursor.fail(f"Expected AS after {token.text}, found {describe(cursor.token)}.", None, DEFINITION)
        cursor.advance()
        begin = cursor.index
        stop = _definition_end(cursor)
        if begin == stop:
            cursor.index = begin
            cursor.fail(f"Expected a condition for {token.text}, found {describe(cursor.token)}.", None, DEFINITION)
        _refuse_random(cursor.part(begin, stop))
        condition = parse_scalar(cursor.part(begin, stop), names)
        definitions.append(Definition(label, condition, Span(token.start, cursor.tokens[stop - 1].end)))
        more = not cursor.at_end
        cursor.accept_symbol(",")
    return tuple(definitions)


def _refuse_random(cursor: Cursor) -> None:
    """A condition must be the same however often and in whatever order it is tested."""
    while not cursor.at_end:
        token = cursor.advance()
        after_dot = cursor.peek(-2).is_symbol(".")
        if token.kind is Kind.NAME and token.upper in RANDOM and cursor.token.is_symbol("(") and not after_dot:
            hint = "Compute it as a column in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…)."
            cursor.fail(f"{token.upper} has another value each time; a condition must not depend on it.", token, hint)


def _definition_end(cursor: Cursor) -> int:
    """The next comma, or where `label AS` begins after a closing parenthesis (the papers leave the comma out)."""
    begin = cursor.index
    while not cursor.at_end and not cursor.token.is_symbol(","):
        if cursor.index > begin and cursor.token.is_name and cursor.peek().upper == "AS":
            if cursor.peek(-1).is_symbol(")"):
                break
            hint = "Write DEFINE A AS condition, B AS condition."
            cursor.fail(f"Expected ',' before the definition of {cursor.token.text}.", None, hint)
        cursor.skip()
    return cursor.index
