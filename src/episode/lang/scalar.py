"""Scalar expressions: what episode evaluates is lifted out as atoms, the rest stays the user's own Spark SQL.

Steps: (1) navigation, aggregates, CLASSIFIER and MATCH_NUMBER calls are found in the tokens and replaced by
placeholders; (2) sqlglot parses the text, which checks it and finds the columns; (3) the columns become
placeholders as well; (4) the final text is parsed once more, so tree and text agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from episode.errors import EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, label_name
from episode.lang.functions import AGGREGATES, NAVIGATIONS, OTHER_SPARK_AGGREGATES, ROW_FUNCTIONS, SYNONYMS
from episode.lang.lexer import Kind, Token
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
MAXIMUM_OFFSET = 2**31 - 1
FORBIDDEN_NODES = (exp.Query, exp.Alias, exp.Command, exp.Window, exp.DDL, exp.DML, exp.Aliases)


@dataclass
class _Text:
    """Text under construction, with the way back from its offsets to the query's."""

    source: str
    pieces: list[str] = field(default_factory=list)
    origins: list[tuple[int, int]] = field(default_factory=list)
    length: int = 0

    def add(self, piece: str, origin: int) -> None:
        self.origins.append((self.length, origin))
        self.pieces.append(piece)
        self.length += len(piece)

    def origin(self, offset: int) -> int:
        start, origin = max((pair for pair in self.origins if pair[0] <= offset), default=(0, 0))
        return origin + offset - start

    def __str__(self) -> str:
        return "".join(self.pieces)


def parse_scalar(cursor: Cursor, labels: frozenset[str], inside: str | None = None) -> Scalar:
    """The expression between the cursor and its end. `inside` names the call that this is an argument of."""
    if cursor.at_end:
        cursor.fail("Expected an expression here.")
    start, stop = cursor.token.start, cursor.tokens[cursor.end - 1].end
    atoms: list[Atom] = []
    text = _lift_calls(cursor, labels, inside, atoms)
    lifted = str(text)
    replacements = _column_replacements(lifted, text, labels, atoms)
    text_final, ordered = _splice(lifted, replacements, atoms)
    tree = _parse_sql(text_final, cursor.source, Span(start, stop), None)
    return Scalar(text_final, tree, ordered, cursor.source[start:stop], Span(start, stop))


# ---- step 1: calls that are episode's own ------------------------------------------------------------


def _lift_calls(cursor: Cursor, labels: frozenset[str], inside: str | None, atoms: list[Atom]) -> _Text:
    source = cursor.source
    text = _Text(source)
    at = cursor.token.start
    while not cursor.at_end:
        token = cursor.token
        atom = _call_at(cursor, labels, inside) or _quoted_column(cursor, labels)
        if atom is None:
            cursor.advance()
            continue
        text.add(source[at : token.start], at)
        text.add(f" {PLACEHOLDER}{len(atoms)} ", token.start)
        atoms.append(atom)
        at = cursor.tokens[cursor.index - 1].end
    text.add(source[at : cursor.tokens[cursor.end - 1].end], at)
    return text


def _call_at(cursor: Cursor, labels: frozenset[str], inside: str | None) -> Atom | None:
    token, following = cursor.token, cursor.peek()
    if token.kind is not Kind.NAME or cursor.peek(-1).is_symbol("."):
        return None
    mode: Mode | None = None
    name = token
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
    if (following.upper in ("OVER", "FILTER", "WITHIN") and cursor.peek().is_symbol("(")) or cursor.at_words(
        "WITHIN", "GROUP"
    ):
        cursor.fail(f"{following.upper} is not allowed after {name.text} here.", following)
    if cursor.at_words("IGNORE", "NULLS") or cursor.at_words("RESPECT", "NULLS"):
        cursor.fail(f"{following.upper} NULLS is not allowed after {name.text} here.", following)
    arguments = _split_arguments(cursor, opening_index + 1, closing_index)
    word = name.upper
    if word == "CLASSIFIER":
        return _classifier(cursor, name, arguments, labels, span)
    if word == "MATCH_NUMBER":
        if arguments:
            cursor.fail("MATCH_NUMBER takes no argument.", cursor.tokens[arguments[0][0]])
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
            cursor.fail("Expected an argument here.", cursor.tokens[begin])
    return ranges


def _classifier(
    cursor: Cursor, name: Token, arguments: list[tuple[int, int]], labels: frozenset[str], span: Span
) -> Classifier:
    if not arguments:
        return Classifier(None, span)
    begin, end = arguments[0]
    token = cursor.tokens[begin]
    if len(arguments) > 1 or end - begin != 1 or label_name_or_none(token) not in labels:
        cursor.fail("CLASSIFIER takes no argument or one label of the pattern.", token, _known(labels))
    return Classifier(label_name(token), span)


def label_name_or_none(token: Token) -> str | None:
    if token.kind in (Kind.NAME, Kind.QUOTED) or token.is_double_quoted:
        return label_name(token)
    return None


def _known(labels: frozenset[str]) -> str:
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
        cursor.fail(f"The offset of {word} must be a whole number that is not negative.", token)
    if len(token.text) > 10 or int(token.text) > MAXIMUM_OFFSET:
        cursor.fail(f"The offset of {word} can be at most {MAXIMUM_OFFSET}.", token)
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
                shown = word if word == "DISTINCT" else f"{word} {following}"
                cursor.fail(f"{shown} is not allowed inside {name.text} here.", token)


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
                cursor.fail(f"{tokens[0].text} is not a label of the pattern.", tokens[0], _known(labels))
            return Aggregate("count", (), True, label, mode, span)
    if not least <= len(arguments) <= most:
        wanted = "one argument" if most == 1 else f"{most} arguments"
        cursor.fail(f"{word} takes {wanted}, not {len(arguments)}.", name)
    parsed = []
    for begin, end in arguments:
        _refuse_modifiers(cursor, begin, end, name)
        parsed.append(parse_scalar(Cursor(cursor.source, cursor.tokens, begin, end), labels, inside=word))
    return Aggregate(function, tuple(parsed), False, None, mode, span)


def _quoted_column(cursor: Cursor, labels: frozenset[str]) -> ColumnRef | None:
    """`"b".price`: a label in double quotes, which Spark would read as a string."""
    token = cursor.token
    if not token.is_double_quoted or not cursor.peek().is_symbol(".") or token.identifier not in labels:
        return None
    name = cursor.peek(2)
    if name.kind not in (Kind.NAME, Kind.QUOTED):
        return None
    cursor.index += 3
    return ColumnRef(token.identifier, (name.identifier,), Span(token.start, name.end))


# ---- steps 2 to 4: columns ---------------------------------------------------------------------------


def _parse_sql(text: str, source: str, span: Span, origin: _Text | None) -> exp.Expression:
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        raise _syntax_error(detail, text, source, span, origin, error) from None
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split("\n")[0]
        raise EpisodeSyntaxError(
            f"This expression cannot be read: {reason}",
            source=source,
            position=span.start,
            length=span.end - span.start,
        ) from None
    bad = next((node for node in tree.walk() if isinstance(node, FORBIDDEN_NODES)), None)
    if bad is not None:
        what = "A subquery" if isinstance(bad, exp.Query) else "An alias" if isinstance(bad, exp.Alias) else "This"
        raise EpisodeSyntaxError(
            f"{what} is not allowed in an expression of MATCH_RECOGNIZE.",
            source=source,
            position=span.start,
            length=span.end - span.start,
        )
    return tree


def _syntax_error(
    detail: dict[str, object], text: str, source: str, span: Span, origin: _Text | None, error: ParseError
) -> EpisodeSyntaxError:
    message = str(detail.get("description") or "it is not a Spark SQL expression").rstrip(".")
    position, length = span.start, span.end - span.start
    highlight = str(detail.get("highlight") or "")
    context = str(detail.get("start_context") or "")
    if origin is not None and highlight and PLACEHOLDER not in highlight:
        offset = text.find(context + highlight) + len(context) if len(context) < 100 else -1
        if offset >= 0:
            position, length = origin.origin(offset), len(highlight)
    return EpisodeSyntaxError(
        f"This expression cannot be read: {message}.", source=source, position=position, length=length
    )


def _column_replacements(
    lifted: str, text: _Text, labels: frozenset[str], atoms: list[Atom]
) -> list[tuple[int, int, int]]:
    """(start, end, atom number) in the lifted text for every column that is not a placeholder yet."""
    span = Span(text.origins[0][1], text.origins[-1][1] + len(text.pieces[-1]))
    tree = _parse_sql(lifted, text.source, span, text)
    found: list[tuple[int, int, int]] = []
    for node in tree.walk():
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            if isinstance(node, exp.Star):
                raise EpisodeSyntaxError(
                    "* is only allowed in count(*) and count(label.*).", source=text.source, position=span.start,
                    length=span.end - span.start,
                )  # fmt: skip
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
                source=text.source,
                position=span.start,
                length=span.end - span.start,
            )
        quoted = parts[0].args.get("quoted", False)
        name = fields[0] if quoted else fields[0].upper()
        place = Span(text.origin(start), text.origin(end) + 1)
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
