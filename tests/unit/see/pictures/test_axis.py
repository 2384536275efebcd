"""Times, numbers and places as positions."""

from __future__ import annotations

from datetime import date, datetime, timezone

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError
from episode.see.pictures.axis import Axis

INSTANT = pa.timestamp("us", tz="UTC")
NOON = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)


def axis_of(kind: pa.DataType, zone: str = "UTC") -> Axis:
    return Axis.of("ts", pa.schema([("ts", kind)]), zone)


def test_instants_are_shown_by_the_clock_of_the_session() -> None:
    axis = axis_of(INSTANT, "Europe/Zurich")
    (position,) = axis.of_values(pa.array([NOON], INSTANT))
    assert axis.text(position) == "2026-03-02 13:00:00"
    assert axis.title == "ts (Europe/Zurich)"
    assert axis.at(NOON, "between") == axis.at("2026-03-02 13:00:00", "between") == position
    assert axis.value(position) == NOON


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.timestamp("us"), datetime(2026, 3, 2, 12, 0, 0, 500_000), "2026-03-02 12:00:00.500"),
        (pa.date32(), date(2026, 3, 2), "2026-03-02"),
        (pa.int64(), 1_234, "1,234"),
        (pa.float64(), 0.5, "0.5"),
    ],
)
def test_values_of_other_types(kind: pa.DataType, value: object, text: str) -> None:
    axis = axis_of(kind)
    (position, nothing) = axis.of_values(pa.array([value, None], kind))
    assert axis.text(position) == text
    assert np.isnan(nothing)
    assert axis.title == "ts"
    assert axis.at(value, "between") == position


def test_what_has_no_distances_is_counted() -> None:
    axis = axis_of(pa.string())
    table = pa.table({"ts": ["b", "a"]})
    assert axis.positions(table).tolist() == [0, 1]
    assert axis.title == "row, in the order of ts"
    assert Axis.of(None, table.schema, "UTC").title == "row"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0.5, "500 µs"),
        (1_500, "1.5 s"),
        (95_400, "1 min 35 s"),
        (3_600_000, "1 h"),
        (20, "20 ms"),
        (0, "0 s"),
        (172_800_000, "2 d"),
    ],
)
def test_lengths_as_people_say_them(milliseconds: float, text: str) -> None:
    assert axis_of(INSTANT).length(milliseconds) == text


def test_wrong_values_are_refused() -> None:
    with pytest.raises(EpisodeAnalysisError, match="between='noon': a time is needed"):
        axis_of(INSTANT).at("noon", "between")
    with pytest.raises(EpisodeAnalysisError, match="between='noon': a number is needed"):
        axis_of(pa.int64()).at("noon", "between")
