"""The pattern as a flat program in preference order (the first way through is the preferred match).

Instructions: MATCH label | SPLIT preferred, other | JUMP | START (`^`) | END (`$`) | ENTER loop | CHECK loop, back |
ACCEPT. ENTER notes the row where an iteration begins; CHECK ends the loop after an iteration that took no row.
See decisions 6 and 15 and 176.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Label,
    MatchRecognize,
    Pattern,
    Permutation,
    Quantified,
)
from episode.lang.syntax import NOWHERE, Span

MAXIMUM_INSTRUCTIONS = 200_000
MAXIMUM_PERMUTED = 9  # 10 parts have 3.6 million orders
MATCH, SPLIT, JUMP, START, END = "match", "split", "jump", "start", "end"
ENTER, CHECK, ACCEPT = "enter", "check", "accept"


@dataclass
class Instruction:
    """`first` and `second` are targets (SPLIT, JUMP; CHECK: with and without progress), or a label or loop.

    span: of the label in the pattern that a MATCH was made of.
    """

    operation: str
    first: int = -1
    second: int = -1
    label: str = ""
    excluded: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        if self.operation == MATCH:
            return f"match  {self.label}{'  (excluded)' if self.excluded else ''}"
        if self.operation == SPLIT:
            return f"split  {self.first}, {self.second}"
        if self.operation == JUMP:
            return f"jump   {self.first}"
        if self.operation == ENTER:
            return f"enter  loop {self.first}"
        if self.operation == CHECK:
            return f"check  loop {self.first}, without progress {self.second}"
        return self.operation


@dataclass
class PatternProgram:
    """Instructions with what is known of them statically."""

    instructions: list[Instruction]
    loops: int
    nullable: bool
    enclosing_loops: list[tuple[int, ...]] = field(default_factory=list)


def compile_pattern(clause: MatchRecognize) -> PatternProgram:
    """Compile the clause's pattern; an error where it would grow beyond reason."""
    builder = _Builder(clause)
    builder.emit_pattern(clause.pattern)
    builder.emit(ACCEPT)
    return PatternProgram(builder.instructions, builder.loops, is_nullable(clause.pattern), builder.enclosing)


def is_nullable(pattern: Pattern) -> bool:
    """Can the pattern match without a row?"""
    if isinstance(pattern, Label):
        return False
    if isinstance(pattern, (Empty, Anchor)):
        return True
    if isinstance(pattern, (Concatenation, Permutation)):
        return all(is_nullable(part) for part in pattern.parts)
    if isinstance(pattern, Alternation):
        return any(is_nullable(part) for part in pattern.parts)
    if isinstance(pattern, Quantified):
        return pattern.minimum == 0 or is_nullable(pattern.part)
    return is_nullable(pattern.part)


def matches_in_one_way(pattern: Pattern) -> bool:
    """Does the pattern take the same rows under the same labels wherever it matches from a row, given those before?"""
    if isinstance(pattern, (Label, Empty, Anchor)):
        return True
    if isinstance(pattern, Concatenation):
        return all(matches_in_one_way(part) for part in pattern.parts)
    if isinstance(pattern, Quantified):
        return pattern.minimum == pattern.maximum and matches_in_one_way(pattern.part)
    return isinstance(pattern, Exclusion) and matches_in_one_way(pattern.part)


def length_bounds(pattern: Pattern) -> tuple[int, int | None]:
    """Least and greatest number of rows of a match."""
    if isinstance(pattern, Label):
        return 1, 1
    if isinstance(pattern, (Empty, Anchor)):
        return 0, 0
    if isinstance(pattern, (Concatenation, Permutation)):
        bounds = [length_bounds(part) for part in pattern.parts]
        highs = [high for _, high in bounds if high is not None]
        return sum(low for low, _ in bounds), None if len(highs) < len(bounds) else sum(highs)
    if isinstance(pattern, Alternation):
        bounds = [length_bounds(part) for part in pattern.parts]
        highs = [high for _, high in bounds if high is not None]
        return min(low for low, _ in bounds), None if len(highs) < len(bounds) else max(highs)
    if isinstance(pattern, Quantified):
        low, high = length_bounds(pattern.part)
        if high == 0:
            return 0, 0
        return low * pattern.minimum, None if high is None or pattern.maximum is None else high * pattern.maximum
    return length_bounds(pattern.part)


class _Builder:
    def __init__(self, clause: MatchRecognize) -> None:
        self.clause = clause
        self.instructions: list[Instruction] = []
        self.enclosing: list[tuple[int, ...]] = []
        self.open_loops: tuple[int, ...] = ()
        self.loops = 0
        self.excluded = False

    def emit(self, operation: str, first: int = -1, second: int = -1, label: Label | None = None) -> int:
        if len(self.instructions) >= MAXIMUM_INSTRUCTIONS:
            raise self._too_large()
        named = () if label is None else (label.name, self.excluded, label.span)
        self.instructions.append(Instruction(operation, first, second, *named))
        self.enclosing.append(self.open_loops)
        return len(self.instructions) - 1

    def _too_large(self) -> EpisodeUnsupportedError:
        span = self.clause.source.pattern
        message = f"The pattern needs more than {MAXIMUM_INSTRUCTIONS:,} instructions."
        hint = "Large counts and PERMUTE of many parts are written out: use smaller ones."
        return self.clause.source.error(EpisodeUnsupportedError, message, span, hint)

    @property
    def here(self) -> int:
        return len(self.instructions)

    def emit_pattern(self, pattern: Pattern) -> None:
        if isinstance(pattern, Label):
            self.emit(MATCH, label=pattern)
        elif isinstance(pattern, Anchor):
            self.emit(START if pattern.at_start else END)
        elif isinstance(pattern, Concatenation):
            for part in pattern.parts:
                self.emit_pattern(part)
        elif isinstance(pattern, Alternation):
            self._alternatives([partial(self.emit_pattern, part) for part in pattern.parts])
        elif isinstance(pattern, Permutation):
            self._permutation(list(pattern.parts))
        elif isinstance(pattern, Exclusion):
            before, self.excluded = self.excluded, True
            self.emit_pattern(pattern.part)
            self.excluded = before
        elif isinstance(pattern, Quantified):
            self._emit_quantified(pattern)

    def _alternatives(self, emitters: list[Callable[[], None]]) -> None:
        jumps = []
        for number, emitter in enumerate(emitters):
            last = number == len(emitters) - 1
            if not last:
                split = self.emit(SPLIT, self.here + 1)
            emitter()
            if not last:
                jumps.append(self.emit(JUMP))
                self.instructions[split].second = self.here
        for jump in jumps:
            self.instructions[jump].first = self.here

    def _permutation(self, parts: list[Pattern]) -> None:
        """All orders, most preferred first. They share a beginning if it can match in one way only: the order weighs
        more than the choices inside a part, so that a part with choices is written out for each order of the others."""
        if len(parts) > MAXIMUM_PERMUTED:
            raise self._too_large()

        def beginning(index: int) -> None:
            first, others = parts[index], parts[:index] + parts[index + 1 :]
            if matches_in_one_way(first):
                self.emit_pattern(first)
                self._permutation(others)
            else:
                orders = [Concatenation((first, *order)) for order in permutations(others)]
                self._alternatives([partial(self.emit_pattern, order) for order in orders])

        self._alternatives([partial(beginning, index) for index in range(len(parts))])

    def _emit_quantified(self, node: Quantified) -> None:
        exits: list[tuple[int, str]] = []
        nullable = is_nullable(node.part)
        copies = node.minimum if node.maximum is not None else max(0, node.minimum - 1)
        for _ in range(copies):
            self._iteration(node, nullable, exits)
        if node.maximum is None:
            if node.minimum == 0:  # a choice before the first iteration and again after each one saves a jump
                exits.append((self._split(node.greedy), "leave" if node.greedy else "leave first"))
            self._again(node, nullable, exits)
        else:
            for _ in range(node.maximum - node.minimum):
                exits.append((self._split(node.greedy), "leave" if node.greedy else "leave first"))
                self._iteration(node, nullable, exits)
        for index, kind in exits:
            if kind == "leave first":
                self.instructions[index].first = self.here
            else:
                self.instructions[index].second = self.here

    def _split(self, greedy: bool) -> int:
        """A choice whose one side is the next instruction; the other side is filled in later."""
        return self.emit(SPLIT, self.here + 1, -1) if greedy else self.emit(SPLIT, -1, self.here + 1)

    def _iteration(self, node: Quantified, nullable: bool, exits: list[tuple[int, str]]) -> None:
        """One iteration; if it may take no row, the loop ends where it took none."""
        if not nullable:
            self.emit_pattern(node.part)
            return
        loop = self.loops
        self.loops += 1
        self.emit(ENTER, loop)
        outside, self.open_loops = self.open_loops, (*self.open_loops, loop)
        self.emit_pattern(node.part)
        self.open_loops = outside
        exits.append((self.emit(CHECK, loop), "leave"))

    def _again(self, node: Quantified, nullable: bool, exits: list[tuple[int, str]]) -> None:
        """Emit an iteration, and the choice of another one."""
        body = self.here
        self._iteration(node, nullable, exits)
        split = self.emit(SPLIT, body, -1) if node.greedy else self.emit(SPLIT, -1, body)
        exits.append((split, "leave" if node.greedy else "leave first"))
