"""What a pattern asks of single rows, in the same terms for every language: many patterns can share the answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from episode.plan.expressions import Expression

RowClass = tuple[Expression, ...]
"""Row-local conditions that a row must all satisfy; none: every row is of the class."""


@dataclass(frozen=True)
class Demand:
    """classes: of the pattern's labels, variables or symbols; a row's bit i says that it is of class i.

    required: every match has, within its partition, a row of one of these classes, for each of the sets. sparse: rows
    of no class are in no match and prevent none, so that they may be left out. followed: but for the row after one of
    some class, which may end what that one began.
    """

    classes: tuple[RowClass, ...]
    required: tuple[tuple[int, ...], ...] = ()
    sparse: bool = False
    followed: bool = False


def demand_of(
    names: Sequence[str],
    conditions: Iterable[RowClass],
    required: Iterable[Iterable[str]],
    sparse: bool = False,
    followed: bool = False,
) -> Demand:
    """The demand of labels, variables or symbols with these conditions, in the order of their bits."""
    number = {name: at for at, name in enumerate(names)}
    chosen = tuple(conditions)
    sets = {tuple(sorted(number[name] for name in one)) for one in map(tuple, required) if number.keys() >= set(one)}
    useful = sorted(one for one in sets if one and all(chosen[at] for at in one))
    return Demand(chosen, tuple(useful), sparse and all(chosen) and bool(chosen), followed)
