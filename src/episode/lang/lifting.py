"""Lifting: what episode evaluates in a scalar expression is replaced by placeholders, the rest stays Spark SQL.

Steps: (1) atoms that Spark's grammar does not know, and calls that are episode's own, are found in the tokens and
replaced by placeholders; (2) sqlglot parses the text, which checks it and finds the columns; (3) the columns become
placeholders as well; (4) the final text is parsed once more, so tree and text agree.

The atoms depend on the language: see `AtomReader`.

See decision 12.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NoReturn, Protocol

from episode.errors import EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, describe
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.spark_expression import Surroundings, Unreadable, read_expression
from episode.lang.syntax import Scalar, Source, Span
from episode.lang.trees import exp

PLACEHOLDER = "__episode_"


class AtomReader(Protocol):
    """The atoms of one language."""

    @property
    def surroundings(self) -> Surroundings: ...

    def read(self, cursor: Cursor) -> Any:
        """Read the atom at the cursor and advance: the atom, or Spark's text for it; None at other tokens."""

    def column(self, cursor: Cursor, fields: tuple[str, ...], quoted: bool, span: Span) -> Any:
        """The atom of a column that sqlglot has found. quoted: is its first name?"""


@dataclass
class _Text:
    """Text under construction, with the way back from its offsets to the query's."""

    parts: list[tuple[int, str, Span, bool]] = field(default_factory=list)
    """Pieces: beginning here, text, origin, and whether it is a copy."""
    length: int = 0

    def copy(self, source: str, start: int, end: int) -> None:
        self._add(source[start:end], Span(start, end), True)

    def put(self, piece: str, origin: Span) -> None:
        """Something else in place of a part of the query."""
        self._add(f" {piece} ", origin, False)

    def _add(self, piece: str, origin: Span, copied: bool) -> None:
        self.parts.append((self.length, piece, origin, copied))
        self.length += len(piece)

    def place(self, start: int, end: int) -> Span:
        """The part of the query after a range of this text."""
        return Span(self._origin(start, first=True), self._origin(max(start, end - 1), first=False))

    def _origin(self, offset: int, first: bool) -> int:
        begin, _, origin, copied = self.parts[bisect_right(self.parts, offset, key=itemgetter(0)) - 1]
        if not copied:
            return origin.start if first else origin.end
        return origin.start + offset - begin + (0 if first else 1)

    def __str__(self) -> str:
        return "".join(piece for _, piece, _, _ in self.parts)


def lift_scalar(cursor: Cursor, reader: AtomReader) -> Scalar:
    """The expression between the cursor and its end."""
    if cursor.at_end:
        cursor.fail(f"Expected an expression here, found {describe(cursor.token)}.")
    span = Span(cursor.token.start, cursor.tokens[cursor.end - 1].end)
    refuse_reserved(cursor)
    atoms: list[Any] = []
    text = _lift(cursor, reader, atoms)
    lifted = str(text)
    replacements = _column_replacements(lifted, text, cursor, reader, atoms)
    text_final, ordered = _splice(lifted, replacements, atoms)
    tree = _read(text_final, cursor, None, span, reader)
    return Scalar(text_final, tree, ordered, cursor.source[span.start : span.end], span)


def refuse_reserved(cursor: Cursor) -> None:
    """Placeholders are found by their name, so the user's text may not hold it, not even in a string."""
    for token in cursor.tokens[cursor.index : cursor.end]:
        if PLACEHOLDER in token.text:
            cursor.fail(f"Names and strings with {PLACEHOLDER} in them are reserved.", token, "Use another name.")


def _read(text: str, cursor: Cursor, origin: _Text | None, span: Span, reader: AtomReader) -> exp.Expression:
    """The tree of a text; what is wrong with it is shown at its place in the query."""
    try:
        return read_expression(text, tokenize(text), reader.surroundings)
    except Unreadable as problem:
        place = span
        if origin is not None and problem.start is not None and problem.end is not None:
            place = origin.place(problem.start, problem.end)
        shown = cursor.source[place.start : place.end]
        message = re.sub(rf"'?{PLACEHOLDER}\d+'?", lambda _: describe(Token(Kind.NAME, shown, 0, 0)), problem.message)
        raise Source(cursor.source).error(EpisodeSyntaxError, message, place, problem.hint) from None


def _lift(cursor: Cursor, reader: AtomReader, atoms: list[Any]) -> _Text:
    """Step 1."""
    source = cursor.source
    text = _Text()
    at = cursor.token.start
    while not cursor.at_end:
        token = cursor.token
        found = reader.read(cursor)
        if found is None:
            cursor.advance()
            continue
        text.copy(source, at, token.start)
        at = cursor.tokens[cursor.index - 1].end
        if isinstance(found, str):
            text.put(found, Span(token.start, at))
        else:
            text.put(f"{PLACEHOLDER}{len(atoms)}", Span(token.start, at))
            atoms.append(found)
    text.copy(source, at, cursor.tokens[cursor.end - 1].end)
    return text


# ---- steps 2 to 4: columns ---------------------------------------------------------------------------


def _column_replacements(
    lifted: str, text: _Text, cursor: Cursor, reader: AtomReader, atoms: list[Any]
) -> list[tuple[int, int, int]]:
    """(start, end, atom number) in the lifted text for every column that is not a placeholder yet."""
    span = Span(text.parts[0][2].start, text.parts[-1][2].end)
    tree = _read(lifted, cursor, text, span, reader)
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
            message = f"The column {'.'.join(fields)} cannot be located in this expression."
            cursor.fail(message, span, None, EpisodeUnsupportedError)
        quoted = parts[0].args.get("quoted", False)
        atoms.append(reader.column(cursor, tuple(fields), quoted, text.place(start, end + 1)))
        found.append((start, end + 1, len(atoms) - 1))
    return sorted(found)


def _splice(
    lifted: str, replacements: list[tuple[int, int, int]], atoms: list[Any]
) -> tuple[str, tuple[tuple[str, Any], ...]]:
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


# ---- calls -------------------------------------------------------------------------------------------


def called_function(cursor: Cursor) -> str:
    """Return the name of the function that is called at the cursor, in upper case; "" if none is."""
    token = cursor.token
    if token.kind is not Kind.NAME or not cursor.peek().is_symbol("(") or cursor.peek(-1).is_symbol("."):
        return ""
    return "" if is_quantifier(cursor, token) else token.upper


def is_keyword(token: Token) -> bool:
    """Is a word not a plain name to sqlglot?"""
    from episode.lang.spark_dialect import KEYWORDS

    return token.upper in KEYWORDS


def is_quantifier(cursor: Cursor, token: Token) -> bool:
    """Is the word at the cursor the ANY of LIKE ANY (…)?"""
    return token.upper in ("ANY", "SOME") and cursor.peek(-1).upper in ("LIKE", "ILIKE", "RLIKE")


def read_call(
    cursor: Cursor, first: Token, name: Token, modifiers: Modifiers, where: str
) -> tuple[list[tuple[int, int]], Span]:
    """The call whose opening bracket is at the cursor: token ranges of its arguments, and its span, from `first` on."""
    opening, closing = cursor.index, cursor.skip_group()
    span = cursor.span_from(first.start)
    refuse_modifiers_after(cursor, name, modifiers, where)
    return split_arguments(cursor, opening + 1, closing), span


def lift_arguments(
    cursor: Cursor, name: Token, arguments: list[tuple[int, int]], number: int, reader: AtomReader,
    modifiers: Modifiers, example: str,
) -> tuple[Scalar, ...]:  # fmt: skip
    """Parse the arguments of an aggregate. number: of them. example: what an example in a message has columns of."""
    if len(arguments) != number:
        wanted = "one argument" if number == 1 else f"{number} arguments"
        columns = f"{example}.x" if number == 1 else f"{example}.x, {example}.y"
        hint = f"Write for example {name.text}({columns})."
        cursor.fail(f"{name.upper} takes {wanted}, not {len(arguments)}.", name, hint)
    parsed = []
    for begin, end in arguments:
        refuse_modifiers_inside(cursor, begin, end, name, modifiers, reader.surroundings.name)
        parsed.append(lift_scalar(cursor.part(begin, end), reader))
    return tuple(parsed)


def refuse_nested(cursor: Cursor, inner: Token, name: Token) -> NoReturn:
    hint = "An aggregate covers events, not other aggregates."
    cursor.fail(f"{inner.upper} is not allowed inside {name.upper}.", inner, hint)


def split_arguments(cursor: Cursor, start: int, stop: int) -> list[tuple[int, int]]:
    """Token ranges of the arguments between two token indices."""
    if start == stop:
        return []
    ranges, depth, begin = [], 0, start
    for index in range(start, stop):
        depth += cursor.tokens[index].nesting
        if depth == 0 and cursor.tokens[index].is_symbol(","):
            ranges.append((begin, index))
            begin = index + 1
    ranges.append((begin, stop))
    for begin, end in ranges:
        if begin == end:
            cursor.fail(f"Expected an argument here, found {describe(cursor.tokens[begin])}.", cursor.tokens[begin])
    return ranges


Modifiers = Mapping[tuple[str, ...], str]
"""Words that may follow or enter an aggregate in Spark but not here, and what to write instead."""


def refuse_modifiers_after(cursor: Cursor, name: Token, modifiers: Modifiers, where: str) -> None:
    """Refuse OVER, FILTER and the like at the cursor, after a call."""
    for words, hint in modifiers.items():
        if cursor.at_words(*words) and (len(words) > 1 or words == ("OVER",) or cursor.peek().is_symbol("(")):
            cursor.fail(f"{' '.join(words)} is not allowed after {name.text} in {where}.", cursor.token, hint)


def refuse_modifiers_inside(
    cursor: Cursor, begin: int, end: int, name: Token, modifiers: Modifiers, where: str
) -> None:
    """Refuse DISTINCT, ORDER BY and IGNORE NULLS inside a call."""
    depth = 0
    for index in range(begin, end):
        token = cursor.tokens[index]
        depth += token.nesting
        if depth == 0:
            word, following = token.upper, cursor.tokens[index + 1].upper if index + 1 < end else ""
            bad = (word == "DISTINCT" and index == begin) or (word == "ORDER" and following == "BY")
            if bad or (word in ("IGNORE", "RESPECT") and following == "NULLS"):
                words = (word,) if word == "DISTINCT" else (word, following)
                cursor.fail(f"{' '.join(words)} is not allowed inside {name.text} in {where}.", token, modifiers[words])
