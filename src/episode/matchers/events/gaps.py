"""Negations and groups of a tree, each with what stands around it: on finished matches they are looked for there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from episode.plan.events.tree import Absent, Gap, Group, InSequence, Leaf, Node, OneOf, Together, variables_of


@dataclass(frozen=True)
class GapSurroundings:
    """What stands around a node or an item of a gap.

    place_before, place_after: variables of the nearest places of events (none: the edge of the window).
    items_before, items_after: negations and groups between those and it, in order of the pattern.
    """

    place_before: tuple[str, ...] = ()
    place_after: tuple[str, ...] = ()
    items_before: Gap = ()
    items_after: Gap = ()


@dataclass(frozen=True)
class GapItem:
    """A negation or a group in its place. owner: it applies to matches that have an event of these variables."""

    item: Absent | Group
    owner: tuple[str, ...]
    around: GapSurroundings


def gap_items(node: Node, around: GapSurroundings | None = None) -> Iterator[GapItem]:
    """All negations and groups of a tree."""
    around = around or GapSurroundings()
    if isinstance(node, InSequence):
        yield from _of_sequence(node, around)
    elif isinstance(node, Together):
        for item in node.absent:
            yield GapItem(item, variables_of(node), around)
        for part in node.parts:
            yield from gap_items(part, around)
    elif isinstance(node, OneOf):
        for part in node.parts:
            yield from gap_items(part, around)


def _of_sequence(node: InSequence, around: GapSurroundings) -> Iterator[GapItem]:
    """Gap number i stands before place i; what is around the sequence stands around its first and last gap."""
    places = [variables_of(place) for place in node.places]
    gaps = list(node.gaps)
    gaps[0] = (*around.items_before, *gaps[0])
    gaps[-1] = (*gaps[-1], *around.items_after)
    outside = len(around.items_before)
    for number, own in enumerate(node.gaps):
        gap = gaps[number]
        first = outside if number == 0 else 0
        here = GapSurroundings(
            places[number - 1] if number else around.place_before,
            places[number] if number < len(places) else around.place_after,
        )
        for at, item in enumerate(own, start=first):
            yield GapItem(
                item, variables_of(node), replace(here, items_before=gap[:at], items_after=gap[at + 1 :])
            )  # fmt: skip
    for number, place in enumerate(node.places):
        yield from gap_items(
            place,
            GapSurroundings(
                places[number - 1] if number else around.place_before,
                places[number + 1] if number + 1 < len(places) else around.place_after,
                gaps[number],
                gaps[number + 1],
            ),
        )


def has_leading_group(node: Node) -> bool:
    """Does a group stand before all places? Then a match's start is known only with its groups."""
    return any(isinstance(one.item, Group) and not one.around.place_before for one in gap_items(node))


def optional_variables(node: Node, alternative: bool = False) -> Iterator[str]:
    """Variables that some records of a tree, or of a negation in it, are without. alternative: is the node one?"""
    if isinstance(node, Leaf):
        if alternative:
            yield node.variable
        return
    absent: tuple[Absent | Group, ...] = ()
    if isinstance(node, InSequence):
        parts, absent = node.places, tuple(item for gap in node.gaps for item in gap)
    else:
        parts = node.parts
        absent = node.absent if isinstance(node, Together) else ()
    for part in parts:
        yield from optional_variables(part, alternative or isinstance(node, OneOf))
    for item in absent:
        if isinstance(item, Absent):
            yield from optional_variables(item.node)
