"""Programs beyond the size up to which openings are analysed, and long conditions."""

from __future__ import annotations

import pickle
from dataclasses import replace

from tests.support.rows import run_whole, spec_of


def test_a_large_program_loses_no_match_at_the_end() -> None:
    spec = spec_of(f"ORDER BY ts MEASURES A.v AS m PATTERN ({'|'.join(['A'] * 1500)})")
    rows = [{"k": 1, "ts": t, "v": t, "f": 0.0, "s": "a"} for t in range(6)]
    assert run_whole(spec, rows).num_rows == len(rows)


def test_many_optional_iterations_plan_quickly() -> None:
    spec = spec_of("ORDER BY ts MEASURES A.v AS m PATTERN ((A?){20000} B)")
    rows = [{"k": 1, "ts": t, "v": t, "f": 0.0, "s": "a"} for t in range(3)]
    assert run_whole(spec, rows).num_rows == 1


def test_a_long_condition_is_small_for_the_workers() -> None:
    """Spark's streams fail where a function has more than a megabyte."""
    condition = " OR ".join(f"v = {value}" for value in range(3_000))
    spec = spec_of(f"ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS {condition}")
    slim = replace(spec, plan=spec.plan.for_workers())
    assert len(pickle.dumps(slim)) < 500_000
    assert slim.fingerprint == spec.fingerprint
    rows = [{"k": 1, "ts": ts, "v": v, "f": None, "s": None} for ts, v in enumerate([1, 2_999, 3_000, 0])]
    assert run_whole(slim, rows) == run_whole(spec, rows)
