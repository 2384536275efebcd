"""Lengths, times and shares in words; bins of round widths."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from episode.see.reports.charts import Bins, length_bins, round_step, time_bins
from episode.see.reports.tables import TimeFormat, number, share
from episode.words import DAY, HOUR, MINUTE, SECOND, duration, exact_duration, value_text

UTC = TimeFormat(True)
NUMBERS = TimeFormat(False)


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (0, "0 s"),
        (7, "7 µs"),
        (350_000, "350 ms"),
        (31_100_000, "31.1 s"),
        (252 * SECOND, "4 min 12 s"),
        (59.9999 * MINUTE, "1 h"),
        (59.99 * SECOND, "1 min"),
        (51 * HOUR, "2 d 3 h"),
        (-90 * SECOND, "−1 min 30 s"),
    ],
)
def test_lengths(microseconds: float, words: str) -> None:
    assert duration(microseconds) == words


def test_moments_are_those_of_the_zone() -> None:
    noon = 1_772_452_800 * SECOND
    assert UTC.moment(noon) == "2026-03-02 12:00:00"
    assert TimeFormat(True, "Europe/Berlin").moment(noon + 1000) == "2026-03-02 13:00:00.001"
    assert NUMBERS.moment(1234567) == "1,234,567"
    assert UTC.moment(1e30) == f"{1e30:,.0f} µs"  # beyond the calendar


def test_shares_are_never_rounded_to_nothing() -> None:
    assert [share(*pair) for pair in ((0, 10), (1, 10**6), (1, 3), (999_999, 10**6), (5, 5), (0, 0))] == [
        "0.0 %", "< 0.1 %", "33.3 %", "> 99.9 %", "100 %", "–",
    ]  # fmt: skip
    assert number(2.5) == "2.5"


@pytest.mark.parametrize("seed", range(40))
def test_bins_hold_everything_and_are_not_too_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = float(rng.integers(0, 10**15))
    last = first + float(10 ** rng.uniform(0, 15))
    clock = TimeFormat(bool(seed % 2), "Asia/Kathmandu")
    bins = time_bins(first, last, clock)
    assert bins.low(0) <= first
    assert bins.low(bins.count) > last
    assert bins.count <= 62
    values = np.sort(10 ** rng.uniform(0, rng.uniform(0.1, 9), size=50))
    shares = [float(np.quantile(values, share, method="lower")) for share in (0.5, 0.9, 0.99)]
    lengths = (float(values[0]), *shares, float(values[-1]), float(values.mean()))
    bins = length_bins(lengths, clock)
    assert bins.low(0) <= values[0] * (1 + 1e-9)
    assert bins.low(bins.count) >= values[-1] * (1 - 1e-9)
    assert bins.count <= 80


def test_bins_begin_at_round_times_of_the_clock() -> None:
    begin = 1_772_452_800 * SECOND + 17 * MINUTE
    bins = time_bins(begin, begin + 50 * DAY, TimeFormat(True, "Asia/Kathmandu"))
    assert TimeFormat(True, "Asia/Kathmandu").moment(bins.low(0)).endswith("00:00:00")
    assert bins.width == DAY


def test_few_and_equal_values() -> None:
    assert time_bins(5.0, 5.0, NUMBERS).count == 1
    assert length_bins((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), NUMBERS) == Bins(0.0, 1.0, 1)
    assert round_step(0, clock=True) == 1.0
    assert round_step(41 * MINUTE, clock=True) == HOUR
    assert round_step(30, clock=False) == 50


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 seconds"),
        (86_400_000_000, "1 day"),
        (5_400_000_000, "90 minutes"),
        (1_500_000, "1.5 seconds"),
        (1, "0.000001 seconds"),
    ],
)
def test_exact_durations(microseconds: int, text: str) -> None:
    assert exact_duration(microseconds) == text


def test_values_for_people() -> None:
    value = {"at": [datetime(2026, 3, 2, 9, 30), datetime(2026, 3, 2, 9, 30, 0, 5_000)], "ok": True, "raw": b"\x0a"}
    assert value_text(value) == "{at: [2026-03-02 09:30:00, 2026-03-02 09:30:00.005], ok: true, raw: 0A}"
    assert value_text(None) == "null"
