"""Kernels are compiled before a query needs them: once, by one of those who need them, and somebody says so."""

from __future__ import annotations

import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from episode.kernels import stamps
from episode.matchers import compiled
from episode.matchers.compile_reports import in_the_usual_way, reported_by, sentence


@pytest.fixture
def nothing_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setattr(stamps, "directory", lambda: tmp_path)
    monkeypatch.setattr(stamps, "_ready", set())
    return tmp_path


def test_one_of_those_who_need_a_group_compiles_it(nothing_compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def compile_now(groups, jobs, report) -> None:
        runs.append(list(groups))
        stamps.mark_ready(groups)

    monkeypatch.setattr(compiled, "_run_compiler", compile_now)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compiled.ensure_compiled, [["rows"]] * 4))
    compiled.ensure_compiled(["rows", "events"])
    assert runs == [["rows"], ["events"]]


COMPILER = """
import sys
from episode.kernels.stamps import mark_ready
print(2)
print("one")
print("two")
print(sys.argv[1:], file=sys.stderr)
sys.exit({code})
"""


@pytest.mark.parametrize("code", [0, 1])
def test_a_process_compiles_and_its_progress_is_reported(
    nothing_compiled: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    (nothing_compiled / "small_compiler.py").write_text(COMPILER.format(code=code))
    monkeypatch.setattr(compiled, "COMPILER", "small_compiler")
    monkeypatch.setenv("PYTHONPATH", str(nothing_compiled))
    reports = []

    @contextmanager
    def reporter(groups):
        reports.append(list(groups))
        yield lambda ready, total: reports.append((ready, total))

    with reported_by(reporter):
        compiled.ensure_compiled(["rows", "correlation"], jobs=3)
    assert reports == [["rows", "correlation"], (0, 2), (1, 2), (2, 2)]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == code
    if code:
        assert "['rows', 'correlation', '--jobs', '3']" in said[0]
        compiled.ensure_compiled(["rows"])  # it is not tried again
        assert len(reports) == 4


def test_without_a_terminal_a_sentence_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with caplog.at_level(logging.WARNING), in_the_usual_way(["rows"]) as report:
        report(0, 7)
    assert [record.getMessage() for record in caplog.records] == [
        "Compiling the kernels of row patterns for this machine, once; they are kept for all later queries."
    ]


def test_the_sentence_names_the_languages() -> None:
    assert sentence(["events", "events-imprecise"]) == "Compiling the kernels of event patterns for this machine, once"
    both = "Compiling the kernels of pattern correlation and row patterns for this machine, once"
    assert sentence(["correlation", "rows"]) == both
    assert sentence(["packing"]) == "Compiling the kernels for this machine, once"
