"""What explain says of a run of a situation pattern: searches, estimates beside what was counted, changes of plan."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from episode.matchers.running import LocalRun
from episode.plan.sections import lines_of
from episode.plan.situations.explain import situation_section
from episode.plan.situations.plan import SituationPlan, SituationReport, SymbolSearches
from tests.support.situations import SCHEMA, spec_of

PLAN = spec_of("FROM t DEFINE A AS a, B AS b, C AS c PATTERN A before B AND B before C RETURN count(A.n) AS n").plan


def explain_searches(plan: SituationPlan, reports: list[SituationReport]) -> list[str]:
    section = situation_section(plan, [report.to_json() for report in reports])
    return lines_of(replace(section, blocks=()))[1:]


def test_a_report_is_carried_as_it_is() -> None:
    spec = spec_of("FROM t DEFINE A AS a, B AS b PATTERN A before B WITHIN 30 RETURN count(A.n) AS n")
    rows = [
        {"k": "x", "t": t, "a": t % 4 == 0, "b": t % 4 == 2, "c": False, "d": None, "x": 0.0, "n": t, "s": ""}
        for t in range(40)
    ]
    running = LocalRun(spec)
    running.feed(pa.Table.from_pylist(rows, schema=SCHEMA))
    report = running.matcher.report()
    assert SituationReport.from_json(report.to_json()) == report
    lines = explain_searches(spec.plan, [report])
    assert lines[0] == "  run: 1 parts of the input, 0 changes of plan"
    assert lines[1].startswith(f"  busiest part: {report.total:,} searches; buffers: A ")
    assert lines[2].startswith("    B -> A: ")
    assert lines[3].startswith("      step 1: ")


def test_reports_of_parts_are_joined() -> None:
    quiet = SituationReport((), 3, (1.0, 1.0, 1.0), 1, ())
    searches = SymbolSearches((2, 1, 0), 1500, (2.0, 1.5), (1.25, 0.5))
    busy = SituationReport((searches,), 1500, (4.0, 2.126, 0.5), 3, (((2, 1, 0),), ((2, 0, 1),)))
    assert explain_searches(PLAN, [quiet, busy]) == [
        "  run: 2 parts of the input, 2 changes of plan",
        "  busiest part: 1,500 searches; buffers: A 4.0, B 2.1, C 0.5; with its last plan:",
        "    C -> B -> A: 1,500 searches",
        "      step 1: 2 records estimated, 1.25 found per search",
        "      step 2: 1.5 records estimated, 0.5 found per search",
        "    changed to: C -> B -> A",
        "    changed to: C -> A -> B",
    ]
    assert explain_searches(PLAN, []) == ["  run: there were no events"]
