"""Which plan is chosen does not depend on how the events are fed: in feeds shorter than the window as in one feed.

Results under any plan are the subject of other tests.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from episode.matchers.events import adapt
from episode.matchers.running import LocalRun
from episode.plan.events.physical_plan import plan_words
from tests.support.events import SCHEMA, spec_of

WINDOW, EVENTS = 300, 1_500
RARE_IN_X, RARE_IN_Y = "A.x > B.x", "B.y > C.y"
"""Each holds for one pair in fifty."""


def table(classes: str, seed: int) -> pa.Table:
    """One event for each unit of time, of classes drawn from a string, an upper bound of how often each occurs."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for time in range(EVENTS):
        kind = rng.choice(classes)
        # Lower values in A than in B (of x), in B than in C (of y), but for one in fifty.
        x = rng.choice([2] + [0] * 49) if kind == "A" else 1
        y = rng.choice([2] + [0] * 49) if kind == "B" else 1
        rows.append({"pos": time, "ts": time, "te": time, "type": kind, "k": 1, "x": x, "y": y, "s": "u"})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def chosen(text: str, events: pa.Table, feed: int) -> str:
    """The plan in use at the end, in words."""
    spec = spec_of(text)
    running = LocalRun(spec)
    for begin in range(0, EVENTS, feed):
        end = min(begin + feed, EVENTS)
        running.feed(events.slice(begin, end - begin), end - 1)
    physical = running.matcher.adaptation.physical
    assert physical is not None
    return plan_words(spec.plan, physical)


@pytest.mark.parametrize("feed", [10, 40, 150])
@pytest.mark.parametrize(
    ("pattern", "where", "classes", "plan"),
    [
        ("A; B; C", RARE_IN_X, "ABC", "(A; B); C"),
        ("A; B; C", RARE_IN_Y, "ABC", "A; (B; C)"),
        ("A; B; C", "", "A" + "B" * 10 + "C" * 40, "(A; B); C"),
        ("A; B; C", "", "C" + "B" * 10 + "A" * 40, "A; (B; C)"),
        ("A; B; C; D", f"{RARE_IN_X} AND C.y < D.y - 1", "ABCD", None),
        ("A; B; C; D", RARE_IN_Y, "ABCD", None),
        ("A; B; !N; C", RARE_IN_X, "ABCN", None),
        ("A; !N; B; C", RARE_IN_Y, "AABBCCN", None),
    ],
)
def test_feeds_shorter_than_the_window_choose_as_one_feed(
    pattern: str, where: str, classes: str, plan: str | None, feed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LEAST_ROWS", 0), ("LEAST_WORK", 0), ("SAMPLE_ROWS", WINDOW // 2), ("HALF_LIFE", WINDOW)):
        monkeypatch.setattr(adapt, name, value)
    text = f"PATTERN {pattern} {f'WHERE {where}' if where else ''} WITHIN {WINDOW}"
    events = table(classes, seed=7)
    whole = chosen(text, events, EVENTS)
    assert plan is None or whole == plan
    assert chosen(text, events, feed) == whole


@pytest.mark.parametrize("feed", [50, 1_000])
def test_a_plan_is_judged_by_all_events_of_a_long_window(feed: int) -> None:
    """The events of the last class are not held, but count: without them, a tree that joins the last two classes first
    seems to cost nothing."""
    rng, window = random.Random(5), 4_500
    rows = []
    for time in range(4 * window):
        kind, rare = rng.choice("ABC"), rng.randrange(500) == 0
        x = {"A": 2 * rare, "B": 1, "C": 0}[kind]
        rows.append(
            {"pos": time, "ts": time, "te": time, "type": kind, "k": 1, "x": x, "y": rng.randrange(500), "s": ""}
        )
    events = pa.Table.from_pylist(rows, schema=SCHEMA)
    spec = spec_of(f"PATTERN A; B; C WHERE A.x > B.x AND A.y = C.y WITHIN {window}")
    running = LocalRun(spec)
    cuts = [*range(0, 2 * window, 1_000), *range(2 * window, 3 * window, 1_000), *range(3 * window, 4 * window, feed)]
    for begin, end in pairwise([*cuts, 4 * window]):
        running.feed(events.slice(begin, end - begin), end - 1)
    assert plan_words(spec.plan, running.matcher.adaptation.physical) == "(A; B); C"
    assert running.matcher.tree is not None
    assert running.matcher.tree.physical == running.matcher.adaptation.physical
