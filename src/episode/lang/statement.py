"""Finds the patterns in a Spark SQL statement.

MATCH_RECOGNIZE: its input table, its clause, and the CTEs in its scope. EVENTS ( … ) and SITUATIONS ( … ): an event
pattern or a situation pattern in the place of a table, or as the whole text. RECENCY: the two patterns that it
correlates. OVER ( … PATTERN … ) and the WINDOW clause: SELECTs with row patterns in windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from episode.errors import EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.correlation.parser import recencies
from episode.lang.correlation.syntax import Recency
from episode.lang.creation import Creation, creation, view_of
from episode.lang.cursor import describe
from episode.lang.lexer import Kind, Token, tokenize, words_of
from episode.lang.rows.parser import parse_clause_tokens
from episode.lang.rows.syntax import MatchRecognize, WindowedSelect
from episode.lang.rows.windowed import windowed_selects
from episode.lang.streams import StreamStatement, stream_statement
from episode.lang.syntax import Cover, Source, Span
from episode.lang.table_patterns import (
    PatternQuery,
    TableQuery,
    as_of,
    may_precede_table,
    table_patterns,
    whole_pattern,
)

CHANGES = ("INSERT", "MERGE", "UPDATE", "DELETE")
"""Statements that change a table, and are run at once."""
QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", *CHANGES, "")
USE_DATAFRAME = "Run the query alone, and write its DataFrame where it should go."
USE_EXPLAIN = "Pass the query itself to episode.explain."
MAXIMUM_NESTING = 50
SAMPLES = ("TABLESAMPLE", "REPEATABLE")
NOT_TABLE_NAMES = words_of("""
    MATCH_RECOGNIZE FROM JOIN ON USING WHERE SELECT AS GROUP ORDER HAVING LIMIT UNION EXCEPT INTERSECT LATERAL INNER
    LEFT RIGHT FULL CROSS OUTER SEMI ANTI NATURAL VALUES TABLE WITH BY AND OR NOT IN
""")


@dataclass(frozen=True)
class CommonTable:
    """`name [(columns)] AS (query)` of a WITH list; `scope` is the text where the name is visible.

    opening: where the WITH of its list stands.
    """

    name: str
    span: Span
    scope: Span
    recursive: bool
    opening: int


@dataclass(frozen=True)
class TablePattern:
    """One `input [alias] MATCH_RECOGNIZE ( clause )`. `span` covers all of it.

    name: the table's own name without its schema, which may qualify columns.
    plain: the input is a name of one part and at most an alias for it.
    """

    span: Span
    input: Span
    alias: str | None
    name: str | None
    plain: bool
    clause: MatchRecognize

    @property
    def query(self) -> MatchRecognize:
        """The clause, as the patterns of other languages call it."""
        return self.clause


@dataclass(frozen=True)
class Statement:
    """A statement with its patterns in order of appearance, and its common tables.

    patterns: every MATCH_RECOGNIZE. tables: every pattern in the place of a table. recencies: every two of them that
    are correlated.
    body: from its first to its last word, without comments around them.
    whole: the pattern, if the text is a pattern and nothing else.
    streams: the statement of stream stores, if the text is one (CREATE STREAM …).
    windowed: every SELECT with row patterns in windows.
    creation: the table or view that is made of a query (CREATE TABLE … AS query).
    """

    source: str
    patterns: tuple[TablePattern, ...]
    common_tables: tuple[CommonTable, ...]
    first_word: str
    body: Span
    tokens: tuple[Token, ...] = field(repr=False, compare=False, default=())
    tables: tuple[TableQuery, ...] = ()
    whole: PatternQuery | None = None
    streams: StreamStatement | None = None
    recencies: tuple[Recency, ...] = ()
    windowed: tuple[WindowedSelect, ...] = ()
    creation: Creation | None = None

    @property
    def changes(self) -> bool:
        """Does it change or make something, in addition to returning rows?"""
        return self.first_word in CHANGES or self.creation is not None

    def pattern_at(self, span: Span) -> TablePattern | TableQuery:
        every: list[TablePattern | TableQuery] = [*self.patterns, *self.tables]
        return next(one for one in every if one.span == span)

    def with_lists(self, position: int) -> tuple[tuple[CommonTable, ...], ...]:
        """Return the common tables of the WITH lists around a position that a table there can use, outermost first."""
        visible = [table for table in self.common_tables if table.scope.start <= position < table.scope.end]
        return tuple(tuple(tables) for _, tables in groupby(visible, key=lambda table: table.opening))

    def is_common(self, name: str, position: int) -> bool:
        """Is this the name of a common table that a table at a position sees?"""
        visible = (table for tables in self.with_lists(position) for table in tables)
        return any(table.name.lower() == name.lower() for table in visible)


def parse_statement(source: str, *, anywhere: bool = False) -> Statement:
    """Find the patterns of a statement. anywhere: patterns may also be in commands that a client of Spark runs itself,
    such as EXPLAIN or CREATE VIEW."""
    tokens = tokenize(source)
    whole = whole_pattern(source, tokens)
    if whole is not None:
        return Statement(source, (), (), tokens[0].upper, _body(tokens), tuple(tokens), (), whole)
    if tokens[-2:-1] and tokens[-2].is_symbol(";"):
        tokens = [*tokens[:-2], Token(Kind.END, "", tokens[-2].start, tokens[-2].start)]
    if len(tokens) == 1:
        hint = "Write SELECT … FROM table MATCH_RECOGNIZE ( … )."
        raise EpisodeSyntaxError("The query is empty.", source=source, position=0, hint=hint)
    streams = stream_statement(source, tokens)
    if streams is not None:
        return Statement(source, (), (), tokens[0].upper, _body(tokens), tuple(tokens), streams=streams)
    partners = _bracket_partners(source, tokens)
    tables = table_patterns(source, tokens, partners)
    inside = [table.span for table in tables]
    covered = Cover(inside)
    semicolon = next((token for token in tokens if token.is_symbol(";") and token.start not in covered), None)
    if semicolon is not None:
        hint = "Run the parts before and after this ';' one by one."
        raise Source(source).error(EpisodeSyntaxError, "Only one statement at a time.", semicolon.span, hint)
    found = [
        index
        for index, token in enumerate(tokens)
        if token.upper == "MATCH_RECOGNIZE" and not tokens[index - 1].is_symbol(".") and _is_clause(tokens, index)
    ]
    created = creation(source, tokens)
    if (found or tables) and created is None and not anywhere:
        _check_place(source, tokens[0], "MATCH_RECOGNIZE" if found else tables[0].word)
    patterns = tuple(_table_pattern(source, tokens, partners, index) for index in found)
    _check_nesting(source, patterns)
    clauses = [*(Span(pattern.input.end, pattern.span.end) for pattern in patterns), *inside]
    windowed = windowed_selects(source, tokens, partners, clauses)
    if windowed and created is None and not anywhere:
        _check_place(source, tokens[0], "A row pattern in a window")
    if (found or tables or windowed) and created is not None and not anywhere:
        view_of(source, tokens, created)
    return Statement(
        source,
        patterns,
        tuple(_common_tables(tokens, partners)),
        tokens[0].upper,
        _body(tokens),
        tuple(tokens),
        tables,
        recencies=recencies(source, tokens, partners, [*(pattern.span for pattern in patterns), *inside], clauses),
        windowed=windowed,
        creation=created,
    )


def _check_place(source: str, first: Token, what: str) -> None:
    """Refuse patterns in statements that are neither queries nor change a table. first: the first word."""
    if first.upper not in QUERY_WORDS:
        places = f"inside queries and in {', '.join(CHANGES)}, CREATE TABLE AS and CREATE TEMP VIEW"
        hint = USE_EXPLAIN if first.upper == "EXPLAIN" else USE_DATAFRAME
        message = f"{what} is evaluated {places}; not inside {first.text}."
        raise Source(source).error(EpisodeUnsupportedError, message, first.span, hint)


def _body(tokens: list[Token]) -> Span:
    return Span(tokens[0].start, tokens[-2].end)


def _check_nesting(source: str, patterns: tuple[TablePattern, ...]) -> None:
    """Clauses over the output of clauses are evaluated from the inside out, one call within the other."""
    around: list[int] = []
    for pattern in sorted(patterns, key=lambda pattern: (pattern.span.start, -pattern.span.end)):
        while around and around[-1] <= pattern.span.start:
            around.pop()
        around.append(pattern.span.end)
        if len(around) > MAXIMUM_NESTING:
            raise _too_deep(source, pattern.clause.source.span.beginning)


def _too_deep(source: str, place: Span) -> EpisodeUnsupportedError:
    message = f"MATCH_RECOGNIZE is nested more than {MAXIMUM_NESTING} levels deep."
    hint = "Write the result of the inner queries to a table first."
    return Source(source).error(EpisodeUnsupportedError, message, place, hint)


def _is_clause(tokens: list[Token], index: int) -> bool:
    """A clause has `(` after it, or clearly lacks it; a column or alias of this name is neither."""
    following = tokens[index + 1]
    return following.is_symbol("(") or following.upper in (
        "PARTITION",
        "ORDER",
        "MEASURES",
        "PATTERN",
        "ONE",
        "ALL",
        "AFTER",
        "DEFINE",
    )


def _bracket_partners(source: str, tokens: list[Token]) -> dict[int, int]:
    """Index of the partner of every round bracket."""
    partners: dict[int, int] = {}
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            stack.append(index)
        elif token.is_symbol(")"):
            if not stack:
                raise Source(source).error(EpisodeSyntaxError, "This ')' closes nothing.", token.span)
            opening = stack.pop()
            partners[opening], partners[index] = index, opening
    if stack:
        position, hint = _forgotten_bracket(tokens, stack).start, "Add the missing ')'."
        raise EpisodeSyntaxError("This '(' is not closed.", source=source, position=position, hint=hint)
    return partners


def _forgotten_bracket(tokens: list[Token], unclosed: list[int]) -> Token:
    """The bracket that was most likely forgotten: one with the next part of the clause around it inside."""
    stack: list[int] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            stack.append(index)
        elif token.is_symbol(")"):
            stack.pop()
        elif len(stack) > 1 and (clauses := _clauses_of_part(tokens, index)):
            around = [opening for opening in stack if tokens[opening - 1].upper in clauses]
            if around and around[-1] != stack[-1]:
                return tokens[stack[-1]]
    return tokens[unclosed[-1]]


def _clauses_of_part(tokens: list[Token], index: int) -> tuple[str, ...]:
    """The clauses that this keyword may belong to, where it can hardly be anything else."""
    word, following = tokens[index].upper, tokens[min(index + 1, len(tokens) - 1)]
    if word == "RETURN" or (word == "WITHIN" and following.kind is Kind.NUMBER):
        return ("EVENTS", "SITUATIONS")
    if word == "DEFINE":
        return ("MATCH_RECOGNIZE", "SITUATIONS")
    begins = (
        word in ("MEASURES", "SUBSET")
        or (word == "PATTERN" and following.is_symbol("("))
        or (word in ("ONE", "ALL") and following.upper in ("ROW", "ROWS"))
        or (word == "AFTER" and following.upper == "MATCH")
    )
    return ("MATCH_RECOGNIZE",) if begins else ()


def _table_pattern(source: str, tokens: list[Token], partners: dict[int, int], index: int) -> TablePattern:
    if not tokens[index + 1].is_symbol("("):
        message = f"Expected '(' after MATCH_RECOGNIZE, found {describe(tokens[index + 1])}."
        raise Source(source).error(EpisodeSyntaxError, message, tokens[index + 1].span, "Write MATCH_RECOGNIZE ( … ).")
    start, alias, name = _input_table(source, tokens, partners, index)
    closing = partners[index + 1]
    clause = parse_clause_tokens(source, tokens, index + 2, closing)
    whole, table = (Span(tokens[start].start, tokens[end].end) for end in (closing, index - 1))
    return TablePattern(whole, table, alias, name, name is not None and _is_plain(tokens[start:index]), clause)


def _input_table(
    source: str, tokens: list[Token], partners: dict[int, int], index: int
) -> tuple[int, str | None, str | None]:
    """First token of the table before MATCH_RECOGNIZE, its alias, and its name without schema."""
    primary_end, alias = _strip_alias(tokens, partners, index - 1)
    # One clause may follow another directly: the first of them has the table.
    for chained in range(MAXIMUM_NESTING + 1):
        clause = _clause_ending_at(tokens, partners, primary_end)
        if clause is None:
            break
        if chained == MAXIMUM_NESTING:
            raise _too_deep(source, tokens[index].span)
        primary_end, _ = _strip_alias(tokens, partners, clause - 1)
    token = tokens[primary_end] if primary_end >= 0 else None
    name: str | None = None
    start = -1
    if token is not None and token.is_symbol(")"):
        start = partners[primary_end]
        before = tokens[start - 1] if start else None
        if before is not None and _is_table_name(before):
            start = _path_start(tokens, start - 1)
        else:
            start = _values_start(tokens, partners, start)
    elif token is not None and _is_table_name(token):
        start = _path_start(tokens, primary_end)
        name = None if chained else token.identifier
    if start > 0 and may_precede_table(tokens, start - 1):
        return start, alias, name
    hint = "Write FROM table MATCH_RECOGNIZE ( … ) or FROM (SELECT …) MATCH_RECOGNIZE ( … )."
    raise Source(source).error(EpisodeSyntaxError, "MATCH_RECOGNIZE needs a table before it.", tokens[index].span, hint)


def _is_plain(table: list[Token]) -> bool:
    """`t`, `t alias` or `t AS alias`; not `db.t`, `t alias (a, b)` or `t TABLESAMPLE ( … )`."""
    names = [token for token in table if token.upper != "AS"]
    return len(names) <= 2 and all(_is_table_name(token) for token in names)


def _clause_ending_at(tokens: list[Token], partners: dict[int, int], index: int) -> int | None:
    """Return the start of the MATCH_RECOGNIZE whose clause ends with this token."""
    if index < 0 or not tokens[index].is_symbol(")"):
        return None
    keyword = partners[index] - 1
    return keyword if keyword >= 0 and tokens[keyword].upper == "MATCH_RECOGNIZE" else None


def _is_table_name(token: Token) -> bool:
    return token.kind is Kind.QUOTED or (token.kind is Kind.NAME and token.upper not in NOT_TABLE_NAMES)


def _path_start(tokens: list[Token], index: int) -> int:
    """First token of the dotted name that ends at index."""
    while index >= 2 and tokens[index - 1].is_symbol(".") and tokens[index - 2].is_name:
        index -= 2
    return index


def _values_start(tokens: list[Token], partners: dict[int, int], start: int) -> int:
    """`VALUES (…), (…)` begins at VALUES; any other bracket begins where it opens."""
    at = start
    while at >= 2 and tokens[at - 1].is_symbol(",") and tokens[at - 2].is_symbol(")"):
        at = partners[at - 2]
    return at - 1 if at >= 1 and tokens[at - 1].upper == "VALUES" else start


def _strip_alias(tokens: list[Token], partners: dict[int, int], last: int) -> tuple[int, str | None]:
    """Index of the last token of the table without its alias, TABLESAMPLE ( … ) and REPEATABLE ( … ), and the alias:
    `t`, `AS t`, `t(a, b)`, `AS t(a, b)`."""
    at = last
    name = partners[at] - 1 if at >= 0 and tokens[at].is_symbol(")") else -1
    if name >= 1 and tokens[name].upper not in SAMPLES and _is_table_name(tokens[name]):
        at = name if tokens[name - 1].upper == "AS" or _ends_table(tokens[name - 1]) else at
    alias = None
    end = as_of(tokens, partners, last)
    if end is not None:
        last, alias = end
    elif at >= 1 and _is_table_name(tokens[at]) and (tokens[at - 1].upper == "AS" or _ends_table(tokens[at - 1])):
        last, alias = at - 1 - (tokens[at - 1].upper == "AS"), tokens[at].identifier
    while last >= 0 and tokens[last].is_symbol(")") and tokens[partners[last] - 1].upper in SAMPLES:
        last = partners[last] - 2
    return last, alias


def _ends_table(token: Token) -> bool:
    return token.is_symbol(")") or _is_table_name(token)


def _common_tables(tokens: list[Token], partners: dict[int, int]) -> list[CommonTable]:
    """Every WITH list, found by its shape: WITH [RECURSIVE] name [(columns)] AS ( … ), …"""
    tables: list[CommonTable] = []
    enclosing: list[int] = []
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            enclosing.append(index)
        elif token.is_symbol(")"):
            enclosing.pop()
        elif token.upper == "WITH":
            scope_end = tokens[partners[enclosing[-1]]].start if enclosing else tokens[-1].start
            tables += _with_list(tokens, partners, index, scope_end)
    return tables


def _with_list(tokens: list[Token], partners: dict[int, int], index: int, scope_end: int) -> list[CommonTable]:
    found: list[CommonTable] = []
    recursive = tokens[index + 1].upper == "RECURSIVE"
    at = index + 2 if recursive else index + 1
    while tokens[at].is_name:
        name = tokens[at]
        at += 1
        if tokens[at].is_symbol("("):
            at = partners[at] + 1
        while tokens[at].upper in ("MAX", "RECURSION", "LEVEL") or tokens[at].kind is Kind.NUMBER:
            at += 1
        if tokens[at].upper == "AS":
            at += 1
        if not tokens[at].is_symbol("("):
            return []
        closing = partners[at]
        end = tokens[closing].end
        span, scope = Span(name.start, end), Span(end, scope_end)
        found.append(CommonTable(name.identifier, span, scope, recursive, tokens[index].start))
        at = closing + 1
        if not tokens[at].is_symbol(","):
            break
        at += 1
    return found
