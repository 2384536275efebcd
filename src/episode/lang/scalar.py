"""Scalar expressions: what episode evaluates is lifted out as atoms, the rest stays the user's own Spark SQL.

Steps: (1) navigation, aggregates, CLASSIFIER and MATCH_NUMBER calls are found in the tokens and replaced by
placeholders; (2) sqlglot parses the text, which checks it and finds the columns; (3) the columns become
placeholders as well; (4) the final text is parsed once more, so tree and text agree.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from episode.errors import EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, describe, label_name
from episode.lang.functions import AGGREGATES, NAVIGATIONS, OTHER_SPARK_AGGREGATES, ROW_FUNCTIONS, SYNONYMS
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.syntax import (
    Aggregate,
    Atom,
    Classifier,
    ColumnRef,
    MatchNumber,
    Mode,
    Navigation,
    Scalar,
    Span,
)

PLACEHOLDER = "__episode_"
KEYWORDS = frozenset(word for word in Spark.Tokenizer.KEYWORDS if word.isalpha())
"""Words that may not be a plain name to sqlglot."""
MAXIMUM_OFFSET = 2**31 - 1
SORTED = "The values come in the order of the rows; sort an array with array_sort or sort_array."
WITHOUT_NULLS = "array_agg leaves nulls out: try_element_at(array_agg(x), 1) is the first value that is not null."
MODIFIERS = {
    ("OVER",): "The label says which rows are meant: sum(A.x) covers the rows of A.",
    ("FILTER",): "Put the condition inside: sum(CASE WHEN condition THEN x END), or count_if(condition).",
    ("WITHIN", "GROUP"): SORTED,
    ("ORDER", "BY"): SORTED,
    ("DISTINCT",): "Collect distinct values with collect_set: size(collect_set(x)) counts them.",
    ("IGNORE", "NULLS"): WITHOUT_NULLS,
    ("RESPECT", "NULLS"): "Nulls are respected anyway; leave it out.",
}
"""What may follow or enter an aggregate in Spark but not here, and what to write instead."""


@dataclass
class _Text:
    """Text under construction, with the way back from its offsets to the query's."""

    pieces: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    origins: list[Span] = field(default_factory=list)
    length: int = 0

    def copy(self, source: str, start: int, end: int) -> None:
        """Text of the query, as it is."""
        self._add(source[start:end], Span(start, end))

    def put(self, piece: str, origin: Span) -> None:
        """Something else in place of a part of the query."""
        self._add(f" {piece} ", origin)

    def _add(self, piece: str, origin: Span) -> None:
        self.starts.append(self.length)
        self.origins.append(origin)
        self.pieces.append(piece)
        self.length += len(piece)

    def place(self, start: int, end: int) -> Span:
        """The part of the query behind a range of this text."""
        return Span(self._origin(start, first=True), self._origin(max(start, end - 1), first=False))

    def _origin(self, offset: int, first: bool) -> int:
        index = bisect_right(self.starts, offset) - 1
        origin, within = self.origins[index], offset - self.starts[index]
        if len(self.pieces[index]) != origin.end - origin.start or self.pieces[index].startswith(" " + PLACEHOLDER):
            return origin.start if first else origin.end
        return origin.start + within + (0 if first else 1)

    def __str__(self) -> str:
        return "".join(self.pieces)


def parse_scalar(cursor: Cursor, labels: frozenset[str], inside: str | None = None) -> Scalar:
    """The expression between the cursor and its end. `inside` names the call that this is an argument of."""
    if cursor.at_end:
        cursor.fail(f"Expected an expression here, found {describe(cursor.token)}.")
    start, stop = cursor.token.start, cursor.tokens[cursor.end - 1].end
    _refuse_reserved(cursor)
    atoms: list[Atom] = []
    text = _lift_calls(cursor, labels, inside, atoms)
    lifted = str(text)
    replacements = _column_replacements(lifted, text, cursor, labels, atoms)
    text_final, ordered = _splice(lifted, replacements, atoms)
    tree = _read(text_final, cursor, None, Span(start, stop))
    return Scalar(text_final, tree, ordered, cursor.source[start:stop], Span(start, stop))


def _refuse_reserved(cursor: Cursor) -> None:
    """Placeholders are found by their name, so the user's text may not hold it, not even in a string."""
    for token in cursor.tokens[cursor.index : cursor.end]:
        if PLACEHOLDER in token.text:
            cursor.fail(f"Names and strings with {PLACEHOLDER} in them are reserved.", token, "Use another name.")


def _read(text: str, cursor: Cursor, origin: _Text | None, span: Span) -> exp.Expression:
    """The tree of a text; what is wrong with it is shown at its place in the query."""
    try:
        return read_expression(text, tokenize(text))
    except Unreadable as problem:
        place = span
        if origin is not None and problem.start is not None and problem.end is not None:
            place = origin.place(problem.start, problem.end)
        shown = cursor.source[place.start : place.end]
        message = re.sub(rf"'?{PLACEHOLDER}\d+'?", lambda _: describe(Token(Kind.NAME, shown, 0, 0)), problem.message)
        raise EpisodeSyntaxError(
            message, source=cursor.source, position=place.start, length=place.end - place.start, hint=problem.hint
        ) from None


# ---- step 1: calls that are episode's own ------------------------------------------------------------


def _lift_calls(cursor: Cursor, labels: frozenset[str], inside: str | None, atoms: list[Atom]) -> _Text:
    source = cursor.source
    text = _Text()
    at = cursor.token.start
    while not cursor.at_end:
        token = cursor.token
        atom = _call_at(cursor, labels, inside) or _labelled_column(cursor, labels)
        if atom is None:
            cursor.advance()
            continue
        text.copy(source, at, token.start)
        at = cursor.tokens[cursor.index - 1].end
        text.put(f"{PLACEHOLDER}{len(atoms)}", Span(token.start, at))
        atoms.append(atom)
    text.copy(source, at, cursor.tokens[cursor.end - 1].end)
    return text


def _call_at(cursor: Cursor, labels: frozenset[str], inside: str | None) -> Atom | None:
    token, following = cursor.token, cursor.peek()
    if token.kind is not Kind.NAME or cursor.peek(-1).is_symbol("."):
        return None
    mode: Mode | None = None
    name = token
    if (
        token.upper in ("RUNNING", "FINAL")
        and following.kind in (Kind.NAME, Kind.QUOTED)
        and cursor.peek(2).is_symbol(".")
    ):
        cursor.fail(
            f"{token.upper} applies to FIRST, LAST and aggregates, not to a column.",
            token,
            f"Write {token.upper} LAST(A.x).",
        )
    if token.upper in ("RUNNING", "FINAL") and following.kind is Kind.NAME and cursor.peek(2).is_symbol("("):
        mode, name = Mode(token.upper), following
        if name.upper not in NAVIGATIONS and name.upper not in AGGREGATES:
            cursor.fail(
                f"{mode.value} applies to FIRST, LAST and aggregates, not to {name.text}.",
                token,
                f"Write {mode.value} directly before the navigation or aggregate.",
            )
    elif not following.is_symbol("("):
        return None
    word = name.upper
    if word in ("ANY", "SOME") and cursor.peek(-1).upper in ("LIKE", "ILIKE", "RLIKE"):
        return None
    if word in NAVIGATIONS or word in ROW_FUNCTIONS or word in AGGREGATES:
        if (
            inside is not None
            and word not in ROW_FUNCTIONS
            and not (word in ("FIRST", "LAST") and inside in ("PREV", "NEXT"))
        ):
            _fail_nested(cursor, name, inside)
        cursor.index += 2 if mode else 1
        return _call(cursor, token, name, mode, labels, inside)
    if word in OTHER_SPARK_AGGREGATES:
        raise EpisodeUnsupportedError(
            f"The aggregate {name.text} is not evaluated over the rows of a match.",
            source=cursor.source,
            position=name.start,
            length=len(name.text),
            hint="Collect the values with array_agg and apply Spark's array functions to them.",
        )
    return None


def _fail_nested(cursor: Cursor, name: Token, inside: str) -> None:
    if inside in NAVIGATIONS and name.upper in NAVIGATIONS:
        hint = "Only PREV and NEXT may contain FIRST or LAST: PREV(LAST(A.x, 1), 2)."
    else:
        hint = "Navigation and aggregates may not contain each other."
    cursor.fail(f"{name.upper} may not stand inside {inside}.", name, hint)


def _call(
    cursor: Cursor, first: Token, name: Token, mode: Mode | None, labels: frozenset[str], inside: str | None
) -> Atom:
    opening_index = cursor.index
    closing_index = cursor.skip_group()
    span = cursor.span_from(first.start)
    following = cursor.token
    for words, hint in MODIFIERS.items():
        if cursor.at_words(*words) and (len(words) > 1 or words == ("OVER",) or cursor.peek().is_symbol("(")):
            cursor.fail(f"{' '.join(words)} is not allowed after {name.text} in MATCH_RECOGNIZE.", following, hint)
    arguments = _split_arguments(cursor, opening_index + 1, closing_index)
    word = name.upper
    if word == "CLASSIFIER":
        return _classifier(cursor, name, arguments, labels, span)
    if word == "MATCH_NUMBER":
        if arguments:
            cursor.fail("MATCH_NUMBER takes no argument.", cursor.tokens[arguments[0][0]], "Write MATCH_NUMBER().")
        return MatchNumber(span)
    if word in NAVIGATIONS:
        return _navigation(cursor, name, arguments, mode, labels, span)
    return _aggregate(cursor, name, arguments, mode, labels, span)


def _split_arguments(cursor: Cursor, start: int, stop: int) -> list[tuple[int, int]]:
    """Token ranges of the arguments between two token indices."""
    if start == stop:
        return []
    ranges, depth, begin = [], 0, start
    for index in range(start, stop):
        token = cursor.tokens[index]
        if token.kind is Kind.SYMBOL:
            if token.text in "([{":
                depth += 1
            elif token.text in ")]}":
                depth -= 1
            elif token.text == "," and depth == 0:
                ranges.append((begin, index))
                begin = index + 1
    ranges.append((begin, stop))
    for begin, end in ranges:
        if begin == end:
            cursor.fail(f"Expected an argument here, found {describe(cursor.tokens[begin])}.", cursor.tokens[begin])
    return ranges


def _classifier(
    cursor: Cursor, name: Token, arguments: list[tuple[int, int]], labels: frozenset[str], span: Span
) -> Classifier:
    if not arguments:
        return Classifier(None, span)
    begin, end = arguments[0]
    token = cursor.tokens[begin]
    if len(arguments) > 1 or end - begin != 1 or label_name_or_none(token) not in labels:
        cursor.fail("CLASSIFIER takes no argument or one label of the pattern.", token, known_labels(labels))
    return Classifier(label_name(token), span)


def label_name_or_none(token: Token) -> str | None:
    if token.kind in (Kind.NAME, Kind.QUOTED) or token.is_double_quoted:
        return label_name(token)
    return None


def known_labels(labels: Iterable[str]) -> str:
    return f"Labels of this pattern: {', '.join(sorted(labels))}."


def _navigation(
    cursor: Cursor,
    name: Token,
    arguments: list[tuple[int, int]],
    mode: Mode | None,
    labels: frozenset[str],
    span: Span,
) -> Navigation:
    word = name.upper
    if not 1 <= len(arguments) <= 2:
        cursor.fail(
            f"{word} takes an expression and an optional offset.", name, f"Write {word}(A.x) or {word}(A.x, 2)."
        )
    physical = word in ("PREV", "NEXT")
    offset = _offset(cursor, arguments[1], word) if len(arguments) == 2 else (1 if physical else 0)
    begin, end = arguments[0]
    _refuse_modifiers(cursor, begin, end, name)
    if physical and mode is not None:
        cursor.fail(f"{mode.value} does not apply to {word}.", name, f"Write {word}({mode.value} LAST(A.x)).")
    argument = parse_scalar(Cursor(cursor.source, cursor.tokens, begin, end), labels, inside=word)
    nested = [atom for _, atom in argument.atoms if isinstance(atom, Navigation)]
    if nested:
        if argument.text.strip() != argument.atoms[0][0]:
            cursor.fail(
                f"{word} may contain {nested[0].logical} only as its whole argument.",
                name,
                "Write PREV(LAST(A.x, 1), 2).",
            )
        inner = nested[0]
        return Navigation(
            inner.argument, inner.logical, inner.logical_offset, -offset if word == "PREV" else offset, inner.mode, span
        )
    if physical:
        return Navigation(argument, "LAST", 0, -offset if word == "PREV" else offset, None, span)
    return Navigation(argument, word, offset, 0, mode, span)


def _offset(cursor: Cursor, argument: tuple[int, int], word: str) -> int:
    begin, end = argument
    token = cursor.tokens[begin]
    if end - begin != 1 or token.kind is not Kind.NUMBER or not (token.text.isascii() and token.text.isdigit()):
        whole = Token(Kind.NAME, "", token.start, cursor.tokens[end - 1].end)
        other = {"PREV": "NEXT", "NEXT": "PREV", "FIRST": "LAST", "LAST": "FIRST"}[word]
        cursor.fail(
            f"The offset of {word} must be a whole number, written out and not negative.",
            whole,
            f"Write for example {word}(A.x, 2); {other} goes the other way.",
        )
    if len(token.text) > 10 or int(token.text) > MAXIMUM_OFFSET:
        cursor.fail(f"The offset of {word} can be at most {MAXIMUM_OFFSET:,}.", token)
    return int(token.text)


def _refuse_modifiers(cursor: Cursor, begin: int, end: int, name: Token) -> None:
    """DISTINCT, ORDER BY and IGNORE NULLS inside a call are not part of row pattern recognition."""
    depth = 0
    for index in range(begin, end):
        token = cursor.tokens[index]
        if token.kind is Kind.SYMBOL and token.text in "([":
            depth += 1
        elif token.kind is Kind.SYMBOL and token.text in ")]":
            depth -= 1
        elif depth == 0:
            word, following = token.upper, cursor.tokens[index + 1].upper if index + 1 < end else ""
            bad = (word == "DISTINCT" and index == begin) or (word == "ORDER" and following == "BY")
            if bad or (word in ("IGNORE", "RESPECT") and following == "NULLS"):
                words = (word,) if word == "DISTINCT" else (word, following)
                cursor.fail(
                    f"{' '.join(words)} is not allowed inside {name.text} in MATCH_RECOGNIZE.", token, MODIFIERS[words]
                )


def _aggregate(
    cursor: Cursor,
    name: Token,
    arguments: list[tuple[int, int]],
    mode: Mode | None,
    labels: frozenset[str],
    span: Span,
) -> Aggregate:
    word = name.upper
    function = SYNONYMS.get(word, word.lower())
    least, most = AGGREGATES[word]
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
    if not least <= len(arguments) <= most:
        wanted = "one argument" if most == 1 else f"{most} arguments"
        example = f"{name.text}(A.x)" if most == 1 else f"{name.text}(A.x, A.y)"
        cursor.fail(f"{word} takes {wanted}, not {len(arguments)}.", name, f"Write for example {example}.")
    parsed = []
    for begin, end in arguments:
        _refuse_modifiers(cursor, begin, end, name)
        parsed.append(parse_scalar(Cursor(cursor.source, cursor.tokens, begin, end), labels, inside=word))
    return Aggregate(function, tuple(parsed), False, None, mode, span)


def _labelled_column(cursor: Cursor, labels: frozenset[str]) -> ColumnRef | None:
    """A column of a label that Spark's grammar would trip over: `"b".price` (a string there), `SELECT.price`."""
    token = cursor.token
    if not token.is_double_quoted and token.upper not in KEYWORDS:
        return None
    if not cursor.peek().is_symbol(".") or cursor.peek(-1).is_symbol(".") or label_name(token) not in labels:
        return None
    name = cursor.peek(2)
    if name.kind not in (Kind.NAME, Kind.QUOTED):
        return None
    cursor.index += 3
    return ColumnRef(label_name(token), (name.identifier,), Span(token.start, name.end))


# ---- steps 2 to 4: columns ---------------------------------------------------------------------------


def _column_replacements(
    lifted: str, text: _Text, cursor: Cursor, labels: frozenset[str], atoms: list[Atom]
) -> list[tuple[int, int, int]]:
    """(start, end, atom number) in the lifted text for every column that is not a placeholder yet."""
    span = Span(text.origins[0].start, text.origins[-1].end)
    tree = _read(lifted, cursor, text, span)
    found: list[tuple[int, int, int]] = []
    for node in tree.walk():
        if not isinstance(node, exp.Column):
            continue
        parts = node.parts
        chain: exp.Expression = node
        fields = [part.name for part in parts]
        last = parts[-1]
        while isinstance(chain.parent, exp.Dot) and isinstance(chain.parent.expression, exp.Identifier):
            chain = chain.parent
            last = chain.expression
            fields.append(last.name)
        if fields[0].startswith(PLACEHOLDER):
            continue
        start, end = parts[0].meta.get("start"), last.meta.get("end")
        if start is None or end is None:
            raise EpisodeUnsupportedError(
                f"The column {'.'.join(fields)} cannot be located in this expression.",
                source=cursor.source,
                position=span.start,
                length=span.end - span.start,
            )
        quoted = parts[0].args.get("quoted", False)
        name = fields[0] if quoted else fields[0].upper()
        place = text.place(start, end + 1)
        if len(fields) > 1 and name in labels:
            atoms.append(ColumnRef(name, tuple(fields[1:]), place))
        else:
            atoms.append(ColumnRef(None, tuple(fields), place))
        found.append((start, end + 1, len(atoms) - 1))
    return sorted(found)


def _splice(
    lifted: str, replacements: list[tuple[int, int, int]], atoms: list[Atom]
) -> tuple[str, tuple[tuple[str, Atom], ...]]:
    """Replace the columns, then number all placeholders in order of appearance."""
    pieces, at = [], 0
    for start, end, number in replacements:
        pieces += [lifted[at:start], f"{PLACEHOLDER}{number}"]
        at = end
    pieces.append(lifted[at:])
    joined = "".join(pieces)
    order = [int(found) for found in re.findall(rf"\b{PLACEHOLDER}(\d+)\b", joined)]
    renumbered = {old: new for new, old in enumerate(order)}
    text = re.sub(rf"\b{PLACEHOLDER}(\d+)\b", lambda m: f"{PLACEHOLDER}{renumbered[int(m.group(1))]}", joined)
    return text, tuple((f"{PLACEHOLDER}{new}", atoms[old]) for new, old in enumerate(order))
