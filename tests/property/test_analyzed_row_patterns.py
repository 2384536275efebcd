"""What `explain(analyze=True)` counts of row patterns: against the oracle, and never at the cost of the matches."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import LocalRun
from episode.matchers.stage_clock import STAGES, StageClock
from episode.plan.rows.plan import RowReport
from episode.plan.rows.program import MATCH
from tests.property.test_row_pattern_laws import SETTINGS, expectation
from tests.reference.generate import MIXED, _definitions, _skips, patterns, tables
from tests.support.rows import run_whole, spec_of, table_in


@st.composite
def counting_clauses(draw: st.DrawFn) -> str:
    """Clauses that count the rows of each label."""
    pattern = draw(patterns(list("ABC"), exclusion=False, depth=2, root=True))
    labels = sorted(pattern.labels)
    assume(labels)
    mode = draw(st.sampled_from(["", "", "MAXIMAL MATCH", "INCREMENTAL MATCH", "ALL MATCHES"]))
    definitions = draw(_definitions(labels, labels, MIXED, numbered=mode != "INCREMENTAL MATCH", numbers=False))
    counts = ", ".join(f"count({label}.*) AS n{label}" for label in labels)
    where = ", ".join(f"{label} AS {condition}" for label, condition in definitions.items())
    define = f"DEFINE {where}" if where else ""
    within = draw(st.sampled_from(["", "", "WITHIN 3"]))
    skip = draw(_skips(labels))
    return f"PARTITION BY k ORDER BY ts MEASURES {counts} {skip} {mode} PATTERN ({pattern.text}) {within} {define}"


def analyzed(spec: Any, rows: list[dict[str, Any]], pieces: int = 1) -> tuple[RowReport, list[dict[str, Any]]]:
    """The report of a matcher that is fed rows in so many pieces, and its output."""
    running = LocalRun(spec)
    running.matcher = spec.open_analyzed(StageClock())
    ordered = sorted(rows, key=lambda row: row["ts"])
    size = max(1, -(-len(ordered) // pieces))
    found: list[dict[str, Any]] = []
    for begin in range(0, len(ordered), size):
        piece = ordered[begin : begin + size]
        until = END_OF_TIME if pieces == 1 else piece[-1]["ts"]
        found += running.feed(table_in(spec, piece), until).to_pylist()
    found += running.finish().to_pylist()
    return running.matcher.report(), found  # type: ignore[attr-defined]


@settings(parent=SETTINGS, max_examples=80)
@given(counting_clauses(), tables())
def test_counts_are_the_oracles(text: str, rows: list[dict[str, Any]]) -> None:
    try:
        spec = spec_of(text)
    except (EpisodeAnalysisError, EpisodeUnsupportedError):
        assume(False)
    expected = expectation(text, rows)
    assume(not isinstance(expected, type))
    try:
        report, output = analyzed(spec, rows)
        plain = run_whole(spec, rows).to_pylist()
    except EpisodeDataError:
        assume(False)
    assert sorted(map(repr, output)) == sorted(map(repr, plain))
    labels = {label: sum(row[f"n{label}"] for row in expected) for label in spec.plan.labels.names}
    assert report.matches == len(expected)
    assert report.rows_by_label(spec.plan) == labels
    assert report.rows == len(rows)
    assert set(report.seconds) == set(STAGES)
    assert RowReport.from_json(report.to_json()) == report
    for number, instruction in enumerate(spec.plan.program.instructions):
        assert 0 <= report.refused[number] <= report.tried[number]
        if instruction.operation != MATCH:
            assert report.tried[number] == report.taken[number] == 0


@settings(parent=SETTINGS, max_examples=150)
@given(patterns(list("ABCD"), depth=3, root=True))
def test_every_label_knows_its_instructions(pattern: Any) -> None:
    """All instructions that take a row belong to a label of the pattern, each to one of its name."""
    text = f"MEASURES 1 AS m PATTERN ({pattern.text})"
    try:
        spec = spec_of(text)
    except (EpisodeAnalysisError, EpisodeUnsupportedError):
        assume(False)
    made = {one.span: one.label for one in spec.plan.program.instructions if one.operation == MATCH}
    assert len(made) == len(re.findall(r"\b[ABCD]\b", pattern.text))
    assert all(text[span.start : span.end] == label for span, label in made.items())


FALL = """
    PARTITION BY k ORDER BY ts MEASURES count(*) AS n PATTERN (A B+ C)
    DEFINE A AS A.v > 1, B AS B.v < PREV(B.v), C AS C.v > A.v
"""


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_rows_that_come_in_pieces(pieces: int) -> None:
    """Matches and rows of labels do not depend on the pieces; what is counted apart says of how many rows it is."""
    rows = [{"k": 1, "ts": at, "v": at * 7919 % 13 % 5, "f": 0.0, "s": "a"} for at in range(200)]
    spec = spec_of(FALL)
    whole, _ = analyzed(spec, rows)
    report, _ = analyzed(spec, rows, pieces)
    assert report.rows == 200
    assert (report.matches, report.taken) == (whole.matches, whole.taken)
    assert report.attempts >= report.matches > 0
    assert whole.counted == 200
    assert whole.offered[0] == sum(row["v"] > 1 for row in rows)
    assert whole.offered[1] == sum(one["v"] > two["v"] for one, two in pairwise(rows))
    assert whole.offered[2] == 200
