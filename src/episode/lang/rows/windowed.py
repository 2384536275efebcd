"""SELECTs with row patterns in windows, found in the tokens of a statement.

A window is written in the WINDOW clause of a SELECT or after OVER. Of the SELECT around it, its list, FROM, WHERE and
the WINDOW clause are found, by their words at its level of brackets; all else stays Spark's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError, EpisodeUnsupportedError
from episode.lang.cursor import closest, star_at
from episode.lang.lexer import Kind, Token, words_of
from episode.lang.rows.syntax import FunctionCall, Naming, PatternWindow, WindowCall, WindowedSelect
from episode.lang.rows.windows import Call, base_name, call_before, is_pattern_window, parse_window, read_call
from episode.lang.syntax import Cover, Source, Span, Star

SETS = ("UNION", "EXCEPT", "MINUS", "INTERSECT")
AFTER_TABLES = words_of("""
    WHERE GROUP HAVING WINDOW QUALIFY ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET
""")
JOINING = ("JOIN", "LATERAL", "PIVOT", "UNPIVOT")
NO_NAMES = frozenset(["END", "NULL", "TRUE", "FALSE", "ASC", "DESC"])
OPERATORS = words_of("""
    AND OR NOT IS IN LIKE ILIKE RLIKE BETWEEN DIV THEN ELSE WHEN CASE AS
""")
NOT_ALIASES = frozenset(["TABLESAMPLE", "REPEATABLE", "MATCH_RECOGNIZE"])
ONE_TABLE = "Join in a subquery: FROM (SELECT … FROM a JOIN b ON …) AS t."


@dataclass(frozen=True)
class _Definition:
    """`name AS ( … )` of a WINDOW clause: indices of its first token and of its brackets."""

    name: Token
    begin: int
    opening: int
    closing: int


@dataclass(frozen=True)
class _Over:
    """A call over a pattern window. key: of the window, the index of its opening bracket. last: its last token."""

    call: Call
    key: int
    last: int


def windowed_selects(
    source: str, tokens: Sequence[Token], partners: dict[int, int], patterns: Sequence[Span]
) -> tuple[WindowedSelect, ...]:
    """Every SELECT with calls over pattern windows, or with such windows in its WINDOW clause.

    partners: of round brackets. patterns: spans of other patterns' clauses, which hold no windows.
    """
    if not any(token.upper in ("PATTERN", "DEFINE") for token in tokens):
        return ()
    return _Finder(source, tokens, partners, patterns).selects()


class _Finder:
    def __init__(
        self, source: str, tokens: Sequence[Token], partners: dict[int, int], patterns: Sequence[Span]
    ) -> None:
        self.source, self.tokens, self.partners = source, tokens, partners
        self.patterns = Cover(patterns)
        self.around = self._brackets_around()
        self.levels: dict[int, list[int]] = {}
        self.select_words: dict[int, list[int]] = {}
        for at in range(len(tokens) - 1):
            self.levels.setdefault(self.around[at], []).append(at)
            if self.is_word(at, "SELECT"):
                self.select_words.setdefault(self.around[at], []).append(at)
        self.definitions: set[int] = set()

    def _brackets_around(self) -> list[int]:
        """Return the opening bracket around each token, or -1. Brackets belong to the level around them."""
        around, stack = [], [-1]
        for at, token in enumerate(self.tokens):
            if token.is_symbol(")"):
                stack.pop()
            around.append(stack[-1])
            if token.is_symbol("("):
                stack.append(at)
        return around

    def selects(self) -> tuple[WindowedSelect, ...]:
        windows = self._pattern_windows()
        begins = {self.select_of(at): None for at in windows}
        if None in begins:
            opening = next(at for at in windows if self.select_of(at) is None)
            hint = "Write SELECT … FROM table WINDOW …."
            message = "A window with a row pattern belongs to a SELECT."
            raise Source(self.source).error(EpisodeSyntaxError, message, self.tokens[opening].span, hint)
        return tuple(_Select(self, begin, windows).read() for begin in sorted(b for b in begins if b is not None))

    def _pattern_windows(self) -> dict[int, int]:
        """The brackets, opening to closing, of all windows with a row pattern."""
        found = {}
        for at, token in enumerate(self.tokens[:-1]):
            if not self.tokens[at + 1].is_symbol("(") or self.inside_pattern(token):
                continue
            opening, closing = at + 1, self.partners[at + 1]
            window = token.upper == "OVER" or (token.upper == "AS" and self._is_definition(at))
            if window and is_pattern_window(self.source, self.tokens, opening + 1, closing):
                found[opening] = closing
        return found

    def _is_definition(self, at: int) -> bool:
        """Is this the AS of `WINDOW w AS (` or of `…, w AS (` after it? Asked of one AS after the other."""
        if at < 2:
            return False
        before, closing = self.tokens[at - 2], at - 3
        found = before.upper == "WINDOW"
        if before.is_symbol(",") and self.tokens[closing].is_symbol(")"):
            found = self.partners[closing] - 1 in self.definitions
        if found:
            self.definitions.add(at)
        return found

    def inside_pattern(self, token: Token) -> bool:
        return token.start in self.patterns

    def select_of(self, at: int) -> int | None:
        """Return the SELECT of the query around a token."""
        while True:
            selects = self.select_words.get(self.around[at], [])
            before = bisect_left(selects, at)
            if before:
                return selects[before - 1]
            if self.around[at] < 0:
                return None
            at = self.around[at]

    def is_word(self, at: int, *words: str) -> bool:
        """Is this token one of the words, and no name after a dot or AS? CREATE VIEW … AS SELECT has no such name."""
        before = self.tokens[at - 1] if at else None
        word = self.tokens[at].upper
        named = before is not None and (before.is_symbol(".") or (before.upper == "AS" and word != "SELECT"))
        return word in words and not named


class _Select:
    """One SELECT. begin: its word."""

    def __init__(self, finder: _Finder, begin: int, windows: dict[int, int]) -> None:
        self.finder, self.begin = finder, begin
        self.source, self.tokens, self.partners = finder.source, finder.tokens, finder.partners
        self.pattern_windows = windows
        self.inside_windows = Cover(Span(opening + 1, closing) for opening, closing in windows.items())
        opening = finder.around[begin]
        whole = len(self.tokens) - 1 if opening < 0 else self.partners[opening]
        level = [at for at in finder.levels[opening] if at >= begin]
        sets = (at for at in level if finder.is_word(at, *SETS) and not self.tokens[at - 1].is_symbol("*"))
        self.end = next(sets, whole)
        self.level = [at for at in level if at < self.end]

    def read(self) -> WindowedSelect:
        finder, tokens = self.finder, self.tokens
        from_ = next(
            (at for at in self.level if finder.is_word(at, "FROM") and tokens[at - 1].upper != "DISTINCT"), None
        )
        if from_ is None:
            hint = "Write SELECT … FROM table WINDOW w AS ( … PATTERN … )."
            self._refuse("A SELECT with a row pattern in a window needs FROM after its list", self.begin, hint)
        words = [at for at in self.level if at > from_ and finder.is_word(at, *AFTER_TABLES)]
        where = next((at for at in words if tokens[at].upper == "WHERE"), None)
        for at in words:
            if tokens[at].upper in ("GROUP", "HAVING", "QUALIFY"):
                self._refuse_grouping(at)
        tables_end = words[0] if words else self.end
        definitions, clause = self._definitions(words)
        after_where = [at for at in [*words, self.end] if where is not None and at > where]
        condition = None if where is None else self._span(where + 1, after_where[0])
        alias, name, plain = self._table(from_ + 1, tables_end)
        overs = self._overs(definitions)
        places = {"FROM": (from_, tables_end)}
        if where is not None:
            places["WHERE"] = (where, after_where[0])
        self._check_places(overs, places)
        names = [one for one in (alias, name) if one]
        windows = self._windows(overs, definitions, names)
        calls = [call for window in windows for call in window.calls]
        kept = [one for one in definitions if one.opening not in self.pattern_windows]
        rows_end = tables_end if where is None else after_where[0]
        return WindowedSelect(
            span=self._span(self.begin, self.end),
            items=self._span(self.begin + 1, from_),
            tables=self._span(from_ + 1, tables_end),
            condition=condition,
            from_where=self._span(from_, rows_end),
            rows=self._span(from_ + 1, rows_end),
            alias=alias,
            name=name,
            plain=plain,
            windows=windows,
            definitions=clause if len(kept) < len(definitions) else None,
            kept=tuple(self._span(one.begin, one.closing + 1) for one in kept),
            namings=self._namings(from_, calls, overs),
            stars=self._stars(overs),
        )

    def _span(self, begin: int, end: int) -> Span:
        return Span(self.tokens[begin].start, self.tokens[max(begin, end - 1)].end)

    def _refuse(self, what: str, at: int, hint: str) -> NoReturn:
        raise Source(self.source).error(EpisodeUnsupportedError, f"{what}.", self.tokens[at].span, hint)

    def _refuse_grouping(self, at: int) -> NoReturn:
        word = self.tokens[at].upper
        if word == "QUALIFY":
            hint = "Filter in a query around it: SELECT … FROM (SELECT …, m OVER w AS m …) WHERE m > 0."
        else:
            hint = "Group in a subquery: FROM (SELECT … GROUP BY …) AS t."
        shown = "GROUP BY" if word == "GROUP" else word
        self._refuse(f"{shown} is not evaluated in a SELECT with row patterns in windows", at, hint)

    def _table(self, begin: int, end: int) -> tuple[str | None, str | None, bool]:
        """The alias of the one table in FROM, its own name, and whether it is a name of one part and no more."""
        level = [at for at in self.level if begin <= at < end]
        if not level:
            raise Source(self.source).error(
                EpisodeSyntaxError, "A table is missing after FROM.", self.tokens[begin - 1].span, "Write FROM table."
            )
        for at in level:
            values = self.tokens[begin].upper == "VALUES" and self.tokens[at].is_symbol(",")
            if (self.tokens[at].is_symbol(",") and not values) or self.finder.is_word(at, *JOINING):
                word = self.tokens[at].upper
                what = "LATERAL VIEW" if word == "LATERAL" else word or "a list of tables"
                what = "A join" if what == "JOIN" else what[:1].upper() + what[1:]
                self._refuse(f"{what} is not evaluated in a SELECT with row patterns in windows", at, ONE_TABLE)
        names = [at for at in level if self.tokens[at].is_name]
        last = level[-1]
        if self.tokens[last].is_symbol(")"):  # the names of columns after an alias
            before = self.partners[last] - 1
            named = before in names and self.tokens[before].upper not in NOT_ALIASES
            last = before if named and self._ends_table(before - 1, begin) else last
        alias = None
        if last in names and self._ends_table(last - 1, begin):
            alias = self.tokens[last].identifier
        path = 1
        while self.tokens[begin + path].is_symbol(".") and begin + path + 1 in names:
            path += 2
        matched = any(self.tokens[at].upper == "MATCH_RECOGNIZE" for at in level)
        is_name = begin in names and not self.tokens[begin + path].is_symbol("(") and not matched
        name = self.tokens[begin + path - 1].identifier if is_name and self.tokens[begin].upper != "VALUES" else None
        only = all(at in (begin, last) or self.tokens[at].upper == "AS" for at in level)
        return alias, name, name is not None and path == 1 and only

    def _ends_table(self, at: int, begin: int) -> bool:
        """May an alias follow this token?"""
        token = self.tokens[at]
        if at < begin:
            return False
        named = token.kind in (Kind.NAME, Kind.QUOTED, Kind.NUMBER, Kind.STRING) and token.upper not in ("OF", "VALUES")
        return token.is_symbol(")") or named

    # ---- windows and calls -------------------------------------------------------------------------------

    def _definitions(self, words: Sequence[int]) -> tuple[list[_Definition], Span | None]:
        """The windows of the WINDOW clause, and where it stands."""
        at = next((at for at in words if self.tokens[at].upper == "WINDOW"), None)
        if at is None:
            return [], None
        found: list[_Definition] = []
        here = at + 1
        while self.tokens[here].is_name and self.tokens[here + 1].upper == "AS":
            opening = here + 2
            if self.tokens[opening].kind is Kind.END:
                break
            closing = self.partners[opening] if self.tokens[opening].is_symbol("(") else opening
            name = self.tokens[here]
            if any(one.name.identifier.lower() == name.identifier.lower() for one in found):
                message = f"The window {name.text} is defined twice."
                raise Source(self.source).error(EpisodeAnalysisError, message, name.span, "Keep one of them.")
            found.append(_Definition(name, here, opening, closing))
            here = found[-1].closing + 1
            if not self.tokens[here].is_symbol(","):
                break
            here += 1
        return found, self._span(at, found[-1].closing + 1) if found else None

    def _overs(self, definitions: Sequence[_Definition]) -> list[_Over]:
        """The calls over pattern windows in this SELECT, in order."""
        by_name = {one.name.identifier.lower(): one.opening for one in definitions}
        found = []
        for at in range(self.begin, self.end):
            if self.tokens[at].upper != "OVER" or self.finder.select_of(at) != self.begin:
                continue
            if self.finder.inside_pattern(self.tokens[at]) or at in self.inside_windows:
                continue
            call = call_before(self.tokens, self.partners, at)
            key, last = self._window_after(at, by_name)
            if call is None or key is None:
                self._refuse_unknown(call, at, by_name)
                continue
            if key in self.pattern_windows:
                found.append(_Over(call, key, last))
        return found

    def _window_after(self, over: int, by_name: dict[str, int]) -> tuple[int | None, int]:
        """The window after an OVER, by its opening bracket, and the last token of the reference to it."""
        following = self.tokens[over + 1]
        if following.is_symbol("("):
            opening, closing = over + 1, self.partners[over + 1]
            name = self.tokens[opening + 1]
            if closing == opening + 2 and name.is_name:
                return by_name.get(name.identifier.lower()), closing
            return opening, closing
        if following.is_name:
            return by_name.get(following.identifier.lower()), over + 1
        return None, over

    def _refuse_unknown(self, call: Call | None, over: int, by_name: dict[str, int]) -> None:
        """Refuse `m OVER v` without a window v: m can only be a measure."""
        following = self.tokens[over + 1]
        named = following.is_name and following.upper not in ("FROM", "AS")
        if call is None or call.is_function or not named:
            return
        guess = closest(following.identifier, by_name)
        message = f"There is no window {following.identifier}."
        hint = f"Did you mean {guess}?" if guess else f"Define it: WINDOW {following.identifier} AS ( … PATTERN … )."
        raise Source(self.source).error(EpisodeAnalysisError, message, following.span, hint)

    def _check_places(self, overs: Sequence[_Over], clauses: dict[str, tuple[int, int]]) -> None:
        for over in overs:
            at = over.call.begin
            word = next((word for word, (begin, end) in clauses.items() if begin < at < end), None)
            if word is not None:
                message = f"Calls over windows are not allowed in {word}: windows are evaluated after it."
                hint = "Filter in a query around it: SELECT … FROM (SELECT …, m OVER w AS m …) WHERE m > 0."
                raise Source(self.source).error(EpisodeAnalysisError, message, self.tokens[at].span, hint)

    def _windows(
        self, overs: Sequence[_Over], definitions: Sequence[_Definition], names: Sequence[str]
    ) -> tuple[PatternWindow, ...]:
        """The windows that are called, with their calls; equal ones are one. All others are read for their errors."""
        named = [one.opening for one in definitions if one.opening in self.pattern_windows]
        own = dict.fromkeys([*named, *(over.key for over in overs)])
        parsed = {key: self._parse_window(key, definitions) for key in own}
        merged: list[PatternWindow] = []
        for over in overs:
            window = parsed[over.key]
            span = self._span(over.call.begin, over.last + 1)
            call = read_call(self.source, self.tokens, over.call, window.clause, span, names)
            same = next((at for at, one in enumerate(merged) if replace(one, calls=()) == window), None)
            if same is None:
                merged.append(replace(window, calls=(call,)))
            else:
                merged[same] = replace(merged[same], calls=(*merged[same].calls, call))
        return tuple(merged)

    def _parse_window(self, opening: int, definitions: Sequence[_Definition]) -> PatternWindow:
        closing = self.pattern_windows[opening]
        name = base_name(self.tokens, opening + 1, closing)
        base = None
        if name is not None:
            known = {one.name.identifier.lower(): one for one in definitions if one.opening != opening}
            found = known.get(name.identifier.lower())
            if found is None:
                guess = closest(name.identifier, known)
                message = f"There is no window {name.identifier}."
                own = "A window may begin with the name of one of the WINDOW clause."
                hint = f"Did you mean {guess}?" if guess else own
                raise Source(self.source).error(EpisodeAnalysisError, message, name.span, hint)
            base = (found.opening + 1, found.closing)
        return parse_window(self.source, self.tokens, opening + 1, closing, base)

    def _namings(self, from_: int, calls: Sequence[WindowCall], overs: Sequence[_Over]) -> tuple[Naming, ...]:
        """Names for the items of SELECT that have calls and no name."""
        items: list[list[int]] = [[]]
        for at in self.level:
            if self.begin < at < from_:
                if self.tokens[at].is_symbol(","):
                    items.append([])
                else:
                    items[-1].append(at)
        by_start = {call.span.start: call for call in calls}
        found = []
        for item in items:
            if not item:
                continue
            first = item[1] if len(item) > 1 and self.tokens[item[0]].upper in ("DISTINCT", "ALL") else item[0]
            last = item[-1]
            inside = [over for over in overs if first <= over.call.begin <= last]
            if inside and not self._is_named(first, last, inside):
                found.append(Naming(self.tokens[last].end, self._name(first, last, inside, by_start)))
        return tuple(found)

    def _is_named(self, first: int, last: int, inside: Sequence[_Over]) -> bool:
        token, before = self.tokens[last], self.tokens[last - 1]
        if any(over.call.begin <= last <= over.last for over in inside) or last == first:
            return False
        if not token.is_name or token.upper in NO_NAMES or before.is_symbol("."):
            return False
        operand = before.kind is not Kind.SYMBOL or before.text in ")]"
        return before.upper == "AS" or (operand and before.upper not in OPERATORS)

    def _name(self, first: int, last: int, inside: Sequence[_Over], by_start: dict[int, WindowCall]) -> str:
        """The measure's name, or the text without OVER."""
        only = inside[0]
        if len(inside) == 1 and (only.call.begin, only.last) == (first, last):
            call = by_start[self.tokens[first].start]
            if not isinstance(call, FunctionCall):
                return call.measure
        pieces, at = [], self.tokens[first].start
        for over in inside:
            pieces.append(self.source[at : self.tokens[over.call.end - 1].end])
            at = self.tokens[over.last].end
        pieces.append(self.source[at : self.tokens[last].end])
        return " ".join("".join(pieces).split())

    def _stars(self, overs: Sequence[_Over]) -> tuple[Star, ...]:
        """Return every `*` of this SELECT that means columns: a whole item, after a table, or in struct(*)."""
        found = []
        for at in range(self.begin, self.end):
            token, before = self.tokens[at], self.tokens[at - 1]
            if not token.is_symbol("*") or self.finder.select_of(at) != self.begin or at in self.inside_windows:
                continue
            if self.finder.inside_pattern(token) or any(over.call.begin < at < over.last for over in overs):
                continue
            counted = before.is_symbol("(") and self.tokens[at - 2].upper == "COUNT"
            opens = before.kind is Kind.SYMBOL and before.text in "(,."
            if counted or not (opens or before.upper in ("SELECT", "DISTINCT", "ALL")):
                continue
            found.append(star_at(self.tokens, at))
        return tuple(found)
