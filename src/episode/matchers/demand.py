"""What a pattern asks of single rows, in the same terms for every language: many patterns can share the answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from episode.matchers.times import EVER
from episode.plan.expressions import Expression

if TYPE_CHECKING:
    import numpy as np

    from episode.matchers.protocol import EventBatch

ROW_NANOSECONDS = 150.0
"""What it costs a pattern to be given one more row: gathering, encoding and looking at it (measured: 110 – 400)."""

RowClass = tuple[Expression, ...]
"""Row-local conditions that a row must all satisfy; none: every row is of the class."""


@dataclass(frozen=True)
class ClassDemand:
    """classes: of the pattern's labels, variables or symbols; a row's bit i says that it is of class i.

    required: every match has, within its partition, a row of one of these classes, for each of the sets. sparse: rows
    of no class are in no match and prevent none, so that they may be left out. followed: but for the row after one of
    some class, which may end what that one began. chain: every match has, in this order, an event of one of the classes
    of each set (bits of classes), all within `within`, in units of event time; what else matters to it lies within that
    time of one of them.
    """

    classes: tuple[RowClass, ...]
    required: tuple[tuple[int, ...], ...] = ()
    sparse: bool = False
    followed: bool = False
    chain: tuple[int, ...] = ()
    within: int = EVER


def demand_of(
    names: Sequence[str],
    conditions: Iterable[RowClass],
    required: Iterable[Iterable[str]],
    sparse: bool = False,
    followed: bool = False,
) -> ClassDemand:
    """The demand of labels, variables or symbols with these conditions, in the order of their bits."""
    number = {name: at for at, name in enumerate(names)}
    chosen = tuple(conditions)
    sets = {tuple(sorted(number[name] for name in one)) for one in map(tuple, required) if number.keys() >= set(one)}
    useful = sorted(one for one in sets if one and all(chosen[at] for at in one))
    return ClassDemand(chosen, tuple(useful), sparse and all(chosen) and bool(chosen), followed)


class Prefix(Protocol):
    """The first places of a pattern, whose classes and conditions others may have in common with it.

    same: equal for prefixes of the same places and conditions. at: the demand's class of each place. within: the time
    that all places have. columns: what is read of events of which it is known for which places they qualify.
    """

    @property
    def same(self) -> object: ...

    @property
    def at(self) -> tuple[int, ...]: ...

    @property
    def within(self) -> int: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> str:
        """For explain."""
        ...

    def gain(self, sample: EventBatch, counts: Sequence[int], windows: float, rules: float) -> float:
        """Nanoseconds that are saved, less what it costs to find the events of the prefix once, for so many rules.

        sample: some of the events. counts: how many events there are for each place. windows: how many windows there
        are, of all partitions together.
        """
        ...

    def left(self, events: EventBatch) -> np.ndarray:
        """uint64: for which places events are in some match of the prefix, as bits; all events are there."""
        ...


@runtime_checkable
class Prefixed(Protocol):
    """A MatcherSpec that can say how its pattern begins."""

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The shortest first."""
        ...
