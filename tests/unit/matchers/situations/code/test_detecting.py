"""The code of situation patterns in all ways: compiled, checked and interpreted, against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from episode.matchers.situations import matcher
from episode.matchers.situations import prepare as detection
from episode.matchers.situations.adapt import Orders
from episode.matchers.situations.code import deriving as counting
from episode.matchers.situations.code.arrays import SituationShape
from episode.matchers.situations.code.detecting import detection_program
from episode.native.assembly import assembly_of
from tests.reference.generate_situations import Case, cases
from tests.reference.situations import Event
from tests.support.situations import expected, run_in_pieces, run_whole, spec_of
from tests.unit.native.runs import AllWays, in_all_ways, run_all_ways


@pytest.fixture
def all_ways() -> Iterator[list[AllWays]]:
    with in_all_ways("situations", "values", "count_starts") as made:
        yield made


def comparable(rows: list[tuple]) -> list[tuple]:
    return sorted((tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows), key=repr)


def test_all_ways_find_what_the_oracle_finds(all_ways: list[AllWays]) -> None:
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(cases(max_events=10, max_keys=2))
    def check(case: Case) -> None:
        spec = spec_of(case.text, case.pattern.detect)
        oracle = comparable(expected(case))
        assert comparable(run_whole(spec, case.events)) == oracle
        events = sorted(case.events, key=lambda event: event.time)
        half = len(events) // 2
        assert comparable(run_in_pieces(spec, [events[:half], events[half:]], restore=True)) == oracle

    check()
    assert sum(one.calls for one in all_ways) > 40


def alternating(times: int, **columns: set[int]) -> list[Event]:
    """Events of one key; columns: the times at which each of the conditions holds."""
    names = ("a", "b", "c", "d")
    rest = {"x": 0.0, "n": 0, "s": ""}
    return [Event(time, {**{name: time in columns.get(name, ()) for name in names}, **rest}) for time in range(times)]


@pytest.mark.parametrize("detect", ["earliest", "complete"])
def test_searches_continue_when_there_is_room(
    detect: str, all_ways: list[AllWays], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One instant has many more matches than there is room for at first: none is lost, none comes twice."""
    monkeypatch.setattr(matcher, "SOFT_LIMIT", 2)
    spec = spec_of("DEFINE A AS a, B AS b, C AS c PATTERN A before C AND B before C RETURN A.start AS a, B.start AS b",
                   detect)  # fmt: skip
    events = alternating(30, a={1, 3, 5, 7}, b={2, 4, 6, 8}, c={20})
    found = [row[:2] for row in run_whole(spec, events)]
    assert sorted(found) == list(product([1, 3, 5, 7], [2, 4, 6, 8]))


def test_many_gaps(all_ways: list[AllWays]) -> None:
    """Every constraint leaves several ranges of one buffer, so that many are left together."""
    count = 18
    others = [f"Z{number}" for number in range(count)]
    defined = ", ".join(["S AS a", *(f"{name} AS n = {number + 1}" for number, name in enumerate(others))])
    pattern = " AND ".join(f"S before {name}; S during {name}; S after {name}" for name in others)
    symbols = range(1, count + 1)
    last = [(*(one for one in symbols if one != first), 0) for first in symbols]
    spec = spec_of(
        f"DEFINE {defined} PATTERN {pattern} RETURN S.start AS s", "complete", forced=(tuple(symbols), *last)
    )
    rest = {"b": False, "c": False, "d": False, "x": 0.0, "s": ""}
    end = 6 * (count + 2)
    events = [
        Event(time, {"a": time % 2 == 0, "n": time // 6 if time // 6 <= count else 0, **rest}) for time in range(end)
    ]
    held = [(time, time + 1) for time in range(0, end - 1, 2)]
    spans = [(6 * number + 6, 6 * number + 12) for number in range(count)]

    def fits(start: int, end: int) -> bool:
        return all(end < low or start > high or (low < start and end < high) for low, high in spans)

    wanted = [start for start, end in held if fits(start, end)]
    gaps = sum(other - one > 2 for one, other in pairwise(wanted))
    assert gaps > 16
    assert sorted(row[0] for row in run_whole(spec, events)) == wanted


def test_patterns_that_differ_in_numbers_share_code() -> None:
    texts = ["DEFINE A AS x > 1 AT LEAST 3, B AS b PATTERN A before B WITHIN 10",
             "DEFINE A AS x > 2 AT LEAST 5, B AS b PATTERN A before B WITHIN 100"]  # fmt: skip
    plans = [spec_of(text).plan for text in texts]
    first, second = (assembly_of(detection_program(detection.shape_of(plan, Orders(plan)))) for plan in plans)
    assert first == second


def test_code_has_only_what_a_pattern_uses() -> None:
    small = SituationShape(2, False, False, False, False, False)
    large = SituationShape(3, True, True, True, True, True)
    assert detection_program(small).size * 1.5 < detection_program(large).size
    assert {"find_decisive", "was_certain", "look_at_plan"}.isdisjoint(
        one.name for one in detection_program(small).functions
    )


def test_starts_are_counted() -> None:
    random = np.random.default_rng(5)
    for symbols in (1, 3, 10):
        bits = random.integers(0, 1 << symbols, 50).astype(np.uint64)
        from_ = np.array([0, 7, 8, 30, 50])
        expected = [
            sum(
                int(bits[row]) >> symbol & 1 and not (row not in from_ and int(bits[row - 1]) >> symbol & 1)
                for row in range(50)
            )
            for symbol in range(symbols)
        ]
        assert counting.count_starts(bits, from_, symbols).tolist() == expected
        program = counting.counting_program()
        assert run_all_ways(program, [bits, from_, np.zeros(symbols, np.int64)])[1][2].tolist() == expected
