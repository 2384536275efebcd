"""Scalar expressions of row patterns: navigation, aggregates, CLASSIFIER, columns of labels, subqueries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from episode.errors import EpisodeUnsupportedError
from episode.lang.cursor import Cursor, known_labels, label_name, top_words
from episode.lang.functions import (
    GENERATORS,
    NAVIGATIONS,
    OTHER_SPARK_AGGREGATES,
    ROW_FUNCTIONS,
    SYNONYMS,
    aggregate_arguments,
)
from episode.lang.lexer import Kind, Token, tokenize, words_of
from episode.lang.lifting import (
    PLACEHOLDER,
    is_keyword,
    is_quantifier,
    lift_arguments,
    lift_scalar,
    read_call,
    refuse_modifiers_inside,
)
from episode.lang.rows.syntax import (
    Classifier,
    FunctionCall,
    MatchNumber,
    MatchRecognize,
    Navigation,
    PatternWindow,
    scalars_of,
)
from episode.lang.spark_expression import ROW_PATTERNS, Surroundings
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Mode, Scalar, Source, Span
from episode.lang.trees import exp


def conjuncts_of(condition: Scalar, source: Source, names: frozenset[str]) -> tuple[Scalar, ...]:
    """The parts of a condition that must all hold, in the order of the text. names: labels and subsets."""
    tokens = tokenize(source.text)
    begin = next(at for at, token in enumerate(tokens) if token.start >= condition.span.start)
    end = next(at for at, token in enumerate(tokens) if token.start >= condition.span.end or at == len(tokens) - 1)
    parts = list(_parts(source.text, tokens, begin, end))
    if len(parts) == 1:
        return (condition,)
    return tuple(parse_scalar(Cursor(source.text, tokens, first, last), names) for first, last in parts)


def _parts(text: str, tokens: Sequence[Token], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The conjuncts of tokens[begin:end]; brackets around all of them are passed over."""
    if _is_bracketed(tokens, begin, end):
        yield from _parts(text, tokens, begin + 1, end - 1)
        return
    cursor = Cursor(text, tokens, begin, end)
    joints = [] if top_words(cursor, begin, end, "OR", "XOR") else top_words(cursor, begin, end, "AND")
    if not joints:
        yield begin, end
        return
    for before, after in pairwise([begin - 1, *joints, end]):
        yield from _parts(text, tokens, before + 1, after)


def _is_bracketed(tokens: Sequence[Token], begin: int, end: int) -> bool:
    """Does one pair of brackets enclose all of it?"""
    depth = 0
    for at in range(begin, end):
        depth += tokens[at].is_symbol("(")
        depth -= tokens[at].is_symbol(")")
        if depth == 0:
            return at == end - 1 and at > begin
    return False


# Subqueries in MEASURES and DEFINE: `(SELECT avg(v) FROM q)`, `v IN (SELECT …)`, `EXISTS (SELECT …)`.
#
# A parameter takes the place of a subquery in the expression around it. Its name holds the form of the subquery and its
# place in the statement, so that a runtime with access to the tables can bind a value to it.


VALUE, LIST, EXISTS = "value", "list", "exists"
SUBQUERY = f"{PLACEHOLDER}subquery_"
_NAME = re.compile(rf"{SUBQUERY}({VALUE}|{LIST}|{EXISTS})_(\d+)_(\d+)")
_BEFORE = words_of("""
    AND AS BETWEEN CASE DIV ELSE ILIKE IN IS LIKE MEASURES NOT OR REGEXP RLIKE THEN WHEN
""")
"""Words before a bracket that do not make it a call."""


@dataclass(frozen=True)
class Subquery:
    """A subquery. name: of the parameter in its place. form: VALUE, LIST (after IN) or EXISTS. span: its text."""

    name: str
    form: str
    span: Span


def subquery_at(cursor: Cursor) -> str | None:
    """Read the subquery at the cursor and return Spark's text in its place; None at other tokens."""
    token, before = cursor.token, cursor.peek(-1)
    exists = token.kind is Kind.NAME and token.upper == "EXISTS"
    opening = cursor.index + exists
    if not cursor.tokens[opening].is_symbol("(") or not _begins_query(cursor.tokens, opening + 1):
        return None
    if not exists and before.is_name and before.upper not in _BEFORE:
        return None
    form = EXISTS if exists else LIST if before.upper == "IN" else VALUE
    cursor.index = opening
    closing = cursor.skip_group()
    span = Span(cursor.tokens[opening + 1].start, cursor.tokens[closing - 1].end)
    name = f":{SUBQUERY}{form}_{span.start}_{span.end}"
    return f"({name})" if form == LIST else name


def _begins_query(tokens: Sequence[Token], at: int) -> bool:
    word, following = tokens[at].upper, tokens[min(at + 1, len(tokens) - 1)]
    if tokens[at].kind is not Kind.NAME:
        return False
    if word == "SELECT":
        return not following.is_symbol(".")
    if word == "VALUES":
        return following.is_symbol("(")
    return word in ("WITH", "FROM", "TABLE") and following.is_name


def subqueries_of(query: object) -> tuple[Subquery, ...]:
    """The subqueries of a row pattern, in the order of the text; other patterns have none."""
    scalars: list[Scalar] = []
    if isinstance(query, PatternWindow):
        scalars += [call.expression for call in query.calls if isinstance(call, FunctionCall)]
        query = query.clause
    if isinstance(query, MatchRecognize):
        scalars += [measure.expression for measure in query.measures]
        scalars += [definition.condition for definition in query.definitions]
    found: dict[str, Subquery] = {}
    for node in (node for scalar in scalars_of(scalars) for node in scalar.tree.find_all(exp.Placeholder)):
        name = _NAME.fullmatch(node.name)
        if name is not None:
            form, start, end = name.groups()
            found[node.name] = Subquery(node.name, form, Span(int(start), int(end)))
    return tuple(sorted(found.values(), key=lambda one: one.span.start))


def with_subqueries(sql: str, statement: str) -> str:
    """An expression for Spark with the subqueries of a statement in place of their parameters, for people to read."""

    def subquery_text(found: re.Match[str]) -> str:
        form, start, end = found.groups()
        text = statement[int(start) : int(end)]
        return text if form == LIST else f"EXISTS ({text})" if form == EXISTS else f"({text})"

    return re.sub(f":{_NAME.pattern}", subquery_text, sql)


MAXIMUM_OFFSET = 2**31 - 1
SORTED = "The values come in the order of the rows; sort an array with array_sort or sort_array."
WITHOUT_NULLS = "array_agg leaves nulls out: try_element_at(array_agg(x), 1) is the first value that is not null."
MODIFIERS = {
    ("OVER",): "The label determines the rows: sum(A.x) covers the rows of A.",
    ("FILTER",): "Put the condition inside: sum(CASE WHEN condition THEN x END), or count_if(condition).",
    ("WITHIN", "GROUP"): SORTED,
    ("ORDER", "BY"): SORTED,
    ("DISTINCT",): "Collect distinct values with collect_set: size(collect_set(x)) counts them.",
    ("IGNORE", "NULLS"): WITHOUT_NULLS,
    ("RESPECT", "NULLS"): "Nulls are respected anyway; leave it out.",
}


@dataclass(frozen=True)
class RowAtoms:
    """Navigation, aggregates, CLASSIFIER, MATCH_NUMBER, and columns of labels."""

    labels: frozenset[str]
    inside: str | None
    surroundings: Surroundings = ROW_PATTERNS

    def read(self, cursor: Cursor) -> Atom | str | None:
        return subquery_at(cursor) or _call_at(cursor, self) or _labelled_column(cursor, self.labels)

    def column(self, _cursor: Cursor, fields: tuple[str, ...], quoted: bool, span: Span) -> Atom:
        name = fields[0] if quoted else fields[0].upper()
        if len(fields) > 1 and name in self.labels:
            return ColumnRef(name, fields[1:], span)
        return ColumnRef(None, fields, span)


def parse_scalar(cursor: Cursor, labels: frozenset[str], inside: str | None = None) -> Scalar:
    """The expression between the cursor and its end. `inside` names the call that this is an argument of."""
    return lift_scalar(cursor, RowAtoms(labels, inside))


def _call_at(cursor: Cursor, reader: RowAtoms) -> Atom | None:
    token, following = cursor.token, cursor.peek()
    if token.kind is not Kind.NAME or cursor.peek(-1).is_symbol("."):
        return None
    mode: Mode | None = None
    name = token
    moded = token.upper in ("RUNNING", "FINAL")
    if moded and following.is_name and cursor.peek(2).is_symbol("."):
        hint = f"Write {token.upper} LAST(A.x)."
        cursor.fail(f"{token.upper} applies to FIRST, LAST and aggregates, not to a column.", token, hint)
    if moded and following.kind is Kind.NAME and cursor.peek(2).is_symbol("("):
        mode, name = Mode(token.upper), following
        if name.upper not in NAVIGATIONS and aggregate_arguments(name.upper) is None:
            hint = f"Write {mode.value} directly before the navigation or aggregate."
            cursor.fail(f"{mode.value} applies to FIRST, LAST and aggregates, not to {name.text}.", token, hint)
    elif not following.is_symbol("("):
        return None
    word = name.upper
    if is_quantifier(cursor, name):
        return None
    if word in NAVIGATIONS or word in ROW_FUNCTIONS or aggregate_arguments(word) is not None:
        inside, moved = reader.inside, word in ("FIRST", "LAST") and reader.inside in ("PREV", "NEXT")
        if inside is not None and word not in ROW_FUNCTIONS and not moved:
            hint = "Navigation and aggregates may not contain each other."
            if inside in NAVIGATIONS and word in NAVIGATIONS:
                hint = "Only PREV and NEXT may contain FIRST or LAST: PREV(LAST(A.x, 1), 2)."
            cursor.fail(f"{word} is not allowed inside {inside}.", name, hint)
        cursor.index += 2 if mode else 1
        return _call(cursor, token, name, mode, reader.labels)
    if word in GENERATORS:
        hint = "Apply it to the result: SELECT …, explode(values) FROM t MATCH_RECOGNIZE (…)."
        cursor.fail(f"{word} makes several rows of one, which an expression of MATCH_RECOGNIZE cannot.", name, hint)
    if word in OTHER_SPARK_AGGREGATES:
        message = f"The aggregate {name.text} is not evaluated over the rows of a match."
        hint = "Collect the values with array_agg and apply Spark's array functions to them."
        cursor.fail(message, name.span, hint, EpisodeUnsupportedError)
    return None


def _call(cursor: Cursor, first: Token, name: Token, mode: Mode | None, labels: frozenset[str]) -> Atom:
    arguments, span = read_call(cursor, first, name, MODIFIERS, ROW_PATTERNS.name)
    word = name.upper
    if word == "CLASSIFIER":
        if not arguments:
            return Classifier(None, span)
        begin, end = arguments[0]
        token = cursor.tokens[begin]
        if len(arguments) > 1 or end - begin != 1 or label_name_or_none(token) not in labels:
            cursor.fail("CLASSIFIER takes no argument or one label of the pattern.", token, known_labels(labels))
        return Classifier(label_name(token), span)
    if word == "MATCH_NUMBER":
        if arguments:
            cursor.fail("MATCH_NUMBER takes no argument.", cursor.tokens[arguments[0][0]], "Write MATCH_NUMBER().")
        return MatchNumber(span)
    if word in NAVIGATIONS:
        return _navigation(cursor, name, arguments, mode, labels, span)
    return _aggregate(cursor, name, arguments, mode, labels, span)


def label_name_or_none(token: Token) -> str | None:
    return label_name(token) if token.is_identifier else None


def _navigation(
    cursor: Cursor, name: Token, arguments: list[tuple[int, int]], mode: Mode | None, labels: frozenset[str], span: Span
) -> Navigation:
    word = name.upper
    if not 1 <= len(arguments) <= 2:
        hint = f"Write {word}(A.x) or {word}(A.x, 2)."
        cursor.fail(f"{word} takes an expression and an optional offset.", name, hint)
    physical = word in ("PREV", "NEXT")
    offset = _offset(cursor, arguments[1], word) if len(arguments) == 2 else (1 if physical else 0)
    begin, end = arguments[0]
    refuse_modifiers_inside(cursor, begin, end, name, MODIFIERS, ROW_PATTERNS.name)
    if physical and mode is not None:
        cursor.fail(f"{mode.value} does not apply to {word}.", name, f"Write {word}({mode.value} LAST(A.x)).")
    argument = parse_scalar(cursor.part(begin, end), labels, inside=word)
    moved = -offset if word == "PREV" else offset
    inner = next((atom for _, atom in argument.atoms if isinstance(atom, Navigation)), None)
    if inner is not None:
        if argument.only_atom is None:
            message = f"{word} may contain {inner.logical} only as its whole argument."
            cursor.fail(message, name, "Write PREV(LAST(A.x, 1), 2).")
        return replace(inner, physical_offset=moved, span=span)
    if physical:
        return Navigation(argument, "LAST", 0, moved, None, span)
    return Navigation(argument, word, offset, 0, mode, span)


def _offset(cursor: Cursor, argument: tuple[int, int], word: str) -> int:
    begin, end = argument
    token = cursor.tokens[begin]
    if end - begin != 1 or token.kind is not Kind.NUMBER or not (token.text.isascii() and token.text.isdigit()):
        whole = Span(token.start, cursor.tokens[end - 1].end)
        other = {"PREV": "NEXT", "NEXT": "PREV", "FIRST": "LAST", "LAST": "FIRST"}[word]
        hint = f"Write for example {word}(A.x, 2); {other} goes the other way."
        cursor.fail(f"The offset of {word} must be a whole number, written out and not negative.", whole, hint)
    if len(token.text) > 10 or int(token.text) > MAXIMUM_OFFSET:
        cursor.fail(f"The offset of {word} can be at most {MAXIMUM_OFFSET:,}.", token)
    return int(token.text)


def _aggregate(
    cursor: Cursor, name: Token, arguments: list[tuple[int, int]], mode: Mode | None, labels: frozenset[str], span: Span
) -> Aggregate:
    word = name.upper
    number, reader = aggregate_arguments(word) or 1, RowAtoms(labels, word)
    if word == "COUNT" and len(arguments) == 1:
        begin, end = arguments[0]
        tokens = cursor.tokens[begin:end]
        if len(tokens) == 1 and tokens[0].is_symbol("*"):
            return Aggregate("count", (), True, None, mode, span)
        if len(tokens) == 3 and tokens[1].is_symbol(".") and tokens[2].is_symbol("*"):
            label = label_name_or_none(tokens[0])
            if label not in labels:
                cursor.fail(f"{tokens[0].text} is not a label of the pattern.", tokens[0], known_labels(labels))
            return Aggregate("count", (), True, label, mode, span)
    parsed = lift_arguments(cursor, name, arguments, number, reader, MODIFIERS, "A")
    return Aggregate(SYNONYMS.get(word, word.lower()), parsed, False, None, mode, span)


def _labelled_column(cursor: Cursor, labels: frozenset[str]) -> ColumnRef | None:
    """A column of a label that Spark's grammar would trip over: `"b".price` (a string there), `SELECT.price`."""
    token = cursor.token
    if not token.is_double_quoted and not is_keyword(token):
        return None
    if not cursor.peek().is_symbol(".") or cursor.peek(-1).is_symbol(".") or label_name(token) not in labels:
        return None
    name = cursor.peek(2)
    if not name.is_name:
        return None
    cursor.index += 3
    return ColumnRef(label_name(token), (name.identifier,), Span(token.start, name.end))
