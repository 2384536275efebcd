"""Imprecise time in process: types of time, thresholds, unions, what is wrong with data, output of any size."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError
from episode.lang.events.parser import parse_event_query
from episode.matchers.running import LocalRun
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes, Imprecision
from episode.plan.schema import InputSchema
from tests.support.imprecise import found_in, spec_of_text

PAIR = "PATTERN SEQ(A a, B b)"
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def events(*rows: tuple[str, Any, Any], **columns: Any) -> pa.Table:
    """Class, lo and hi of each event."""
    kinds, lo, hi = (list(column) for column in zip(*rows, strict=True))
    return pa.table({"type": kinds, "lo": lo, "hi": hi, **columns})


def found(table: pa.Table, text: str, **options: Any) -> list[float]:
    options = {"time": ("lo", "hi"), "type_column": "type", **options}
    return episode.match_local(table, text, **options).column("confidence").to_pylist()


# ---- time ---------------------------------------------------------------------------------------------


def test_integers() -> None:
    assert found(events(("A", 1, 2), ("B", 2, 3)), PAIR) == [0.75]
    assert found(events(("A", 1, 2), ("B", 2, 3)), f"{PAIR} WITHIN 1") == [0.5]


def test_times_that_are_as_far_apart_as_the_granularity() -> None:
    assert found(events(("A", 0, 10), ("B", 10, 20)), PAIR, granularity=10) == [0.75]
    # 0, 4, 8 and 6, 10: hi is none of the times of A.
    assert found(events(("A", 0, 10), ("B", 6, 10)), PAIR, granularity=4) == [pytest.approx(5 / 6)]


def test_timestamps() -> None:
    seconds = [NOON + timedelta(seconds=n) for n in range(4)]
    table = events(("A", seconds[1], seconds[2]), ("B", seconds[2], seconds[3]))
    assert found(table, f"{PAIR} WITHIN 1 minute", granularity="1 second") == [0.75]
    assert found(table, f"{PAIR} WITHIN 1 second", granularity=timedelta(seconds=1)) == [0.5]


def test_dates() -> None:
    table = events(("A", date(2026, 1, 1), date(2026, 1, 2)), ("B", date(2026, 1, 2), date(2026, 1, 3)))
    assert found(table, f"{PAIR} WITHIN 1 day") == [0.5]


def test_match_start_and_match_end() -> None:
    output = episode.match_local(
        events(("A", 1, 9), ("B", 2, 3)), f"{PAIR} RETURN a.lo AS x", time=("lo", "hi"), type_column="type"
    )
    assert output.to_pylist() == [{"x": 1, "match_start": 1, "match_end": 9, "confidence": pytest.approx(1.5 / 9)}]


def test_given_probabilities() -> None:
    table = events(("A", 1, 3), ("B", 2, 3), p=[[0.25, 0.25, 0.5], [0.0, 1.0]])
    assert found(table, PAIR, probabilities="p") == [0.5]


def test_in_sql() -> None:
    query = (
        "FROM t TIME BETWEEN lo AND hi TYPE BY type PATTERN SEQ(A a, B b) WITHIN 1 CONFIDENCE >= 50% RETURN a.lo AS x"
    )
    assert episode.sql_local(query, t=events(("A", 1, 2), ("B", 2, 3))).to_pylist() == [
        {"x": 1, "match_start": 1, "match_end": 3, "confidence": 0.5}
    ]


# ---- thresholds and patterns --------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "count"), [("0", 1), ("0.75", 1), ("0.7500001", 0), ("1", 0)])
def test_a_threshold_that_is_just_reached(threshold: str, count: int) -> None:
    assert len(found(events(("A", 1, 2), ("B", 2, 3)), f"{PAIR} CONFIDENCE >= {threshold}")) == count


def test_a_sum_of_thirds_reaches_the_threshold() -> None:
    """2/3, however it is rounded; the other B has 1/3."""
    table = events(("A", 0, 2), ("B", 2, 2), ("B", 1, 1))
    assert sorted(found(table, f"{PAIR} CONFIDENCE >= 0.6666666666666667")) == [pytest.approx(2 / 3)]


def test_a_threshold_from_a_parameter() -> None:
    table = events(("A", 1, 2), ("B", 2, 3))
    assert found(table, f"{PAIR} CONFIDENCE >= :c", args={"c": 0.8}) == []
    with pytest.raises(EpisodeAnalysisError, match="not a confidence"):
        found(table, f"{PAIR} CONFIDENCE >= :c", args={"c": 8})


def test_alternatives() -> None:
    table = events(("A", 1, 2), ("B", 2, 3), ("C", 1, 2))
    assert sorted(found(table, "PATTERN SEQ(A a, B b) | SEQ(A a, C c)")) == [0.25, 0.75]


def test_a_closure_of_a_sequence_is_in_order() -> None:
    table = events(("A", 1, 2), ("B", 2, 3), ("A", 4, 4), ("B", 5, 5))
    assert sorted(found(table, "PATTERN SEQ(SEQ(A a, B b)+)")) == [0.75, 0.75, 1.0, 1.0]


def test_an_event_is_not_two_events_of_a_match() -> None:
    """Without a type column one event could be both."""
    assert found(events(("A", 1, 9)), PAIR, type_column=None) == []


def test_output_that_is_far_larger_than_a_piece_of_it() -> None:
    """One C decides all matches at one time: they come in pieces nevertheless."""
    spec = spec_of_text("PATTERN SEQ(A a, B+ b[], C c) WITHIN 100", most_records=100)
    rows = [("A", 0, 1), *[("B", n + 2, n + 4) for n in range(12)], ("C", 40, 41)]
    table = pa.Table.from_pylist(
        [{"pos": n, "type": kind, "lo": lo, "hi": hi} for n, (kind, lo, hi) in enumerate(rows)],
        schema=spec.input_schema,
    )
    running = LocalRun(spec)
    pieces = list(running.matcher.feed(running.events(table), 1000))
    assert max(piece.num_rows for piece in pieces) <= 400
    assert len(found_in(spec, pa.concat_tables(pieces))) == 2**12 - 1


# ---- what is wrong with the data ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:No event is of the class")
@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (events(("A", 3, 2)), {}, "earliest time after the latest, one of them with lo 3 and hi 2"),
        (events(("A", None, 2), ("B", 1, 2)), {}, "no earliest time: column lo is null, in one of them with hi 2"),
        (events(("A", 1, None), ("B", 1, 2)), {}, "column hi is null"),
        (
            events(("A", 1, 9)),
            {"interval_width": 5},
            "further apart than the WIDTH of the query, one of them lo 1 and hi 9",
        ),
        (events(("A", 0, 1 << 20)), {}, "lo = 0, hi = 1048576 can have more than 65,536 times"),
        (
            events(("A", 1, 2), p=[[0.5, 0.25, 0.25]]),
            {"probabilities": "p"},
            "hi = 2 has 3 probabilities for 2",
        ),
        (events(("A", 1, 2), p=[[0.5, 0.25]]), {"probabilities": "p"}, "hi = 2 has probabilities whose sum is 0.75"),
        (events(("A", 1, 2), p=[[1.5, -0.5]]), {"probabilities": "p"}, "has an impossible probability"),
        (events(("A", 1, 2), p=[[None, 1.0]]), {"probabilities": "p"}, "has an impossible probability"),
        (events(("A", 1, 1), ("A", 1, 2), p=[[1.0], None]), {"probabilities": "p"}, "hi = 2 has no probabilities"),
    ],
)
def test_an_event_that_cannot_be_is_named(table: pa.Table, options: dict[str, Any], message: str) -> None:
    with pytest.raises(EpisodeDataError) as raised:
        found(table, PAIR, **options)
    assert message in str(raised.value)


def test_explosions_are_reported() -> None:
    table = events(("A", 0, 1), *[("B", n + 2, n + 4) for n in range(30)], ("C", 50, 51))
    with pytest.raises(EpisodeDataError, match="steps of matching"):
        found(table, "PATTERN SEQ(A a, B+ b[], C c)", options=episode.Options(tuning=episode.Tuning(step_budget=1000)))


# ---- what is wrong with the call -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": ("lo", "hi", "p")}, "or a tuple of two names"),
        ({"time": ["lo", "hi"]}, "or a tuple of two names"),
        ({"time": ["ts"]}, "or a tuple of two names"),
        ({"time": ()}, "or a tuple of two names"),
        ({"time": {"lo", "hi"}}, "or a tuple of two names"),
        ({"time": 3}, "or a tuple of two names"),
        ({"time": ("lo", 3)}, "or a tuple of two names"),
        ({"time": "lo", "granularity": 5}, "for imprecise time"),
        ({"granularity": "soon"}, "Expected a duration"),
        ({"granularity": -1}, "is not a duration"),
        ({"granularity": "1 second"}, "a duration with a unit does not fit it"),
        ({"start": "lo"}, "another column of time"),
        ({"time": ("lo", "when")}, "There is no column when"),
        ({"time": ("lo", "type")}, "cannot be the event time"),
        ({"probabilities": "q"}, "The column of probabilities, q, is not there"),
        ({"strategy": "skip-till-next-match"}, "which event is next is not certain"),
    ],
)
def test_arguments_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EpisodeError) as raised:
        found(events(("A", 1, 2)), PAIR, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize("time", ["lo", ("lo", "hi")])
def test_aggregates_over_all_matches_have_no_confidence(time: Any) -> None:
    text = f"{PAIR} WITHIN 5{' CONFIDENCE >= 0.5' if time == 'lo' else ''} AGGREGATE count(*) AS n"
    with pytest.raises(EpisodeError, match=r"CONFIDENCE is for imprecise time|AGGREGATE is not evaluated"):
        found(events(("A", 1, 2)), text, time=time)


def test_situations_have_no_imprecise_time() -> None:
    with pytest.raises(EpisodeAnalysisError, match="has no meaning for a situation pattern"):
        found(events(("A", 1, 2)), "DEFINE X AS lo > 1, Y AS lo < 1 PATTERN X meets Y WITHIN 5", type_column=None)


def test_streams_need_a_width() -> None:
    query = parse_event_query(f"{PAIR} WITHIN 10")
    classes = EventClasses(query, InputSchema({"lo": "bigint", "hi": "bigint"}))
    times = EventTimes("hi", "lo", "bigint", Imprecision(1))
    with pytest.raises(EpisodeAnalysisError, match="needs WIDTH"):
        plan_event_pattern(query, classes, times).event_time(False)
    bounded = plan_event_pattern(query, classes, EventTimes("hi", "lo", "bigint", Imprecision(1, None, 5)))
    assert bounded.event_time(False).column == "hi"
    assert bounded.delays() == {"match_start": 20, "match_end": 0}


@pytest.mark.parametrize(
    ("ts", "seq"),
    [(pa.timestamp("us"), pa.int64()), (pa.timestamp("us", "UTC"), pa.int64()), (pa.int64(), pa.int32()),
     (pa.date32(), pa.int64()), (pa.timestamp("us"), pa.date32())],
)  # fmt: skip
@pytest.mark.parametrize("time", [["ts", "seq"], ("ts", "seq")])
def test_a_tie_breaker_is_not_taken_for_imprecise_time(time: Any, ts: pa.DataType, seq: pa.DataType) -> None:
    """A list always, and a pair of columns of different types; also if every seq is after its ts."""
    table = pa.table({"ts": pa.array([1, 2]).cast(pa.int32() if ts == pa.date32() else pa.int64()).cast(ts),
                      "seq": pa.array([7, 8], pa.int32()).cast(seq), "type": ["A", "B"]})  # fmt: skip
    with pytest.raises(EpisodeAnalysisError) as raised:
        found(table, "PATTERN A; B", time=time)
    assert "Events of equal time have no order" in str(raised.value)
    assert "ORDER BY ts, seq" in str(raised.value)
