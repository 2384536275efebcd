"""What explain says of a run: engines, estimates beside what was counted, and the plans that were taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from episode.matchers.events import adapt as event_adapt
from episode.matchers.events import rounds as event_rounds
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.running import LocalRun
from episode.plan.events.cost import PhysicalPlan, search
from episode.plan.events.cost import default_statistics as defaults
from episode.plan.events.explain import event_section
from episode.plan.events.physical_plan import plan_words
from episode.plan.events.plan import EventReport
from episode.plan.sections import lines_of
from tests.reference.event_patterns import Event
from tests.support.events import spec_of, table_of


def reported(spec: EventPatternSpec, kinds: str) -> list[str]:
    """The report of a run over events of these types, one at each unit of time."""
    events = [Event(t, t, t, {"type": kind, "k": 1, "x": t % 3, "y": 1, "s": "a"}) for t, kind in enumerate(kinds)]
    running = LocalRun(spec)
    running.feed(table_of(events))
    report = running.matcher.report()
    carried = EventReport.from_json(report.to_json())
    assert carried == report
    return lines_of(replace(event_section(spec.plan, [report.to_json()]), blocks=()))[1:]


def test_a_change_says_which_plan_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LEAST_ROWS": 0, "LEAST_WORK": 0, "HALF_LIFE": 100}.items():
        monkeypatch.setattr(event_adapt, name, value)
    monkeypatch.setattr(event_rounds, "FIRST_ROWS", 400)
    spec = spec_of("PATTERN A; B; C WHERE A.x < C.x WITHIN 60", round_rows=400)
    lines = reported(spec, "ABBBBBBBCCCCCCC" * 40 + "AAAAAAABBBBBBBC" * 120)
    taken = [line.strip() for line in lines[lines.index("  plans taken:") + 1 :]]
    assert taken[0].startswith("round 1: first events seen; (A; B); C, cost ")
    assert "; A; (B; C), cost" in taken[-1]
    assert "→" in taken[-1]


def test_counts_stand_beside_estimates() -> None:
    """Every third event is an A, a B or a C: 10 of each in a window, so that pairs and records can be reckoned."""
    lines = reported(spec_of("PATTERN A; B; C WITHIN 30"), "ABC" * 100)
    at = next(number for number, line in enumerate(lines) if line.startswith("  tree of the busiest part"))
    assert lines[at - 1] == "  plans at the end: a tree (1)"
    tree = lines[at + 1 : at + 6]
    assert [line.split("(")[0].strip() for line in tree] == ["SEQ", "SEQ", "A", "B", "C"]
    assert all("; in fact " in line for line in tree)
    assert all("cost" in line.split("; in fact ")[1] for line in tree[:2])
    assert lines[at + 6].startswith("  automaton instead: cost ")


def test_a_forced_tree_has_no_counts_per_window() -> None:
    plan = spec_of("PATTERN A; B; C WITHIN 30").plan
    forced = search(plan, defaults(plan))
    assert not any(
        "in fact" in line for line in reported(spec_of("PATTERN A; B; C WITHIN 30", forced=forced), "ABC" * 10)
    )


def test_the_automaton_is_told() -> None:
    spec = spec_of("PATTERN SEQ(A a, B+ b[], C c) WHERE skip-till-next-match WITHIN 5")
    assert reported(spec, "ABCABBC") == [
        "  run: 1 parts of the input, 1 rounds, 2 matches",
        "  plans at the end: the automaton (1)",
    ]


def test_the_automaton_in_place_of_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_adapt, "search", lambda plan, *_: PhysicalPlan(True, (), 7.0))
    lines = reported(spec_of("PATTERN A; B WITHIN 5"), "ABAB")
    assert lines[1] == "  plans at the end: the automaton (1)"
    assert lines[2].startswith("  automaton instead: cost ")
    assert lines[2].endswith(" (chosen)")
    assert lines[3:] == ["  plans taken:", "    round 1: first events seen; the automaton, cost 7"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("A", "A"),
        ("A; B", "A; B"),
        ("A; !D; B; C", "(A; !D; B); C"),
        ("!D; A; B; C+", "!D; (A; B); C+"),
        ("(A & !B); C", "(A & !B); C"),
        ("(A; B) | (C & D)", "(A; B) | (C & D)"),
        ("A & (B | C) & D", "(A & (B | C)) & D"),
    ],
)
def test_plans_in_one_line(pattern: str, words: str) -> None:
    plan = spec_of(f"PATTERN {pattern} WITHIN 10").plan
    assert plan_words(plan, search(plan, defaults(plan))) == words
