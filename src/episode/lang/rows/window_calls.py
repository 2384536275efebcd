"""What stands before OVER and a window with a row pattern: a measure of it, or a function over the match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.functions import NAVIGATIONS, OTHER_SPARK_AGGREGATES, ROW_FUNCTIONS, aggregate_arguments
from episode.lang.lexer import Kind, Token
from episode.lang.lifting import refuse_reserved, split_arguments
from episode.lang.rows.scalar import parse_scalar, scalar_of
from episode.lang.rows.syntax import MatchRecognize, Navigation, row_atoms
from episode.lang.rows.window_syntax import FunctionCall, MeasureCall, WindowCall
from episode.lang.source import Source
from episode.lang.syntax import Aggregate, ColumnRef, Scalar, Span

WHERE = "over a window with a row pattern"
RANKING = frozenset(["RANK", "DENSE_RANK", "ROW_NUMBER", "NTILE", "PERCENT_RANK", "CUME_DIST", "LAG", "LEAD"])
"""Window functions that look at the partition, not at a frame."""
NO_MEASURES = frozenset(["END", "NULL", "TRUE", "FALSE", "ROW", "SELECT", "AS", "BY"])
HIDDEN = "__episode_over_"
"""Columns that hold the values of calls, by the place of the call."""


@dataclass(frozen=True)
class Call:
    """tokens[begin:end] stand before OVER, which is the token at `end`. after: what stands between a call's closing
    bracket and OVER (FILTER, IGNORE NULLS), if anything."""

    begin: int
    end: int
    is_function: bool
    after: Token | None = None


def call_before(tokens: Sequence[Token], partners: dict[int, int], over: int) -> Call | None:
    """What stands before an OVER; None where it is a name."""
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
        if name < 0 or tokens[name].kind not in (Kind.NAME, Kind.QUOTED):
            return None
        while name >= 2 and tokens[name - 1].is_symbol(".") and tokens[name - 2].kind in (Kind.NAME, Kind.QUOTED):
            name -= 2
        return Call(name, over, True, after)
    is_name = tokens[at].kind in (Kind.NAME, Kind.QUOTED) and tokens[at].upper not in NO_MEASURES
    return Call(at, over, False) if is_name and after is None else None


def read_call(
    source: str, tokens: Sequence[Token], call: Call, clause: MatchRecognize, span: Span, tables: Sequence[str]
) -> WindowCall:
    """The call over the window of a clause. span: of all of it. tables: names that may stand before columns."""
    column = f"{HIDDEN}{span.start}"
    cursor = Cursor(source, tokens, call.begin, call.end)
    if not call.is_function:
        return MeasureCall(_measure(cursor, clause), column, span)
    function = _refuse_row_functions(_function(cursor, call), source)
    return FunctionCall(_without_tables(function, {name.lower() for name in tables}), column, span)


# ---- measures -------------------------------------------------------------------------------------------


def _measure(cursor: Cursor, clause: MatchRecognize) -> str:
    token = cursor.token
    name = token.identifier
    found = next((one.name for one in clause.measures if one.name.lower() == name.lower()), None)
    if found is None:
        names = [measure.name for measure in clause.measures]
        guess = closest(name, names)
        known = f"Its measures: {', '.join(names)}." if names else "It has no MEASURES."
        raise Source(cursor.source).error(
            EpisodeAnalysisError,
            f"{name} is not a measure of the window.",
            token.span,
            f"Did you mean {guess}?" if guess else known,
        )
    return found


# ---- functions ------------------------------------------------------------------------------------------


def _function(cursor: Cursor, call: Call) -> Scalar:
    name = cursor.token
    word = name.upper
    if word in RANKING:
        raise Source(cursor.source).error(
            EpisodeAnalysisError,
            f"{word} does not look at a frame, and has no meaning {WHERE}.",
            name.span,
            f"Use a window of its own: {name.text}(…) OVER (PARTITION BY … ORDER BY …).",
        )
    if word in ("PREV", "NEXT", *ROW_FUNCTIONS):
        raise _only_in_measures(cursor.source, name.text, name.span)
    _refuse_modifiers(cursor, call)
    if word == "NTH_VALUE":
        return _nth_value(cursor)
    if word not in NAVIGATIONS and aggregate_arguments(word) is None and word not in OTHER_SPARK_AGGREGATES:
        written = cursor.source[name.start : cursor.tokens[call.end - 1].end].split("(")[0].strip()
        raise Source(cursor.source).error(
            EpisodeUnsupportedError,
            f"{written} is not evaluated {WHERE}.",
            name.span,
            "Aggregates, first_value, last_value and nth_value are; scalar functions stand around them.",
        )
    _check_arguments(cursor)
    scalar = parse_scalar(cursor, frozenset())
    if len(scalar.atoms) != 1 or scalar.text.strip() != scalar.atoms[0][0]:
        cursor.fail(f"Expected one call before OVER, found {describe(name)}.", name)
    return scalar


def _check_arguments(cursor: Cursor) -> None:
    """FIRST and LAST have no offset here, and there are no labels to count."""
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
    for atom in row_atoms(scalar).values():
        arguments = atom.arguments if isinstance(atom, Aggregate) else ()
        if isinstance(atom, Navigation):
            arguments = (atom.argument,)
        for inner in (inner for argument in arguments for _, inner in argument.atoms):
            if not isinstance(inner, ColumnRef):
                raise _only_in_measures(source, source[inner.span.start : inner.span.end].split("(")[0], inner.span)
    return scalar


def _only_in_measures(source: str, name: str, span: Span) -> EpisodeAnalysisError:
    return Source(source).error(
        EpisodeAnalysisError,
        f"{name.strip().upper()} belongs into MEASURES.",
        span,
        f"Write MEASURES {name.strip()}(…) AS m in the window, and m OVER … here.",
    )


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
    value = parse_scalar(Cursor(cursor.source, cursor.tokens, begin, end), frozenset(), inside="FIRST")
    span = Span(name.start, cursor.tokens[cursor.end - 1].end)
    atom = Navigation(value, "FIRST", int(token.text) - 1, 0, None, span)
    return scalar_of(atom, cursor.source[span.start : span.end])


# ---- columns --------------------------------------------------------------------------------------------


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
