"""Programs beyond the size up to which openings are analysed."""

from __future__ import annotations

from tests.in_process import run_whole, spec_of


def test_a_large_program_loses_no_match_at_the_end() -> None:
    spec = spec_of(f"ORDER BY ts MEASURES A.v AS m PATTERN ({'|'.join(['A'] * 1500)})")
    rows = [{"k": 1, "ts": t, "v": t, "f": 0.0, "s": "a"} for t in range(6)]
    assert run_whole(spec, rows).num_rows == len(rows)


def test_many_optional_iterations_plan_quickly() -> None:
    spec = spec_of("ORDER BY ts MEASURES A.v AS m PATTERN ((A?){20000} B)")
    rows = [{"k": 1, "ts": t, "v": t, "f": 0.0, "s": "a"} for t in range(3)]
    assert run_whole(spec, rows).num_rows == 1
