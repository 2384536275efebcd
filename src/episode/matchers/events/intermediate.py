"""Intermediate matches of one round: a choice of single events with all events that each closure may choose from.

The first stage of closures that are postponed (plan/events/postponed.py), and all that collapsed results need. The
closures of a round may have many more events than the round itself: so they come in parts of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from episode.matchers.events.looking import hold
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import NO_LIMIT, FoundRecords, TooManyRecords
from episode.matchers.events.tree import TreeRun
from episode.plan.events.postponed import Construction


def intermediate_matches(run: TreeRun, construction: Construction | None = None) -> Iterator[FoundRecords]:
    """The intermediate matches of a round, in parts with at most run.limit closure events; one match may have more.

    TooManyRecords is raised at once, if at all.
    """
    found = run.records()
    if construction is not None and construction.tests:
        tests = run.arrays.pair_tests(construction.tests, found.variables, ())
        found.select(np.flatnonzero(hold(tests, run.arrays.lanes, found.rows)))
    return _parts(run, construction, found)


def _parts(run: TreeRun, construction: Construction | None, found: FoundRecords) -> Iterator[FoundRecords]:
    at, size, limit = 0, len(found.rows), run.limit
    while at < len(found.rows):
        part = found.part(at, at + size)
        run.limit = limit if size > 1 else NO_LIMIT
        try:
            run.complete(part)
        except TooManyRecords:
            size = (size + 1) // 2
            continue
        finally:
            run.limit = limit
        at += size
        size *= 2
        if construction is not None:
            for name, tests_ in construction.group_tests.items():
                if tests_:
                    _keep_members(run.arrays, part, name, construction)
        if len(part.rows):
            yield part


def _keep_members(arrays: EventArrays, found: FoundRecords, name: str, construction: Construction) -> None:
    """Only those events of a group for which the conditions hold that pattern matching has left out."""
    offsets, members = found.groups[name]
    which = np.repeat(np.arange(len(found.rows)), np.diff(offsets))
    records = np.column_stack([found.rows[which], members]).astype(np.int32)
    tests = arrays.pair_tests(construction.group_tests[name], (*found.variables, name), ())
    held = hold(tests, arrays.lanes, records)
    kept = np.concatenate([[0], np.cumsum(held)])
    found.groups[name] = kept[offsets], members[held]
