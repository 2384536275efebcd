"""The examples run as they are printed."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Runs an example and returns the cells of the table it prints."""
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def test_there_is_a_test_for_every_example() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "v_shape.py",
        "funnel.py",
        "stream.py",
        "event_patterns.py",
        "situations.py",
        "cluster_monitoring.py",
        "local.py",  # in tests/unit/queries/test_local.py: it needs no Spark
    }


def test_v_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("v_shape.py", capsys) == [
        ["symbol", "start_price", "low_price", "end_price", "minutes"],
        ["ACME", "20.0", "17.0", "21.0", "10"],
        ["BOLT", "7.0", "6.0", "6.5", "5"],
    ]


def test_funnel(capsys: pytest.CaptureFixture[str]) -> None:
    header, *rows = run("funnel.py", capsys)
    assert header == ["reached", "visits", "average_minutes"]
    assert [row[0] for row in rows] == ["1 view", "2 cart", "3 purchase"]
    assert all(int(row[1]) > 0 for row in rows)


def test_stream(capsys: pytest.CaptureFixture[str], rocksdb: None) -> None:
    assert run("stream.py", capsys) == [
        ["sensor", "since", "readings", "degrees"],
        ["north", "2026-01-01 00:01:00", "3", "90"],
        ["south", "2026-01-01 00:04:00", "3", "88"],
    ]


def test_event_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("event_patterns.py", capsys) == [
        ["job_id", "mappers", "average", "longest"],
        ["job1", "3", "42.7", "60"],
        ["job2", "5", "35.8", "56"],
        ["job3", "4", "37.8", "55"],
        ["job4", "3", "44.3", "56"],
        ["task_id", "loads"],
        ["reducer1", "[0.05, 0.75]"],
        ["reducer2", "[0.23, 0.71, 0.84]"],
        ["reducer3", "[0.15, 0.16, 0.79]"],
        ["name", "before", "google_volume", "after", "match_start", "match_end"],
        ["IBM", "90.0", "1050", "110.0", "2026-01-01 00:00:00", "2026-01-01 00:00:05"],
    ]


def test_situations(capsys: pytest.CaptureFixture[str], rocksdb: None) -> None:
    expected = [
        ["id", "avg_speed", "match_start", "detected_at"],
        ["6", "107.66666666666667", "2026-01-01 00:00:00", "2026-01-01 00:00:12"],
        ["6", "105.875", "2026-01-01 00:00:21", "2026-01-01 00:00:33"],
        ["3", "113.69565217391305", "2026-01-01 00:00:52", "2026-01-01 00:01:18"],
        ["6", "115.34615384615384", "2026-01-01 00:02:14", "2026-01-01 00:02:42"],
        ["3", "115.29166666666667", "2026-01-01 00:02:40", "2026-01-01 00:03:08"],
    ]
    assert run("situations.py", capsys) == [*expected, *expected]


def test_cluster_monitoring(capsys: pytest.CaptureFixture[str]) -> None:
    """Slow and uneven reducers are found, those that were planted and no others."""
    log = runpy.run_path(str(EXAMPLES / "cluster_monitoring.py"))["cluster_log"]()
    cells = run("cluster_monitoring.py", capsys)
    tables = [list(rows) for _, rows in groupby(cells, key=_number_of_table(cells))]
    assert [table[0][:2] for table in tables] == [
        ["job_id", "mappers"], ["job_id", "reducers"], ["job_id", "task_id"], ["job_id", "peak"], ["task_id", "count"],
        ["task_id", "series"],
    ]  # fmt: skip
    assert [int(row[1]) for row in tables[2][1:]] == sorted(log.stragglers)
    assert [int(row[0]) for row in tables[4][1:]] == sorted(log.uneven)
    assert sorted(int(row[0]) for row in tables[5][1:]) == sorted(log.uneven)


def _number_of_table(cells: list[list[str]]) -> Callable[[list[str]], int]:
    """Rows of one table after the other: a table begins with the names of its columns."""
    begun = {id(row): number for number, row in enumerate(row for row in cells if row[0] in ("job_id", "task_id"))}
    current = -1

    def number(row: list[str]) -> int:
        nonlocal current
        current = begun.get(id(row), current)
        return current

    return number
