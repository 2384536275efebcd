"""The queries of `make bench NAME=pandas`: funnels against a regular expression, sessions and V-shapes by loops."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from bench.pandas_queries import GAP, QUESTIONS, Question, funnels_by_re, in_order, visits
from bench.pandas_rival import count_shared

import episode

V_SHAPES, FUNNELS, SESSIONS = QUESTIONS


@pytest.fixture(scope="module")
def frame() -> pandas.DataFrame:
    return visits(5_000)


def matches(question: Question, frame: pandas.DataFrame) -> list[list[float]]:
    return in_order(episode.sql_local(question.text, visits=frame[list(question.columns)]), question).tolist()


def by_key(frame: pandas.DataFrame) -> list[tuple[int, pandas.DataFrame]]:
    return list(frame.sort_values(["k", "ts"]).groupby("k"))


def test_funnels(frame: pandas.DataFrame) -> None:
    expected = funnels_by_re(frame).tolist()
    assert expected
    assert matches(FUNNELS, frame) == expected


def test_sessions(frame: pandas.DataFrame) -> None:
    expected = []
    for key, rows in by_key(frame):
        for part in np.split(rows["ts"].to_numpy(), np.flatnonzero(np.diff(rows["ts"]) > GAP) + 1):
            expected.append([key, part[0], part[-1], len(part)])
    assert len(expected) > 100
    assert matches(SESSIONS, frame) == expected


def test_v_shapes(frame: pandas.DataFrame) -> None:
    expected = []
    for key, rows in by_key(frame):
        time, value = rows["ts"].to_numpy(), rows["v"].to_numpy()
        start = 0
        while start < len(value):
            bottom = end = start
            while bottom + 1 < len(value) and value[bottom + 1] < value[bottom]:
                bottom = end = bottom + 1
            while bottom > start and end + 1 < len(value) and value[end + 1] > value[end]:
                end += 1
            if start < bottom < end:
                expected.append([key, time[start], time[end], value[bottom]])
                start = end
            start += 1
    assert len(expected) > 100
    assert matches(V_SHAPES, frame) == expected


def test_matches_that_both_have_are_counted_as_often_as_they_are_there() -> None:
    one, other = np.array([[1.0, 2], [1, 2], [3, 4]]), np.array([[1.0, 2], [3, 5]])
    assert count_shared(one, other) == 1
    assert count_shared(one, one) == 3
