"""Numbers near the limits of their types: row and event patterns equal their oracles, however they are cut."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import assume, given, note
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.lang.rows.parser import parse_clause
from tests.property.test_event_pattern_laws import expected as expected_events
from tests.property.test_event_pattern_laws import planned as planned_events
from tests.property.test_row_pattern_laws import SETTINGS, canonical, finished
from tests.reference.generate import COLUMNS, NUMBERS, clauses, tables
from tests.reference.generate_events import Case, Features, cases
from tests.reference.row_patterns import Exploded, evaluate
from tests.support.events import run_whole as run_events
from tests.support.rows import ARROW_TYPES, SPARK_TYPES, run_in_pieces, run_whole, spec_of

TYPES = {"b": "bigint", "m": "decimal(12,2)", "w": "decimal(30,18)", "z": "decimal(38,18)"}
ARROW = {"b": pa.int64(), "m": pa.decimal128(12, 2), "w": pa.decimal128(30, 18), "z": pa.decimal128(38, 18)}


def planned(text: str) -> Any:
    try:
        return spec_of(text, {**SPARK_TYPES, **TYPES}, pa.schema([*ARROW_TYPES.items(), *ARROW.items()]))
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)


@SETTINGS
@given(clauses(numbers=True), tables(numbers=True), st.booleans())
def test_row_patterns(text: str, rows: list[dict[str, Any]], in_pieces: bool) -> None:
    spec = planned(text)
    try:
        expected = evaluate(parse_clause(text), rows, columns=[*COLUMNS, *NUMBERS], budget=30_000)
    except (EpisodeDataError, Exploded, NotImplementedError, ArithmeticError, RecursionError):
        assume(False)  # beyond the oracle, or an error of the data by the rules: such a case says nothing here
        raise
    order = spec.plan.order
    if in_pieces and order and order[0].column == "ts" and order[0].ascending:
        rows = sorted(rows, key=lambda row: row["ts"])
        half = next((i for i in range(1, len(rows)) if 2 * i >= len(rows) and rows[i]["ts"] > rows[i - 1]["ts"]), 0)
        expected = evaluate(parse_clause(text), rows, columns=[*COLUMNS, *NUMBERS], budget=30_000)
        found = run_in_pieces(spec, rows, [(0, half), (half, len(rows))], restore=True)
    else:
        found = run_whole(spec, rows)
    assert canonical(finished(spec, found)) == canonical(expected)


@SETTINGS
@given(cases(Features(huge=True)))
def test_event_patterns(case: Case) -> None:
    spec = planned_events(case)
    assert sorted(run_events(spec, case.events)) == expected_events(case, spec)
