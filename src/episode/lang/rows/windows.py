"""One window with a row pattern, and the calls before its OVER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, closest, describe, top_level
from episode.lang.functions import NAVIGATIONS, OTHER_SPARK_AGGREGATES, ROW_FUNCTIONS, aggregate_arguments
from episode.lang.keys import scalar_of
from episode.lang.lexer import Kind, Token
from episode.lang.lifting import refuse_reserved, split_arguments
from episode.lang.rows.parser import parse_clause_tokens
from episode.lang.rows.scalar import parse_scalar
from episode.lang.rows.syntax import (
    Anchor,
    Frame,
    FunctionCall,
    MatchNumber,
    MatchRecognize,
    MeasureCall,
    Navigation,
    PatternWindow,
    Search,
    WindowCall,
    arguments_of,
    nodes_of,
    scalars_of,
)
from episode.lang.syntax import NOWHERE, Aggregate, ColumnRef, Scalar, Source, Span

WHERE = "over a window with a row pattern"
RANKING = frozenset(["RANK", "DENSE_RANK", "ROW_NUMBER", "NTILE", "PERCENT_RANK", "CUME_DIST", "LAG", "LEAD"])
"""Window functions that look at the partition, not at a frame."""
NO_MEASURES = frozenset(["END", "NULL", "TRUE", "FALSE", "ROW", "SELECT", "AS", "BY"])
HIDDEN = "__episode_over_"
"""Columns that hold the values of calls, by the place of the call."""


@dataclass(frozen=True)
class Call:
    """tokens[begin:end], before OVER, which is the token at `end`. after: the first token between a call's closing
    bracket and OVER (FILTER, IGNORE NULLS), if any."""

    begin: int
    end: int
    is_function: bool
    after: Token | None = None


def call_before(tokens: Sequence[Token], partners: dict[int, int], over: int) -> Call | None:
    """Return the call before an OVER; None if OVER is a name."""
    at = over - 1
    if at < 0:
        return None
    after: Token | None = None
    if tokens[at].upper == "NULLS" and tokens[at - 1].upper in ("IGNORE", "RESPECT"):
        after, at = tokens[at - 1], at - 2
    elif tokens[at].is_symbol(")") and tokens[partners[at] - 1].upper == "FILTER":
        after, at = tokens[partners[at] - 1], partners[at] - 2
    if tokens[at].is_symbol(")"):
        name = partners[at] - 1
        if name < 0 or not tokens[name].is_name:
            return None
        while name >= 2 and tokens[name - 1].is_symbol(".") and tokens[name - 2].is_name:
            name -= 2
        return Call(name, over, True, after)
    is_name = tokens[at].is_name and tokens[at].upper not in NO_MEASURES
    return Call(at, over, False) if is_name and after is None else None


def read_call(
    source: str, tokens: Sequence[Token], call: Call, clause: MatchRecognize, span: Span, tables: Sequence[str]
) -> WindowCall:
    """Parse the call over the window of a clause. span: of all of it. tables: names that may qualify columns."""
    column = f"{HIDDEN}{span.start}"
    cursor = Cursor(source, tokens, call.begin, call.end)
    if not call.is_function:
        return MeasureCall(_measure(cursor, clause), column, span)
    function = _refuse_row_functions(_function(cursor, call), source)
    return FunctionCall(_without_tables(function, {name.lower() for name in tables}), column, span)


def _measure(cursor: Cursor, clause: MatchRecognize) -> str:
    token = cursor.token
    name = token.identifier
    found = next((one.name for one in clause.measures if one.name.lower() == name.lower()), None)
    if found is None:
        names = [measure.name for measure in clause.measures]
        guess = closest(name, names)
        known = f"Its measures: {', '.join(names)}." if names else "It has no MEASURES."
        hint = f"Did you mean {guess}?" if guess else known
        cursor.fail(f"{name} is not a measure of the window.", token.span, hint, EpisodeAnalysisError)
    return found


def _function(cursor: Cursor, call: Call) -> Scalar:
    name = cursor.token
    word = name.upper
    if word in RANKING:
        message = f"{word} does not look at a frame, and has no meaning {WHERE}."
        hint = f"Use a separate window: {name.text}(…) OVER (PARTITION BY … ORDER BY …)."
        cursor.fail(message, name.span, hint, EpisodeAnalysisError)
    if word in ("PREV", "NEXT", *ROW_FUNCTIONS):
        raise _only_in_measures(cursor.source, name.text, name.span)
    _refuse_modifiers(cursor, call)
    if word == "NTH_VALUE":
        return _nth_value(cursor)
    if word not in NAVIGATIONS and aggregate_arguments(word) is None and word not in OTHER_SPARK_AGGREGATES:
        written = cursor.source[name.start : cursor.tokens[call.end - 1].end].split("(")[0].strip()
        hint = "Aggregates, first_value, last_value and nth_value are; scalar functions go around them."
        cursor.fail(f"{written} is not evaluated {WHERE}.", name.span, hint, EpisodeUnsupportedError)
    _check_arguments(cursor)
    scalar = parse_scalar(cursor, frozenset())
    if scalar.only_atom is None:
        cursor.fail(f"Expected one call before OVER, found {describe(name)}.", name)
    return scalar


def _check_arguments(cursor: Cursor) -> None:
    """Refuse offsets of FIRST and LAST, and count of labels."""
    name = cursor.token
    arguments = split_arguments(cursor, cursor.index + 2, cursor.end - 1)
    if name.upper in ("FIRST", "LAST") and len(arguments) > 1:
        place = cursor.tokens[arguments[1][0]]
        cursor.fail(f"{name.text} takes one argument {WHERE}.", place, "nth_value(x, 2) is x of the second row.")
    for begin, end in arguments:
        if end - begin > 1 and cursor.tokens[end - 1].is_symbol("*") and cursor.tokens[end - 2].is_symbol("."):
            star = Token(Kind.SYMBOL, "*", cursor.tokens[begin].start, cursor.tokens[end - 1].end)
            cursor.fail("Columns cannot be counted by a star here.", star, "count(*) counts rows, count(x) values.")


def _refuse_row_functions(scalar: Scalar, source: str) -> Scalar:
    """CLASSIFIER and MATCH_NUMBER have no meaning outside of MEASURES and DEFINE."""
    for inner in (inner for _, atom in scalar.atoms for argument in arguments_of(atom) for _, inner in argument.atoms):
        if not isinstance(inner, ColumnRef):
            raise _only_in_measures(source, source[inner.span.start : inner.span.end].split("(")[0], inner.span)
    return scalar


def _only_in_measures(source: str, name: str, span: Span) -> EpisodeAnalysisError:
    hint = f"Write MEASURES {name.strip()}(…) AS m in the window, and m OVER … here."
    return Source(source).error(EpisodeAnalysisError, f"{name.strip().upper()} belongs into MEASURES.", span, hint)


def _refuse_modifiers(cursor: Cursor, call: Call) -> None:
    inside = cursor.tokens[call.begin + 2]
    if call.after is not None and call.after.upper == "FILTER":
        hint = "Put the condition inside: sum(CASE WHEN condition THEN x END), or count_if(condition)."
        cursor.fail(f"FILTER is not evaluated {WHERE}.", call.after, hint)
    words = [at for at in range(call.begin, call.end) if cursor.tokens[at].upper in ("IGNORE", "RESPECT")]
    nulls = next((at for at in words if cursor.tokens[at + 1].upper == "NULLS"), None)
    if nulls is not None:
        hint = "array_agg leaves nulls out: try_element_at(array_agg(x) OVER w, 1) is the first that is not null."
        cursor.fail(f"{cursor.tokens[nulls].upper} NULLS is not evaluated {WHERE}.", cursor.tokens[nulls], hint)
    if inside.upper == "DISTINCT":
        hint = "collect_set has each value once: size(collect_set(x) OVER w) counts distinct values."
        cursor.fail(f"DISTINCT is not evaluated {WHERE}.", inside, hint)


def _nth_value(cursor: Cursor) -> Scalar:
    """`nth_value(x, k)`: x at the k-th row of the match, from 1."""
    name, opening = cursor.token, cursor.index + 1
    refuse_reserved(cursor)
    arguments = split_arguments(cursor, opening + 1, cursor.end - 1)
    example = "Write for example nth_value(x, 2)."
    if len(arguments) != 2:
        cursor.fail(f"nth_value takes a value and a number, not {len(arguments)} arguments.", name, example)
    (begin, end), (number, after) = arguments
    token = cursor.tokens[number]
    if after - number != 1 or not (token.text.isascii() and token.text.isdigit()) or not 0 < int(token.text) < 2**31:
        cursor.fail("The number of nth_value must be a whole number from 1 on, written out.", token, example)
    value = parse_scalar(cursor.part(begin, end), frozenset(), inside="FIRST")
    span = Span(name.start, cursor.tokens[cursor.end - 1].end)
    atom = Navigation(value, "FIRST", int(token.text) - 1, 0, None, span)
    return scalar_of(atom, cursor.source[span.start : span.end])


def _without_tables(scalar: Scalar, tables: set[str]) -> Scalar:
    """The scalar with the names of tables left out before its columns."""

    def bare(atom: object) -> object:
        if isinstance(atom, ColumnRef) and len(atom.path) > 1 and atom.path[0].lower() in tables:
            return replace(atom, path=atom.path[1:])
        if isinstance(atom, Navigation):
            return replace(atom, argument=_without_tables(atom.argument, tables))
        if isinstance(atom, Aggregate):
            return replace(atom, arguments=tuple(_without_tables(one, tables) for one in atom.arguments))
        return atom

    atoms = tuple((name, bare(atom)) for name, atom in scalar.atoms)
    return replace(scalar, atoms=atoms)  # type: ignore[arg-type]


# One window with a row pattern: from the text between its parentheses to a PatternWindow tree.
#
# The frame, INITIAL or SEEK, and the name of another window are read here; what remains is a clause of MATCH_RECOGNIZE.


FRAME = "Write ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING, or AND n FOLLOWING."
ORDER = (
    "The parts, in order: PARTITION BY, ORDER BY, MEASURES, ROWS BETWEEN …, AFTER MATCH SKIP, INITIAL | SEEK, PATTERN, "
    "SUBSET, DEFINE."
)
WITHIN = "Limit the match by the frame: ROWS BETWEEN CURRENT ROW AND n FOLLOWING; or use MATCH_RECOGNIZE."
FRAME_WORDS = ("ROWS", "RANGE", "GROUPS")
LATER_WORDS = ("AFTER", "PATTERN", "SUBSET", "DEFINE")
LARGEST_FRAME = 2**62


def is_pattern_window(source: str, tokens: Sequence[Token], begin: int, end: int) -> bool:
    """Do tokens[begin:end], between the parentheses of a window, have a row pattern?"""
    for at in top_level(Cursor(source, tokens, begin, end), begin, end):
        word = tokens[at].upper
        if word == "PATTERN" and tokens[at + 1].is_symbol("("):
            return True
        if word == "DEFINE" and at + 2 < end and tokens[at + 2].upper == "AS":
            return True
    return False


def base_name(tokens: Sequence[Token], begin: int, end: int) -> Token | None:
    """The name of another window that a window begins with."""
    first = tokens[begin]
    if begin >= end or not first.is_name:
        return None
    following = tokens[begin + 1]
    word = first.upper
    if word in ("PARTITION", "ORDER", "DISTRIBUTE", "SORT", "CLUSTER") and following.upper == "BY":
        return None
    starts = word in FRAME_WORDS and following.upper == "BETWEEN"
    listed = word in ("MEASURES", "AFTER", "INITIAL", "SEEK", "PATTERN", "SUBSET", "DEFINE")
    return None if starts or listed else first


def parse_window(
    source: str, tokens: Sequence[Token], begin: int, end: int, base: tuple[int, int] | None = None
) -> PatternWindow:
    """The window in tokens[begin:end]. base: the tokens of the other window whose name it begins with."""
    cursor, name = Cursor(source, tokens, begin, end), base_name(tokens, begin, end)
    own = begin if name is None else begin + 1
    frame, frame_at, frame_end = _frame(Cursor(source, tokens, own, end))
    search, search_at = _search(cursor, frame_end, end)
    if not any(tokens[at].upper == "PATTERN" for at in top_level(cursor, frame_end, end)):
        cursor.fail("The window has a DEFINE, but no PATTERN.", tokens[end], "Write PATTERN ( … ) before DEFINE.")
    inherited = [] if base is None or name is None else _base_clauses(cursor, name, own, end, *base)
    rest = [
        *tokens[own:frame_at],
        *tokens[frame_end:search_at],
        *tokens[min(search_at + (search is not None), end) : end],
    ]
    combined = [*inherited, *rest, tokens[end]]
    clause = parse_clause_tokens(source, combined, 0, len(combined) - 1)
    clause = replace(clause, source=Source(source, Span(tokens[begin].start, tokens[end].start), clause.source.pattern))
    _check(clause)
    return PatternWindow(clause, frame, search or Search.INITIAL)


# ---- the frame ------------------------------------------------------------------------------------------


def _frame(cursor: Cursor) -> tuple[Frame, int, int]:
    """The frame, and the tokens that it takes."""
    tokens, begin, end = cursor.tokens, cursor.index, cursor.end
    level = list(top_level(cursor, begin, end))
    at = next((at for at in level if _begins_frame(tokens, at)), None)
    if at is None:
        later = next((tokens[one] for one in level if tokens[one].upper in LATER_WORDS), tokens[begin])
        cursor.fail("A window with a row pattern needs a frame.", later, f"{FRAME} It comes before AFTER MATCH SKIP.")
    word = tokens[at]
    for one in level:
        if one < at and tokens[one].upper in LATER_WORDS and _begins_part(tokens, one):
            cursor.fail(f"{word.upper} must come before {tokens[one].upper}.", word, ORDER)
        if one > at and tokens[one].upper == "MEASURES" and tokens[one - 1].upper in ("ROW", "FOLLOWING"):
            cursor.fail(f"MEASURES must come before {word.upper}.", tokens[one], ORDER)
    if word.upper != "ROWS":
        cursor.fail(f"{word.upper} is not allowed with a row pattern: the frame counts rows.", word, FRAME)
    return _extent(Cursor(cursor.source, tokens, at, end), at)


def _begins_frame(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].upper not in FRAME_WORDS or tokens[at - 1].upper == "AS":
        return False
    following, after = tokens[at + 1], tokens[at + 2] if at + 2 < len(tokens) else tokens[at + 1]
    if following.upper == "BETWEEN":
        return True
    short = (following.upper, after.upper)
    return short in (("UNBOUNDED", "PRECEDING"), ("CURRENT", "ROW")) or (
        following.kind is Kind.NUMBER and after.upper in ("PRECEDING", "FOLLOWING")
    )


def _begins_part(tokens: Sequence[Token], at: int) -> bool:
    following = tokens[at + 1]
    if tokens[at].upper == "AFTER":
        return following.upper == "MATCH"
    return following.is_symbol("(") if tokens[at].upper == "PATTERN" else following.is_name


def _extent(cursor: Cursor, at: int) -> tuple[Frame, int, int]:
    start = cursor.advance().start
    if not cursor.accept_words("BETWEEN"):
        cursor.fail(f"Expected BETWEEN after ROWS, found {describe(cursor.token)}.", None, FRAME)
    if not cursor.accept_words("CURRENT", "ROW"):
        cursor.fail("With a row pattern, a frame begins with CURRENT ROW.", None, FRAME)
    cursor.expect_words("AND", after="CURRENT ROW", hint=FRAME)
    following: int | None = None
    bound: Scalar | None = None
    if cursor.accept_words("UNBOUNDED", "FOLLOWING"):
        pass
    elif cursor.accept_words("CURRENT", "ROW"):
        following = 0
    else:
        bound = _parse_bound(cursor)
        number = bound.text.strip()
        if number.isascii() and number.isdigit() and len(number) < 19:
            following, bound = min(int(number), LARGEST_FRAME), None
    span = cursor.span_from(start)
    if cursor.at_words("EXCLUDE"):
        hint = "Leave it out: the match determines which rows count."
        cursor.fail("EXCLUDE is not allowed with a row pattern.", None, hint)
    return Frame(following, bound, span), at, cursor.index


def _parse_bound(cursor: Cursor) -> Scalar:
    """`expression FOLLOWING`, where the expression is a constant."""
    begin = cursor.index
    level = top_level(cursor, begin, cursor.end)
    stop = next((at for at in level if cursor.tokens[at].upper in ("FOLLOWING", "PRECEDING", *LATER_WORDS)), cursor.end)
    if stop == begin:
        wanted = "Expected UNBOUNDED FOLLOWING, CURRENT ROW or a number of rows"
        cursor.fail(f"{wanted}, found {describe(cursor.token)}.", None, FRAME)
    scalar = parse_scalar(cursor.part(begin, stop), frozenset())
    cursor.index = stop
    if not cursor.accept_words("FOLLOWING"):
        cursor.fail(f"Expected FOLLOWING here, found {describe(cursor.token)}.", None, FRAME)
    return scalar


# ---- INITIAL, SEEK, and the other window -----------------------------------------------------------------


def _search(cursor: Cursor, begin: int, end: int) -> tuple[Search | None, int]:
    """Return INITIAL or SEEK before PATTERN, if one is given, and its index or `end`."""
    tokens = cursor.tokens
    for at in top_level(cursor, begin, end):
        if at == begin and tokens[at].upper in ("INITIAL", "SEEK") and tokens[at + 1].upper == "AFTER":
            cursor.fail(f"{tokens[at].upper} must come after AFTER MATCH SKIP.", tokens[at], ORDER)
        if tokens[at].upper in ("INITIAL", "SEEK") and tokens[at + 1].upper == "PATTERN":
            before = tokens[at - 1].upper
            if before in ("INITIAL", "SEEK"):
                cursor.fail(f"{before} and {tokens[at].upper} exclude each other.", tokens[at], "Keep one of them.")
            return Search(tokens[at].upper), at
    return None, end


def _base_clauses(cursor: Cursor, name: Token, own: int, end: int, begin: int, stop: int) -> list[Token]:
    """Return PARTITION BY and ORDER BY of the base window. own: the place after its name in this window."""
    tokens = cursor.tokens
    words = {tokens[at].upper for at in top_level(cursor, own, end) if tokens[at + 1].upper == "BY"}
    theirs = list(top_level(cursor, begin, stop))
    ordered = any(tokens[at].upper == "ORDER" and tokens[at + 1].upper == "BY" for at in theirs)
    framed = next((tokens[at] for at in theirs if _begins_frame(tokens, at)), None)
    if base_name(tokens, begin, stop) is not None:
        hint = "Name the window that has PARTITION BY and ORDER BY."
        cursor.fail(f"The window {name.text} begins with the name of another one.", name, hint)
    if framed is not None:
        hint = "Name a window of PARTITION BY and ORDER BY alone, or write these here."
        cursor.fail(f"The window {name.text} has its own frame.", name, hint)
    if "PARTITION" in words:
        hint = "Leave one of them out."
        cursor.fail(f"PARTITION BY is that of the window {name.text}.", _word(tokens, own, "PARTITION"), hint)
    if "ORDER" in words and ordered:
        hint = "Leave one of them out."
        cursor.fail(f"The window {name.text} has an ORDER BY already.", _word(tokens, own, "ORDER"), hint)
    return list(tokens[begin:stop])


def _word(tokens: Sequence[Token], begin: int, word: str) -> Token:
    return next(token for token in tokens[begin:] if token.upper == word)


def _check(clause: MatchRecognize) -> None:
    refused = [
        (clause.rows_per_match.value, clause.rows_span, "A window gives one row for each row; leave it out."),
        (clause.match_mode.value, clause.mode_span, "Leave it out, or use MATCH_RECOGNIZE."),
        ("WITHIN", NOWHERE if clause.within is None else clause.within.span, WITHIN),
    ]
    for what, span, hint in refused:
        if span != NOWHERE:
            raise clause.source.error(EpisodeSyntaxError, f"{what} is not a part of a window.", span, hint)
    if any(isinstance(node, Anchor) for node in nodes_of(clause.pattern)):
        message = "Anchors ^ and $ are not allowed in a window: its frame begins at each row."
        hint = "Use MATCH_RECOGNIZE for patterns at the bounds of a partition."
        raise clause.source.error(EpisodeAnalysisError, message, clause.source.pattern, hint)
    scalars = [measure.expression for measure in clause.measures] + [one.condition for one in clause.definitions]
    for _, atom in (pair for scalar in scalars_of(scalars) for pair in scalar.atoms):
        if isinstance(atom, MatchNumber):
            refuse_match_number(clause, atom.span)


def refuse_match_number(clause: MatchRecognize, span: Span) -> NoReturn:
    """Also for the planner, which finds those without parentheses."""
    message = "MATCH_NUMBER() is not allowed in a window: the matches of rows are not counted."
    raise clause.source.error(EpisodeAnalysisError, message, span, "Leave it out, or use MATCH_RECOGNIZE.")
