"""Finds the patterns of a statement that RECENCY correlates, and the conditions next to it.

    SELECT … FROM x MATCH_RECOGNIZE ( … ) AS l, y MATCH_RECOGNIZE ( … ) AS a
    WHERE l.symbol = a.symbol AND RECENCY = 7 seconds [ORDERED]

or `… AS l JOIN y MATCH_RECOGNIZE ( … ) AS a ON l.symbol = a.symbol RECENCY 7 seconds`. The AND before RECENCY may be
missing, as in print. Only the places of the patterns matter here, not their languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from episode.errors import EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import ColumnComparison, CorrelatedTable, Equality, Operand, Recency
from episode.lang.cursor import Cursor, describe, star_at, top_words
from episode.lang.duration import UNITS, parse_window
from episode.lang.lexer import Kind, Token, words_of
from episode.lang.syntax import Duration, Source, Span, Star

SIGNS = "<>=!"
COMPARED = ("<", "<=", ">", ">=", "=", "==")


def equalities(cursor: Cursor, begin: int, end: int) -> Iterator[Equality]:
    """The conjuncts of a condition, tokens[begin:end], that are `column = column`; none if it has alternatives."""
    if top_words(cursor, begin, end, "OR", "XOR"):
        return
    for conjunct in _conjuncts(cursor, begin, end):
        tokens = _without_brackets(conjunct)
        one = _comparison("", tokens)
        if one.sign == "=" and isinstance(one.left, tuple) and isinstance(one.right, tuple):
            yield Equality(one.left, one.right, Span(tokens[0].start, tokens[-1].end))


def comparisons(cursor: Cursor, begin: int, end: int) -> Iterator[ColumnComparison]:
    """The conjuncts of a condition, tokens[begin:end]; the whole of it where it has alternatives."""
    if top_words(cursor, begin, end, "OR", "XOR"):
        yield ColumnComparison(cursor.source[cursor.tokens[begin].start : cursor.tokens[end - 1].end])
        return
    for conjunct in _conjuncts(cursor, begin, end):
        yield _comparison(cursor.source[conjunct[0].start : conjunct[-1].end], _without_brackets(conjunct))


def _conjuncts(cursor: Cursor, begin: int, end: int) -> Iterator[list[Token]]:
    joints = [begin - 1, *top_words(cursor, begin, end, "AND"), end]
    for before, after in pairwise(joints):
        if before + 1 < after:
            yield list(cursor.tokens[before + 1 : after])


def _without_brackets(tokens: list[Token]) -> list[Token]:
    while len(tokens) > 2 and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
        tokens = tokens[1:-1]
    return tokens


def _comparison(text: str, tokens: list[Token]) -> ColumnComparison:
    signs = [at for at, token in enumerate(tokens) if token.kind is Kind.SYMBOL and token.text in SIGNS]
    if not signs or signs != list(range(signs[0], signs[0] + len(signs))):
        return ColumnComparison(text)
    sign = "".join(tokens[at].text for at in signs)
    left, right = _operand(tokens[: signs[0]]), _operand(tokens[signs[-1] + 1 :])
    if sign not in COMPARED or left is None or right is None:
        return ColumnComparison(text)
    return ColumnComparison(text, left, "=" if sign == "==" else sign, right)


def _operand(tokens: list[Token]) -> Operand | None:
    """A path, or a number with or without a sign."""
    minus = len(tokens) == 2 and tokens[0].is_symbol("-")
    if len(tokens) != 1 + minus or tokens[-1].kind is not Kind.NUMBER:
        return _path(tokens)
    try:
        number = int(tokens[-1].text) if tokens[-1].text.isdecimal() else float(tokens[-1].text)
    except ValueError:  # with a letter for its type
        return None
    return -number if minus else number


def _path(tokens: list[Token]) -> tuple[str, ...] | None:
    """`name` or `table.name`."""
    names, dots = tokens[::2], tokens[1::2]
    if len(names) != len(dots) + 1 or not all(dot.is_symbol(".") for dot in dots):
        return None
    if not all(name.is_name for name in names):
        return None
    return tuple(name.identifier for name in names)


WORD = "RECENCY"
EXAMPLE = "Write for example WHERE l.symbol = a.symbol AND RECENCY = 7 seconds."
TWO = (
    "Write FROM live MATCH_RECOGNIZE ( … ) AS l, archive MATCH_RECOGNIZE ( … ) AS a WHERE … AND RECENCY = 7 seconds; "
    "EVENTS ( … ) or SITUATIONS ( … ) may stand for either. A column of this name is written `recency`."
)
BESIDE = "Write RECENCY in WHERE or ON, next to the other conditions and joined to them by AND."
AROUND = "Other tables are joined to the result: SELECT … FROM (SELECT … FROM … WHERE … RECENCY = …) JOIN …."
AFTER_FROM = words_of("""
    WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW QUALIFY SELECT LATERAL PIVOT UNPIVOT
    TABLESAMPLE
""")
"""Words that end the tables of FROM."""

REFUSED_AFTER_FROM = ("LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE")
SETS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
JOINS = ("JOIN", "INNER", "CROSS")
OTHER_JOINS = ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL")


def recencies(
    source: str, tokens: Sequence[Token], partners: dict[int, int], patterns: Sequence[Span], clauses: Sequence[Span]
) -> tuple[Recency, ...]:
    """Every RECENCY of a statement. partners: of the round brackets. patterns, clauses: where its patterns stand, with
    their tables and without."""
    found: dict[int, Recency] = {}
    for index, token in enumerate(tokens):
        if token.upper != WORD or tokens[index - 1].is_symbol(".") or _inside(token, clauses):
            continue
        if not _begins_clause(tokens, index):
            continue
        block = _block(tokens, partners, index)
        recency = None if block is None else _Reader(source, tokens, partners, patterns, block).read(index)
        if block is None or recency is None:
            _refuse_elsewhere(source, tokens, index, block is None)
        elif block.from_ in found:
            raise Source(source).error(EpisodeSyntaxError, "RECENCY is given twice.", token.span, "Keep one of them.")
        else:
            found[block.from_] = recency
    return tuple(found.values())


def _inside(token: Token, spans: Sequence[Span]) -> bool:
    return any(span.start <= token.start < span.end for span in spans)


def _begins_clause(tokens: Sequence[Token], index: int) -> bool:
    """`RECENCY =`, `RECENCY 7`, `RECENCY INTERVAL …` or `RECENCY <= 7 seconds`; else it is a name."""
    following = tokens[index + 1]
    sign = following.kind is Kind.SYMBOL and following.text in "=<>:"
    return sign or following.kind is Kind.NUMBER or following.upper == "INTERVAL"


def _refuse_elsewhere(source: str, tokens: Sequence[Token], index: int, in_brackets: bool) -> None:
    """Refuse RECENCY with a duration that cannot be a number of SQL: then it is not a column of this name."""
    cursor = Cursor(source, tokens, index + 1)
    while cursor.token.kind is Kind.SYMBOL and cursor.token.text in "=<>":
        cursor.advance()
    if cursor.token.kind is not Kind.NUMBER or (cursor.token.text.isdigit() and cursor.peek().kind is not Kind.NAME):
        return
    if parse_window(cursor).unit is not None:
        message, hint = (BESIDE, EXAMPLE) if in_brackets else ("RECENCY correlates two patterns of FROM.", TWO)
        raise Source(source).error(EpisodeSyntaxError, message, tokens[index].span, hint)


@dataclass(frozen=True)
class _Block:
    """One SELECT … FROM … between brackets or set operators: indices of tokens. where: None without WHERE."""

    begin: int
    end: int
    from_: int
    where: int | None
    tables_end: int


def _block(tokens: Sequence[Token], partners: dict[int, int], index: int) -> _Block | None:
    """The query in whose WHERE or ON a token stands, if it does."""
    level = _level(tokens, partners, index)
    before = [at for at in level if at < index]
    begin = next((at for at in reversed(before) if _is_set(tokens, at)), level[0] - 1) + 1
    last = partners[level[-1]] if tokens[level[-1]].is_symbol("(") else level[-1]
    end = next((at for at in level if at > index and _is_set(tokens, at)), last + 1)
    inside = [at for at in level if begin <= at < end]
    froms = [at for at in inside if at < index and tokens[at].upper == "FROM" and tokens[at - 1].upper != "DISTINCT"]
    if not froms:
        return None
    from_ = froms[-1]
    words = [at for at in inside if at > from_ and tokens[at].upper in AFTER_FROM and not tokens[at - 1].is_symbol(".")]
    where = next((at for at in words if tokens[at].upper == "WHERE"), None)
    tables_end = next((at for at in words if tokens[at].upper not in REFUSED_AFTER_FROM), end)
    return _Block(begin, end, from_, where, tables_end)


def _level(tokens: Sequence[Token], partners: dict[int, int], index: int) -> list[int]:
    """Return the indices of the tokens between the brackets around a token, without those in inner brackets."""
    begin = index
    while begin > 0 and not tokens[begin - 1].is_symbol("("):
        begin = partners[begin - 1] if tokens[begin - 1].is_symbol(")") else begin - 1
    found, at = [], begin
    while at < len(tokens) - 1 and not tokens[at].is_symbol(")"):
        found.append(at)
        at = partners[at] + 1 if tokens[at].is_symbol("(") else at + 1
    return found


def _is_set(tokens: Sequence[Token], at: int) -> bool:
    """Is a token a set operator, and not the EXCEPT of `* EXCEPT ( … )`?"""
    return tokens[at].upper in SETS and not tokens[at - 1].is_symbol("*") and not tokens[at - 1].is_symbol(".")


class _Reader:
    """Reads FROM, ON and WHERE of one query with RECENCY in it."""

    def __init__(
        self, source: str, tokens: Sequence[Token], partners: dict[int, int], patterns: Sequence[Span], block: _Block
    ) -> None:
        self.source = Source(source)
        self.tokens = tokens
        self.partners = partners
        self.block = block
        self.patterns = {span.start: span for span in sorted(patterns, key=lambda span: span.end)}
        self.cursor = Cursor(source, tokens, block.from_ + 1, block.tables_end)

    def read(self, index: int) -> Recency | None:
        """None: RECENCY is a column here."""
        place = self.tokens[index]
        if self._is_column():
            return None
        if self.block.tables_end < self.block.end and self.tokens[self.block.tables_end].upper == "SELECT":
            self.cursor.fail("RECENCY needs SELECT before FROM.", self.tokens[self.block.tables_end], EXAMPLE)
        first = self._table(place)
        if self.cursor.accept_symbol(","):
            joined = False
        elif self.cursor.token.upper in JOINS:
            while self.cursor.token.upper in JOINS and self.cursor.advance().upper != "JOIN":
                pass
            joined = True
        else:
            self._refuse_other_join()
            self.cursor.fail("RECENCY correlates two patterns, and FROM has one.", place, TWO)
        second = self._table(place)
        on = self._on(joined)
        if not self.cursor.at_end:
            self._refuse_other_join()
            more = self.cursor.token.is_symbol(",") or self.cursor.token.upper in (*JOINS, *REFUSED_AFTER_FROM)
            what = f"Unexpected {describe(self.cursor.token)} after the patterns that RECENCY correlates."
            if more:
                what = "RECENCY correlates two patterns, and FROM has more."
            self.cursor.fail(what, self.cursor.token, AROUND if more else EXAMPLE)
        conditions = [on] if on is not None else []
        if self.block.where is not None:
            conditions.append((self.block.where + 1, self._where_end()))
        begin, end = next(((b, e) for b, e in conditions if b <= index < e), (index, index))
        if begin == end:
            self.cursor.fail(BESIDE, place, EXAMPLE)
        duration, ordered, after = self._clause(index, begin, end)
        pieces = self._pieces(index, after, conditions)
        last = self.tokens[max(end for _, end in conditions) - 1]
        return Recency(
            source=self.source,
            tables=(first, second),
            duration=duration,
            ordered=ordered,
            span=Span(first.span.start, last.end),
            place=Span(place.start, self.tokens[after - 1].end),
            conditions=tuple(Span(self.tokens[b].start, self.tokens[e - 1].end) for b, e in pieces),
            equalities=tuple(one for begin, end in pieces for one in equalities(self.cursor, begin, end)),
            comparisons=tuple(one for begin, end in pieces for one in comparisons(self.cursor, begin, end)),
            stars=tuple(self._stars()),
        )

    def _is_column(self) -> bool:
        """Is RECENCY the name of a column: without a pattern in this FROM, or with one that mentions the name?"""
        level = _level(self.tokens, self.partners, self.block.from_)
        starts = {self.tokens[at].start for at in level if self.block.from_ < at < self.block.tables_end}
        here = [span for start, span in self.patterns.items() if start in starts]
        if not here:
            return True
        named = any(token.upper == WORD and _inside(token, here) for token in self.tokens)
        return len(here) == 1 and named

    def _table(self, place: Token) -> CorrelatedTable:
        cursor, first = self.cursor, self.cursor.token
        span = self.patterns.get(first.start)
        if cursor.at_end or span is None:
            what = "nothing" if cursor.at_end else describe(first)
            message = f"RECENCY correlates two patterns of FROM, found {what}."
            self.cursor.fail(message, place if cursor.at_end else first, TWO)
        while not cursor.at_end and cursor.token.start < span.end:
            cursor.advance()
        begin, alias = cursor.token.start, None
        columns: tuple[str, ...] = ()
        explicit = cursor.accept_words("AS")
        words = (*JOINS, *OTHER_JOINS, *AFTER_FROM, "ON", "USING", WORD)
        if explicit or (cursor.token.is_name and cursor.token.upper not in words):
            alias = cursor.expect_identifier("a name for the pattern").identifier
            if cursor.token.is_symbol("("):
                opening = cursor.index
                listed = self.tokens[opening + 1 : cursor.skip_group()]
                columns = tuple(token.identifier for token in listed if token.is_name)
        return CorrelatedTable(span, alias, Span(begin, begin) if alias is None else cursor.span_from(begin), columns)

    def _refuse_other_join(self) -> None:
        token = self.cursor.token
        if token.upper in OTHER_JOINS or token.upper == "USING":
            hint = "Write JOIN … ON l.symbol = a.symbol RECENCY 7 seconds."
            shown = "USING" if token.upper == "USING" else f"{token.upper} JOIN"
            message = f"{shown} cannot be used between patterns that RECENCY correlates."
            raise self.source.error(EpisodeUnsupportedError, message, token.span, hint)

    def _on(self, joined: bool) -> tuple[int, int] | None:
        """Return the condition of ON: tokens from the first to before the second index. RECENCY may come without ON."""
        if not joined:
            return None
        begin = self.cursor.index
        if self.cursor.accept_words("ON"):
            begin = self.cursor.index
        elif not self.cursor.at_words(WORD):
            return None
        while not self.cursor.at_end:
            token = self.cursor.token
            if token.is_symbol(",") or token.upper in (*JOINS, *OTHER_JOINS, "LATERAL", "PIVOT", "UNPIVOT"):
                break
            if token.is_symbol("("):
                self.cursor.skip_group()
            else:
                self.cursor.advance()
        return begin, self.cursor.index

    def _where_end(self) -> int:
        """The end of WHERE: the next clause of this query."""
        where, words = self.block.where, AFTER_FROM - {"WHERE"}
        assert where is not None
        for at in _level(self.tokens, self.partners, where):
            token = self.tokens[at]
            if where < at < self.block.end:
                if token.upper in words and not self.tokens[at - 1].is_symbol("."):
                    return at
                if token.is_symbol("|") and self.tokens[at + 1].is_symbol(">"):
                    self.cursor.fail("RECENCY belongs in a SELECT, not between |>.", token, EXAMPLE)
        return self.block.end

    # ---- RECENCY, and the conditions next to it -----------------------------------------------------------

    def _clause(self, index: int, begin: int, end: int) -> tuple[Duration, bool, int]:
        """Parse the duration and ORDERED, if it follows; return them and the index of the token after them."""
        before = self.tokens[index - 1]
        alternatives = top_words(self.cursor, begin, end, "OR", "XOR")
        negated = before.upper == "NOT"
        dangling = index > begin and before.kind is Kind.SYMBOL and before.text not in ")]"
        if alternatives or negated or dangling:
            self.cursor.fail(BESIDE, self.tokens[index], f"{EXAMPLE} Put other conditions with OR in brackets.")
        cursor = Cursor(self.cursor.source, self.tokens, index + 1, end)
        if cursor.token.kind is Kind.SYMBOL and cursor.token.text in "<>":
            cursor.fail("RECENCY is written with '='.", None, EXAMPLE)
        if cursor.accept_symbol("="):
            cursor.accept_symbol("=")
        duration = parse_window(cursor)
        ordered = cursor.accept_words("ORDERED")
        if not cursor.at_end and cursor.token.upper != "AND":
            if cursor.token.kind is Kind.NAME and duration.unit is None and not ordered:
                cursor.fail(f"{describe(cursor.token)} is not a unit of time.", None, UNITS)
            cursor.fail(f"Expected AND after RECENCY, found {describe(cursor.token)}.", None, EXAMPLE)
        return duration, ordered, cursor.index

    def _pieces(self, index: int, after: int, conditions: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the conditions without RECENCY and the AND next to it."""
        pieces: list[tuple[int, int]] = []
        for begin, end in conditions:
            if not begin <= index < end:
                pieces.append((begin, end))
                continue
            before = index - 1 if index > begin and self.tokens[index - 1].upper == "AND" else index
            pieces += [(begin, before), (after + 1, end)]
        return [(begin, end) for begin, end in pieces if begin < end]

    def _stars(self) -> list[Star]:
        """Every `*` that is an item of SELECT, before FROM or after it."""
        stars: list[Star] = []
        level = _level(self.tokens, self.partners, self.block.from_)
        for at in (at for at in level if self.block.begin <= at < self.block.end):
            before, token, following = self.tokens[at - 1], self.tokens[at], self.tokens[at + 1]
            item = before.is_symbol(",") or before.upper in ("SELECT", "DISTINCT", "ALL")
            ends = following.kind in (Kind.END, Kind.NAME) or following.is_symbol(",") or following.is_symbol(")")
            if token.is_symbol("*") and item and ends:
                stars.append(star_at(self.tokens, at))
        return stars
