"""Which instructions of a program a label, at its place in the pattern, has become: the compiler's walk once more."""

from __future__ import annotations

from collections.abc import Iterator

from episode.lang.rows.syntax import Alternation, Anchor, Concatenation, Empty, Label, Pattern, Permutation, Quantified
from episode.plan.rows.program import MATCH, PatternProgram

MOST = 20_000


def instructions_of(pattern: Pattern, program: PatternProgram) -> dict[int, list[int]]:
    """Numbers of instructions by the identity of labels in a pattern; nothing where the program is too large."""
    matches = [number for number, one in enumerate(program.instructions) if one.operation == MATCH]
    found: dict[int, list[int]] = {}
    if len(matches) > MOST:
        return found
    labels = list(_labels(pattern))
    if [label.name for label in labels] != [program.instructions[number].label for number in matches]:
        return found
    for label, number in zip(labels, matches, strict=True):
        found.setdefault(id(label), []).append(number)
    return found


def _labels(pattern: Pattern) -> Iterator[Label]:
    """The labels in the order of the instructions made of them."""
    if isinstance(pattern, Label):
        yield pattern
    elif isinstance(pattern, (Concatenation, Alternation)):
        for part in pattern.parts:
            yield from _labels(part)
    elif isinstance(pattern, Permutation):
        yield from _permuted(list(pattern.parts))
    elif isinstance(pattern, Quantified):
        copies = max(1, pattern.minimum) if pattern.maximum is None else pattern.maximum
        for _ in range(copies):
            yield from _labels(pattern.part)
    elif not isinstance(pattern, (Empty, Anchor)):
        yield from _labels(pattern.part)


def _permuted(parts: list[Pattern]) -> Iterator[Label]:
    if len(parts) == 1:
        yield from _labels(parts[0])
        return
    for index, part in enumerate(parts):
        yield from _labels(part)
        yield from _permuted(parts[:index] + parts[index + 1 :])
