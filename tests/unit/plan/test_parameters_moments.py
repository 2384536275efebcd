"""Dates and timestamps that are written out: what the machine reads is what Python reads; the rest is Spark's."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta, timezone

import pytest

from episode.errors import EpisodeAnalysisError
from episode.plan.event_time import EventTime, end_of_stream
from episode.plan.parameters import moment_of

FIRST = datetime(1970, 1, 1)


def test_dates_and_timestamps() -> None:
    random_ = random.Random(5)
    for _ in range(500):
        moment = datetime(1, 1, 1) + timedelta(microseconds=random_.randrange(315_537_897_600_000_000))
        microseconds = (moment - FIRST) // timedelta(microseconds=1)
        written = moment.isoformat(sep=random_.choice(" T"), timespec="microseconds")
        assert moment_of(written, "timestamp") == moment_of(written, "timestamp_ntz") == microseconds
        assert moment_of(written[:23], "timestamp") == microseconds // 1000 * 1000
        assert moment_of(written[:19], "timestamp") == microseconds // 10**6 * 10**6
        days = (moment.date() - date(1970, 1, 1)).days
        assert moment_of(written[:10], "date") == days
        assert moment_of(written[:10], "timestamp") == days * 86_400 * 10**6


@pytest.mark.parametrize(
    "text",
    ["", "2024", "2024-1-2", "2024-13-01", "2024-02-30", "2024-01-02 25:00:00", "2024-01-02 10:00",
     "2024-01-02 10:00:60", "2024-01-02 10:00:00Z", "2024-01-02 10:00:00 Europe/Berlin",
     " 2024-01-02", "now", "12024-01-02", "0000-01-01",
     "2024-01-02 10:00:00.1234567", "٢٠٢٤-01-02"],
)  # fmt: skip
def test_what_only_spark_reads(text: str) -> None:
    assert moment_of(text, "timestamp") is None
    assert moment_of(text, "date") is None


def test_a_time_of_day_is_not_a_part_of_a_date() -> None:
    assert moment_of("2024-01-02 10:00:00", "date") is None


MIDNIGHT = 1_767_225_600_000_000
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("end", "type_", "zone", "expected"),
    [
        (datetime(2026, 1, 1, tzinfo=timezone.utc), "timestamp", None, MIDNIGHT),
        (datetime(2026, 1, 1, tzinfo=timezone.utc), "timestamp_ntz", "Europe/Berlin", MIDNIGHT + HOUR),
        (datetime(2026, 1, 1), "timestamp", "Europe/Berlin", MIDNIGHT - HOUR),
        ("2026", "timestamp", "UTC", MIDNIGHT),
        ("2026-1-1 0:0", "timestamp", "+01:00", MIDNIGHT - HOUR),
        ("2026-01-01 00:00:00.5 Europe/Berlin", "timestamp", "UTC", MIDNIGHT - HOUR + 500_000),
        ("2026-01-01", "timestamp_ntz", "Europe/Berlin", MIDNIGHT),
        (17, "bigint", "UTC", 17),
    ],
)
def test_the_end_of_a_stream(end: datetime | str | int, type_: str, zone: str | None, expected: int) -> None:
    assert end_of_stream(end, EventTime("ts", type_), zone) == expected


@pytest.mark.parametrize(
    ("end", "type_", "complaint"),
    [
        ("soon", "timestamp", "is not a time"),
        (17, "timestamp", "is not a time"),
        ("2026-13-01", "timestamp", "is not a time"),
        ("2026-01-01 00:00 Nowhere/Town", "timestamp", "is not a time"),
        ("2026-01-01", "timestamp", "in which time zone"),
        ("2026-01-01", "bigint", "is a whole number"),
        (True, "bigint", "is a whole number"),
    ],
)
def test_what_is_no_end_of_a_stream(end: str | int, type_: str, complaint: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=complaint):
        end_of_stream(end, EventTime("ts", type_), None)
