"""Negations and groups of a tree: found on finished matches, between the places around them.

See decision 62.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from episode.matchers.events.compiled_loops import all_between, all_following, split_groups
from episode.matchers.events.records import NO_LIMIT, EventLists, FoundRecords, RowLists, TooManyRecords, merge_lists
from episode.matchers.times import window_ends, window_starts
from episode.plan.events.tree import Absent, Gap, Group, InSequence, Leaf, Node, OneOf, Together, variables_of

if TYPE_CHECKING:
    from episode.matchers.events.tree import TreeRun


@dataclass(frozen=True)
class GapSurroundings:
    """The surroundings of a node or an item of a gap.

    place_before, place_after: variables of the nearest places of events (none: the edge of the window). items_before,
    items_after: negations and groups between those and it, in order of the pattern.
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
    """The items of a sequence: gap i is before place i; items around the sequence join its first and last gap."""
    places = [variables_of(place) for place in node.places]
    gaps = list(node.gaps)
    gaps[0] = (*around.items_before, *gaps[0])
    gaps[-1] = (*gaps[-1], *around.items_after)
    neighbours = [around.place_before, *places, around.place_after]
    for number, (own, gap) in enumerate(zip(node.gaps, gaps)):
        for at, item in enumerate(own, start=0 if number else len(around.items_before)):
            here = GapSurroundings(neighbours[number], neighbours[number + 1], gap[:at], gap[at + 1 :])
            yield GapItem(item, variables_of(node), here)
    for number, place in enumerate(node.places):
        here = GapSurroundings(neighbours[number], neighbours[number + 2], gaps[number], gaps[number + 1])
        yield from gap_items(place, here)


def has_leading_group(node: Node) -> bool:
    """Does a group come before all places? Then a match's start is known only with its groups."""
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


# Groups of a tree: on finished matches, all events that qualify between the places around them.


GroupWays = tuple[np.ndarray, np.ndarray, np.ndarray]
"""which, low, high: a way w to fill the groups of match which[w] has rows low[w, g]:high[w, g] of group g."""


def add_groups(run: TreeRun, found: FoundRecords) -> None:
    """Add all groups to the matches; matches without the events that a group needs are dropped."""
    for place in run.items:
        item = place.item
        if not isinstance(item, Group) or (not item.chosen and _groups(place.around.items_before)):
            continue  # found together with the group before it
        groups = [item] if item.chosen else [item, *_groups(place.around.items_after)]
        applies = run.applies(place, found)
        lists = [_candidates(run, place, group, found).only(applies) for group in groups]
        if len(groups) > 1:
            which, low, high = _split_groups(run, groups, lists, applies)
        elif item.count is not None and not item.follows:
            which, low, high = _runs(run, lists[0], item.count, applies)
        else:
            which, low, high = _first(lists[0], item, applies)
        found.select(which)
        for number, group in enumerate(groups):
            mine = lists[number].parts(low[:, number], high[:, number])
            found.groups.update(mine.by_variable(group))
        _stretch(run, place, groups, found)


def _groups(items: tuple[object, ...]) -> list[Group]:
    return [item for item in items if isinstance(item, Group) and not item.chosen]


def _candidates(run: TreeRun, place: GapItem, group: Group, found: FoundRecords) -> EventLists:
    """All events that qualify for a group between the places around it."""
    lists = []
    for name in group.variables:
        events = _following(run, place, group, name, found) if group.follows else _between(run, place, name, found)
        if events is None:
            raise TooManyRecords(run.limit, "events in the closures of its matches")
        lists.append(events)
    return merge_lists(lists)


def _between(run: TreeRun, place: GapItem, name: str, found: FoundRecords) -> RowLists | None:
    low, high = run.bounds(place, found)
    buffer, tests = run.leaf(name), run.plan.group_tests[name]
    compiled = run.arrays.pair_tests(tests, found.variables, buffer.variables)
    return all_between(compiled, run.arrays.lanes, found, low, high, buffer, run.limit)


def _following(run: TreeRun, place: GapItem, group: Group, name: str, found: FoundRecords) -> RowLists | None:
    """The rest of a closure that is alone: the events after its first one, within the window."""
    columns = [found.variables.index(before) for before in place.around.place_before]
    first = found.rows[:, columns].max(axis=1)  # one of the alternatives; the others have -1
    newest = window_ends(found.start, run.window)
    most = group.count if group.count is not None and not group.others else NO_LIMIT
    return all_following(run.arrays.lanes, found, first, found.start, newest, run.leaf(name), most, run.limit)


# ---- ways ---------------------------------------------------------------------------------------------


def _first(lists: EventLists, group: Group, applies: np.ndarray) -> GroupWays:
    """The first `count` events, or all of them."""
    which = np.flatnonzero(~applies | (lists.lengths >= group.minimum))
    low, high = lists.offsets[:-1][which], lists.offsets[1:][which]
    if group.count is not None:
        high = np.minimum(high, low + group.count)
    return which, low[:, None], high[:, None]


def _runs(run: TreeRun, lists: EventLists, count: int, applies: np.ndarray) -> GroupWays:
    """`^n`: a match for every run of n successive events."""
    runs = np.where(applies, np.maximum(lists.lengths - count + 1, 0), 1)
    which = np.repeat(np.arange(len(runs)), runs)
    if len(which) > run.limit:
        raise TooManyRecords(run.limit)
    within = np.arange(len(which)) - np.repeat(np.cumsum(runs) - runs, runs)
    low = lists.offsets[:-1][which] + within
    high = low + np.where(applies[which], count, 0)
    return which, low[:, None], high[:, None]


def _split_groups(run: TreeRun, groups: list[Group], lists: list[EventLists], applies: np.ndarray) -> GroupWays:
    """Groups side by side: a match for every way to part their events."""
    begins = np.concatenate([[0], np.cumsum([len(one.rows) for one in lists])])[:-1]
    which, low, high = split_groups(
        np.stack([one.offsets + begin for one, begin in zip(lists, begins, strict=True)]),
        np.concatenate([one.rows for one in lists]),
        np.array([group.minimum for group in groups], np.int64),
        np.array([group.count or 0 for group in groups], np.int64),
        run.round.end,
        run.limit,
    )
    if len(which) > run.limit:
        raise TooManyRecords(run.limit)
    mine = applies[which]
    absent = np.flatnonzero(~applies)
    which = np.concatenate([which[mine], absent])
    order = np.argsort(which, kind="stable")
    none = np.zeros((len(absent), len(groups)), np.int64)
    low, high = np.concatenate([low[mine] - begins, none]), np.concatenate([high[mine] - begins, none])
    return which[order], low[order], high[order]


def _stretch(run: TreeRun, place: GapItem, groups: list[Group], found: FoundRecords) -> None:
    """A group at the edge of the pattern moves the match's start or end, and must fit its window."""
    if place.around.place_before and place.around.place_after:
        return
    for name in (name for group in groups for name in group.variables):
        offsets, rows = found.groups[name]
        some = np.diff(offsets) > 0
        if not place.around.place_before:
            found.start = found.start.copy()
            found.start[some] = np.minimum(found.start[some], run.round.start[rows[offsets[:-1][some]]])
        else:
            found.end = found.end.copy()
            found.end[some] = np.maximum(found.end[some], run.round.end[rows[offsets[1:][some] - 1]])
    found.select(np.flatnonzero(found.start >= window_starts(found.end, run.window)))
