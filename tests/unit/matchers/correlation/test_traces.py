"""Tables 3 and 4 of the PCQ paper: what the recent buffer and the result cache hold while the running example goes on.

The tables print what is there while a tuple is processed; here it is looked at afterwards, when what no tuple to come
can need is gone. So a match that the paper drops at 02:10 is gone after 02:09. And the buffer has fewer rows than the
paper's where starts were tried that gave no match: those rows are done with as much as those that gave one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from episode.matchers.correlation.matcher import CorrelationMatcher
from episode.matchers.running import LocalRun
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from tests.support.correlation import correlation, pairs_of
from tests.unit.matchers.correlation.test_table1 import INPUT


def trace(strategy: CorrelationStrategy) -> Iterator[tuple[int, list[int], list[tuple[int, int]], list[Any]]]:
    """For each tuple: its time, times in the recent buffer, (start, end) in the cache, (start, end) of the results."""
    spec = correlation(plan=CorrelationPlan(strategy, ordered=True))
    running = LocalRun(spec)
    for time in range(len(INPUT)):
        output = running.feed(INPUT.slice(time, 1), time)
        matcher = running.matcher
        assert isinstance(matcher, CorrelationMatcher)
        second, cache = matcher.archive, matcher.join.archive.matches
        if strategy is CorrelationStrategy.ARCHIVE_FIRST:
            second, cache = matcher.live, matcher.join.live.matches
        buffer = second.recent.rows.time.tolist()  # type: ignore[attr-defined]
        kept = list(zip(cache.start.tolist(), cache.end.tolist(), strict=True))
        yield time, buffer, kept, [pair[:2] for pair in pairs_of(spec, output)]


def test_table_3_lazy_live_first_with_the_cache() -> None:
    assert list(trace(CorrelationStrategy.LIVE_FIRST)) == [
        (0, [0], [], []),
        (1, [0, 1], [], []),
        (2, [0, 1, 2], [], []),
        (3, [1, 2, 3], [], []),  # the fall that ends here asked for the starts before 02:02: none gave a match
        (4, [1, 2, 3, 4], [], []),  # the paper: from 02:00 on
        (5, [3, 4, 5], [(2, 4)], [(2, 5)]),
        (6, [3, 4, 5, 6], [(2, 4)], []),
        (7, [5, 6, 7], [(2, 4), (4, 6)], [(2, 7)]),
        (8, [5, 6, 7, 8], [(2, 4), (4, 6)], []),
        (9, [7, 8, 9], [(4, 6)], [(2, 9), (4, 7), (4, 9)]),  # the paper: from 02:05 on
        (10, [7, 8, 9, 10], [(4, 6)], []),
    ]


def test_table_4_lazy_archive_first_with_the_cache() -> None:
    rows = list(trace(CorrelationStrategy.ARCHIVE_FIRST))
    assert [(time, cache, results) for time, _, cache, results in rows] == [
        (0, [], []),
        (1, [], []),
        (2, [], []),
        (3, [], []),
        (4, [], []),
        (5, [(4, 5)], [(2, 5)]),
        (6, [(4, 5)], []),
        (7, [(4, 5), (6, 7)], [(2, 7)]),
        (8, [(4, 5), (6, 7)], []),
        (9, [(6, 7), (8, 9)], [(2, 9), (4, 7), (4, 9)]),  # the archive is beyond the fall from 02:04 to 02:05 now
        (10, [(6, 7), (8, 9)], []),
    ]
    # Every row since the last one that can only begin a fall; the paper holds all from the archive match's start on.
    assert [buffer for _, buffer, _, _ in rows[5:]] == [[3, 4, 5], [5, 6], [5, 6, 7], [7, 8], [7, 8, 9], [9, 10]]
