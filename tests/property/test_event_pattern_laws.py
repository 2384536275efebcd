"""The laws for event patterns: oracle equality, chunk and shard invariance, bounded state."""

from __future__ import annotations

import itertools
import math
import random
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.lang.events.syntax import Strategy
from episode.matchers.columns import to_bytes
from episode.matchers.events import adapt as event_adapt
from episode.matchers.events import rounds as event_rounds
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import StateChunk
from episode.matchers.running import LocalRun, run
from episode.matchers.stream_shard import ShardSettings, StreamShard
from episode.plan.events.cost import PhysicalPlan, Shape
from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import InSequence, Node, OneOf, Together
from tests.reference.event_patterns import Event
from tests.reference.generate_events import CLOSED, Case, Features, cases
from tests.support.draws import assert_enough
from tests.support.events import Bound, bound, events_until, run_in_pieces, run_whole, spec_of, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
LASTING = Features(intervals=True)
ALTERNATIVES = Features(alternatives=True)
ALONE = Features(closure_alone=True)
END = 1_000


def planned(case: Case, **options: Any) -> EventPatternSpec:
    """The spec; what is refused at plan time, and what only Spark finishes, is none of these tests'."""
    try:
        spec = spec_of(case.text, typed=case.typed, key=case.key, strategy=case.strategy, **options)
    except EpisodeUnsupportedError as error:
        note(str(error))
        assume(False)
        raise
    assume(spec.plan.keeps == 0)
    return spec


def expected(case: Case, spec: EventPatternSpec) -> list[Bound]:
    """The oracle's matches, as positions of events per variable."""
    names = [m.name[len("out_") :] for m in spec.plan.measures.measures if m.name.startswith("out_")]
    found = []
    for match in case.matches():
        row = []
        for name in names:
            bound = match.events.get(name.lower(), ())
            row.append((name, (bound.position,) if isinstance(bound, Event) else tuple(e.position for e in bound)))
        found.append(tuple(row))
    return sorted(found)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_equals_the_oracle(strategy: Strategy) -> None:
    @SETTINGS
    @given(cases(strategy=strategy))
    def check(case: Case) -> None:
        spec = planned(case)
        assert sorted(run_whole(spec, case.events)) == expected(case, spec)

    check()


@SETTINGS
@given(cases(ALTERNATIVES, strategy=Strategy.NEXT))
def test_one_run_for_alternatives_equals_the_oracle(case: Case) -> None:
    spec = planned(case)
    assert sorted(run_whole(spec, case.events)) == expected(case, spec)


@SETTINGS
@given(cases(LASTING))
def test_events_that_last_equal_the_oracle(case: Case) -> None:
    spec = planned(case, lasting=True)
    assert sorted(run_whole(spec, case.events)) == expected(case, spec)


@pytest.mark.parametrize("pattern", ["B", "B | C", "B; !C", "!C; B", "B; C*"])
def test_an_event_that_lasts_longer_than_the_window_is_no_match(pattern: str) -> None:
    spec = spec_of(f"PATTERN {pattern} WITHIN 5", lasting=True)
    events = [
        Event(i, start, end, {"type": "B", "k": 1, "x": 1, "y": 1, "s": "a"})
        for i, (start, end) in enumerate([(0, 6), (2, 7), (1, 90)])
    ]
    found = run_whole(spec, events)
    assert [dict(match)["B"] for match in found] == [(1,)]


@pytest.mark.parametrize("lasting", [False, True], ids=["moments", "lasting"])
def test_closures_alone_equal_the_oracle(lasting: bool) -> None:
    """Whole, in rounds of few rows, and in chunks with restarts between them."""
    features = Features(closure_alone=True, groups_of_alternatives=True, shared_in_closure=True, intervals=lasting)

    @SETTINGS
    @given(cases(features, max_events=10, strategy=Strategy.ANY), st.integers(1, 4), st.data())
    def check(case: Case, rows: int, data: st.DataObject) -> None:
        spec = planned(case, lasting=lasting)
        oracle = expected(case, spec)
        assert sorted(run_whole(spec, case.events)) == oracle
        assert sorted(run_whole(planned(case, lasting=lasting, round_rows=rows), case.events)) == oracle
        assert sorted(run_in_pieces(spec, data.draw(pieces_of(case.events)), data.draw(st.booleans()))) == oracle

    check()


NEIGHBOURS = Features(neighbouring_groups=True)
OF_ALTERNATIVES = Features(neighbouring_groups=True, groups_of_alternatives=True, shared_in_closure=True)


@SETTINGS
@given(
    st.one_of(cases(NEIGHBOURS, strategy=Strategy.ANY), cases(OF_ALTERNATIVES, max_events=6, strategy=Strategy.ANY)),
    st.integers(1, 4),
    st.data(),
)
def test_groups_side_by_side_equal_the_oracle(case: Case, rows: int, data: st.DataObject) -> None:
    spec = planned(case)
    oracle = expected(case, spec)
    assert sorted(run_whole(spec, case.events)) == oracle
    assert sorted(run_whole(planned(case, round_rows=rows), case.events)) == oracle
    assert sorted(run_in_pieces(spec, data.draw(pieces_of(case.events)), data.draw(st.booleans()))) == oracle


@SETTINGS
@given(cases(), st.data())
def test_chunks_do_not_matter(case: Case, data: st.DataObject) -> None:
    spec = planned(case)
    pieces = data.draw(pieces_of(case.events))
    restore = data.draw(st.booleans())
    assert sorted(run_in_pieces(spec, pieces, restore)) == sorted(run_whole(spec, case.events))


@SETTINGS
@given(cases(), st.integers(1, 4))
def test_rounds_do_not_matter(case: Case, rows: int) -> None:
    small = planned(case, round_rows=rows)
    assert sorted(run_whole(small, case.events)) == sorted(run_whole(planned(case), case.events))


@SETTINGS
@given(st.one_of(cases(), cases(LASTING)), st.integers(1, 12), st.booleans())
def test_limits_of_records_do_not_matter(case: Case, most: int, pieces: bool) -> None:
    """Rounds are cut until they fit; where not even one moment does, there is an error."""
    lasting = any(event.ts != event.te for event in case.events)
    small = planned(case, lasting=lasting, most_records=most)
    middle = len(case.events) // 2
    borders = [i for i in range(1, len(case.events)) if case.events[i].te != case.events[i - 1].te and i >= middle]
    cut = borders[0] if pieces and borders else 0
    try:
        found = run_in_pieces(small, [case.events[:cut], case.events[cut:]], restore=False)
    except EpisodeDataError as error:
        note(str(error))
        return
    assert sorted(found) == sorted(run_whole(planned(case, lasting=lasting), case.events))


@pytest.mark.parametrize(
    ("pattern", "strategy", "most"),
    [
        ("A; B; C", Strategy.ANY, 100),
        ("A; B; C; !D", Strategy.ANY, 100),
        ("!D; A; B; !D e", Strategy.ANY, 60),
        ("A; B; C+", Strategy.ANY, 200),
        ("A+", Strategy.ANY, 200),
        ("(A | B); C; !D", Strategy.ANY, 60),
        ("A & B & !D", Strategy.ANY, 200),
        ("A+; B; !D", Strategy.ANY, 100),
        ("A; B; C", Strategy.NEXT, 20),
        ("A; B; !D", Strategy.NEXT, 8),
    ],
)
def test_rounds_are_cut_until_they_fit(
    pattern: str, strategy: Strategy, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One window has far fewer matches than all events: no match is lost, and none comes twice."""
    rng = random.Random(7)
    events = [
        Event(n, t, t, {"type": rng.choice("AABBCCABCABCD"), "k": 1, "x": 0, "y": 0, "s": ""})
        for n, t in enumerate(sorted(rng.choices(range(300), k=240)))
    ]
    spec = partial(spec_of, f"PATTERN {pattern} WITHIN 20", strategy=strategy)
    whole = sorted(run_whole(spec(), events))
    assert len(whole) > 10
    assert len(set(whole)) == len(whole)
    cuts = []
    halves = event_rounds.Rounds.halves
    monkeypatch.setattr(event_rounds.Rounds, "halves", lambda *rest: cuts.append(1) or halves(*rest))
    assert sorted(run_whole(spec(most_records=most), events)) == whole
    assert cuts
    pieces = [events[:100], events[100:170], events[170:]]
    assert sorted(run_in_pieces(spec(most_records=most), pieces, restore=True)) == whole


@SETTINGS
@given(cases(), st.data())
def test_shards_do_not_matter(case: Case, data: st.DataObject) -> None:
    spec = planned(case)
    assume(spec.input_order.keys)
    together = sorted(run_whole(spec, case.events))
    shards: dict[int, list[Event]] = {}
    where: dict[tuple[Any, ...], int] = {}
    for event in case.events:
        key = tuple(event.values[name] for name in spec.input_order.keys)
        if key not in where:
            where[key] = data.draw(st.integers(0, 2))
        shards.setdefault(where[key], []).append(event)
    assert sorted(bound for events in shards.values() for bound in run_whole(spec, events)) == together


@SETTINGS
@given(cases(strategy=Strategy.ANY), st.data())
def test_plans_do_not_matter(case: Case, data: st.DataObject) -> None:
    """Every tree, negations pushed down or on top, and the automaton find the same matches."""
    spec = planned(case)
    tree = spec.plan.tree
    assume(tree is not None)
    assert tree is not None
    shapes = tuple((node, data.draw(shapes_of(_size(node)))) for node in _inner(tree))
    automaton = spec.plan.automaton is not None and data.draw(st.booleans())
    forced = PhysicalPlan(automaton, shapes, 0.0, on_top=data.draw(st.booleans()))
    assert sorted(run_whole(planned(case, forced=forced), case.events)) == sorted(run_whole(spec, case.events))


class RandomPlans:
    """In place of the search for the cheapest plan: any one; with a new search in every round, and short rounds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.random = random.Random()
        self.used: list[list[PhysicalPlan]] = []
        constants = {"CHANGE": -1.0, "GAIN": -math.inf, "LEAST_ROWS": 0, "LEAST_WORK": 0}
        for name, value in constants.items():
            patch.setattr(event_adapt, name, value)
        patch.setattr(event_adapt, "search", self.any_plan)
        patch.setattr(event_rounds, "LEAST_WINDOWS", 0)
        plan_for = event_adapt.Adaptation.plan_for

        def noted(adaptation: event_adapt.Adaptation, *round_: Any) -> PhysicalPlan:
            if adaptation.rounds == 0:
                self.used.append([])
            self.used[-1].append(plan_for(adaptation, *round_))
            return self.used[-1][-1]

        patch.setattr(event_adapt.Adaptation, "plan_for", noted)

    def any_plan(self, plan: EventPlan, _: Any, only_trees: bool) -> PhysicalPlan:
        assert plan.tree is not None
        automaton = plan.automaton is not None and not only_trees and self.random.random() < 0.3
        shapes = tuple((node, self.any_shape(0, _size(node))) for node in _inner(plan.tree))
        return PhysicalPlan(automaton, shapes, 0.0, on_top=self.random.random() < 0.3)

    def any_shape(self, first: int, places: int) -> Shape:
        if places == 1:
            return first
        left = self.random.randint(1, places - 1)
        return self.any_shape(first, left), self.any_shape(first + left, places - left)

    @property
    def changes(self) -> int:
        """How often one round of a matcher had another plan than the round before it."""
        return sum(old != new for one in self.used for old, new in itertools.pairwise(one))


@pytest.mark.parametrize("features", [Features(), LASTING], ids=["moments", "lasting"])
def test_changes_of_the_plan_do_not_matter(features: Features, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that change between two rounds lose no match and give none twice; also with restarts between."""
    plans = RandomPlans(monkeypatch)
    changed = 0

    @SETTINGS
    @given(cases(features, max_events=10, strategy=Strategy.ANY), st.integers(0, 2**32), st.integers(1, 3), st.data())
    def check(case: Case, seed: int, rows: int, data: st.DataObject) -> None:
        nonlocal changed
        spec = planned(case, round_rows=rows, lasting=features.intervals)
        assume(spec.plan.tree is not None)
        plans.random.seed(seed)
        plans.used.clear()
        oracle = expected(case, spec)
        assert sorted(run_whole(spec, case.events)) == oracle
        changed += bool(oracle) and plans.changes > 0
        pieces = data.draw(pieces_of(case.events))
        assert sorted(run_in_pieces(spec, pieces, data.draw(st.booleans()))) == oracle

    check()
    assert_enough(changed, 10)


def test_rates_that_change_the_plan() -> None:
    """The thresholds as they are: A is rare at first, then C is; the result is that of either plan throughout."""
    text = "PATTERN A; B; C WHERE A.x < C.x WITHIN 120"
    spec = spec_of(text)
    kinds = ["ABBBBBBBCCCCCCC", "AAAAAAABBBBBBBC"]
    generator = random.Random(1)
    events = [
        Event(t, t, t, {"type": generator.choice(kinds[t >= 20_000]), "k": 1, "x": t % 7, "y": 1, "s": "a"})
        for t in range(40_000)
    ]
    running = LocalRun(spec)
    found = running.feed(table_of(events))
    left, right = (change.plan for change in running.matcher.adaptation.changes)
    assert left.shapes != right.shapes
    for forced in (left, right):
        fixed = run(spec_of(text, forced=forced), table_of(events))
        assert _in_order(fixed) == _in_order(found)


def _in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names])


@st.composite
def pieces_of(draw: st.DrawFn, events: list[Event]) -> list[list[Event]]:
    """The events cut in pieces, between two times."""
    borders = [i for i in range(1, len(events)) if events[i].te != events[i - 1].te]
    cuts = sorted(draw(st.sets(st.sampled_from(borders)))) if borders else []
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]


@st.composite
def shapes_of(draw: st.DrawFn, places: int, first: int = 0) -> Shape:
    """A binary tree over places."""
    if places == 1:
        return first
    left = draw(st.integers(1, places - 1))
    return draw(shapes_of(left, first)), draw(shapes_of(places - left, first + left))


def _inner(node: Node) -> list[Node]:
    if isinstance(node, InSequence):
        return [node, *(inner for place in node.places for inner in _inner(place))]
    if isinstance(node, (Together, OneOf)):
        parts = [inner for part in node.parts for inner in _inner(part)]
        return [node, *parts] if isinstance(node, Together) else parts
    return []


def _size(node: Node) -> int:
    return len(node.places) if isinstance(node, InSequence) else len(node.parts)  # type: ignore[union-attr]


def test_state_holds_one_window() -> None:
    """However long the stream, the matcher holds the qualifying events of the last window."""
    spec = spec_of("PATTERN A; B; C WITHIN 50")
    held = [rows for rows, _ in events_until(spec, chunks=60, per_chunk=40)]
    assert max(held[5:]) <= 51
    assert min(held[5:]) > 0


def test_state_forgets_events_that_nothing_precedes() -> None:
    """Without an A no B or C can be part of a match to come."""
    spec = spec_of("PATTERN A; B; C WITHIN 50")
    held = [rows for rows, _ in events_until(spec, chunks=10, per_chunk=40, classes="BC")]
    assert held == [0] * 10


@SETTINGS
@given(st.one_of(cases(), cases(ALONE), cases(CLOSED)), st.data())
def test_a_stream_equals_a_table(case: Case, data: st.DataObject) -> None:
    """Through the reorder buffer of streams, in micro-batches, with restarts: as over the whole."""
    spec = planned(case)
    shard = StreamShard(spec, ShardSettings(end=END))
    state: dict[str, StateChunk] = {}
    cuts = sorted(data.draw(st.sets(st.integers(0, len(case.events)), max_size=4)))
    found: list[Bound] = []
    watermark = -1
    for begin, end in zip([0, *cuts], [*cuts, len(case.events)], strict=True):
        table = table_of(case.events[begin:end])
        found += bound(spec, shard.step([(to_bytes(table), table)] if table.num_rows else [], watermark).matches)
        # Events of the last time may still have others of that time after them.
        watermark = max([watermark, *(event.te - 1 for event in case.events[:end])])
        if data.draw(st.booleans()):
            shard.snapshot().apply(state)
            last = shard.watermark
            shard = StreamShard(spec, ShardSettings(end=END))
            shard.restore(list(state.values()), last, False)
    found += bound(spec, shard.step([], END).matches)
    assert sorted(found) == sorted(run_whole(spec, case.events))


def test_a_fork_ends_with_its_own_first_match() -> None:
    """8 continues the closure and fits the next component: both continuations have a match, each its first."""
    text = "PATTERN SEQ(T a, T+ b[], T c) WHERE skip-till-next-match AND a.x = 0 AND b[i].x > 3 AND c.x > 7"
    spec = spec_of(text, typed=False)
    events = [Event(i, i, i, {"type": "T", "k": 1, "x": x, "y": 1, "s": "a"}) for i, x in enumerate([0, 5, 8, 9, 9])]
    found = [(("a", (0,)), ("b", tuple(range(1, i))), ("c", (i,))) for i in (2, 3, 4)]
    assert sorted(run_whole(spec, events)) == found
    assert sorted(run_in_pieces(spec, [events[:3], events[3:4], events[4:]], restore=True)) == found


def test_a_fork_into_each_alternative_ends_with_its_own_first_match() -> None:
    spec = spec_of("PATTERN SEQ(A a, SEQ(B b, C c) | SEQ(B z, D d)) WHERE skip-till-next-match")
    events = [
        Event(i, i, i, {"type": kind, "k": 1, "x": 1, "y": 1, "s": "a"}) for i, kind in enumerate("ABDDCC", start=1)
    ]
    with_c = (("a", (1,)), ("b", (2,)), ("c", (5,)), ("z", ()), ("d", ()))
    with_d = (("a", (1,)), ("b", ()), ("c", ()), ("z", (2,)), ("d", (3,)))
    assert sorted(run_whole(spec, events)) == sorted([with_c, with_d])


def test_what_a_run_passed_over_is_remembered_after_its_window() -> None:
    """The first B is too near to C; that is asked again when C has left the window of what is still to come."""
    spec = spec_of("PATTERN !C; A; B WITHIN 10", strategy=Strategy.NEXT)
    events = [
        Event(i, time, time, {"type": kind, "k": 1, "x": 1, "y": 1, "s": "a"})
        for i, (kind, time) in enumerate([("C", 0), ("A", 5), ("B", 8), ("D", 11), ("B", 12)])
    ]
    found = [(("A", (1,)), ("B", (4,)))]
    assert run_whole(spec, events) == found
    for restore in (False, True):
        assert run_in_pieces(spec, [events[:4], events[4:]], restore) == found


def test_a_negation_in_a_conjunction_ends_where_a_group_begins() -> None:
    spec = spec_of("PATTERN A; A v2 & !B; B+ v4")
    events = [
        Event(i, i, i, {"type": kind, "k": 1, "x": 1, "y": 1, "s": "a"}) for i, kind in enumerate("AABBAA", start=1)
    ]
    assert run_whole(spec, events) == [(("A", (1,)), ("v2", (2,)), ("v4", (3, 4)))]
