"""The plan of a row pattern as a section: its rails, its conditions in their two parts, and what was counted."""

from __future__ import annotations

from episode.lang.rows.scalar import with_subqueries
from episode.lang.rows.syntax import Label, MatchRecognize, Pattern, PatternWindow
from episode.lang.syntax import Span
from episode.plan.expressions import render
from episode.plan.rows.explain import MEMORY_WORDS, state_bound
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import MATCH
from episode.plan.rows.report import STAGE_WORDS, RowReport, offered_words, sum_of
from episode.plan.rows.windows import WindowPlan
from episode.queries.explaining import ExplainedPattern
from episode.see.pictures.plans.blocks import BAR, CODE, NUMBER, Block, Column, Diagram, Facts, Section, Table, bars
from episode.see.pictures.plans.facts import reason_facts, run_facts
from episode.see.pictures.plans.railroad import LabelBox, railroad
from episode.words import count_of

WORDS = {"any": "any row", "local": "row-local", "residual": "residual"}


def row_section(explained: ExplainedPattern, plan: RowPatternPlan) -> Section:
    """One MATCH_RECOGNIZE, or a window with a row pattern."""
    report = None if explained.reports is None else sum_of(list(explained.reports))
    title, *_ = explained.lines
    blocks: list[Block] = [_diagram(_pattern_of(explained.query), plan, report), _conditions(plan, report)]
    if report is not None:
        blocks += [_run(report, explained), _stages(report)]
    blocks.append(_facts(plan, explained))
    return Section(title, tuple(blocks), "\n".join(explained.lines))


def _pattern_of(query: MatchRecognize | PatternWindow) -> Pattern:
    return query.clause.pattern if isinstance(query, PatternWindow) else query.pattern


def _kind(plan: RowPatternPlan, label: str) -> str:
    condition = plan.conditions.get(label)
    if condition is None:
        return "any"
    return "residual" if condition.residual else "local"


def _diagram(pattern: Pattern, plan: RowPatternPlan, report: RowReport | None) -> Diagram:
    places: dict[Span, list[int]] = {}
    for number, instruction in enumerate(plan.program.instructions):
        if instruction.operation == MATCH:
            places.setdefault(instruction.span, []).append(number)

    def box_of(label: Label) -> LabelBox:
        kind = _kind(plan, label.name)
        numbers = places[label.span]
        shown = f"{', '.join(map(str, numbers[:3]))}{', …' if len(numbers) > 3 else ''}"
        lines = [f"{WORDS[kind]}{' · ' + shown if numbers else ''}"]
        if report is not None and numbers:
            if report.counted:
                tried = sum(report.tried[number] for number in numbers)
                took = tried - sum(report.refused[number] for number in numbers)
                lines.append(f"{took:,} of {tried:,} taken")
            lines.append(f"{sum(report.taken[number] for number in numbers):,} in matches")
        which = f" (instructions {shown})" if numbers else ""
        return LabelBox(kind, f"{label.name}: {WORDS[kind]}{which}", tuple(lines))

    preferred = "The pattern: the preferred way is thick, numbers are those of instructions"
    return Diagram(preferred, railroad(pattern, box_of))


def _conditions(plan: RowPatternPlan, report: RowReport | None) -> Table:
    columns = [
        Column("label", CODE),
        Column("row-local: once per row, before matching", CODE),
        Column("residual: while matching", CODE),
    ]
    if report is not None:
        columns += [Column("rows that satisfy row-local", NUMBER), Column("rows in matches", NUMBER)]
    in_matches = {} if report is None else report.rows_by_label(plan)
    rows = []
    for number, label in enumerate(plan.labels.names):
        condition = plan.conditions.get(label)
        local = "any row" if condition is None else " AND ".join(map(render, condition.row_local))
        residual = "" if condition is None else " AND ".join(map(render, condition.residual))
        cells = [label, local, residual]
        if report is not None:
            cells += [offered_words(plan, report, number), f"{in_matches[label]:,}"]
        rows.append(tuple(cells))
    return Table("Conditions", tuple(columns), tuple(rows))


def _run(report: RowReport, explained: ExplainedPattern) -> Facts:
    steps = f"{report.steps:,}"
    if report.attempts:
        steps += f", {report.steps / report.attempts:,.1f} for each attempt"
    return Facts(
        (
            ("rows", f"{report.rows:,}, in {count_of(report.parts, 'part')}"),
            ("matches", f"{report.matches:,}"),
            ("attempts", f"{report.attempts:,} start rows at which a match was looked for"),
            ("steps", steps),
            *run_facts(explained),
        )
    )


def _stages(report: RowReport) -> Table:
    seconds = [report.seconds[stage] for stage in STAGE_WORDS]
    shown = bars(seconds, [f"{report.shares[stage]:.0%}" for stage in STAGE_WORDS])
    rows = tuple(
        (words, f"{spent:,.3f} s", bar) for words, spent, bar in zip(STAGE_WORDS.values(), seconds, shown, strict=True)
    )
    columns = (Column("stage"), Column("time", NUMBER), Column("share", BAR))
    return Table(f"Time in tasks: {sum(seconds):,.3f} s", columns, rows)


def _facts(plan: RowPatternPlan, explained: ExplainedPattern) -> Facts:
    order = ", ".join(f"{one.column}{'' if one.ascending else ' DESC'}" for one in plan.order)
    items = [
        ("partitions", ", ".join(plan.keys) or "one (no PARTITION BY)"),
        ("order", order or "of arrival (no ORDER BY)"),
        ("search", MEMORY_WORDS[plan.memory]),
        ("columns moved", ", ".join(plan.input_columns) or "none"),
        *((f"computed by Spark: {name}", with_subqueries(sql, plan.source.text)) for sql, name in plan.derived),
    ]
    if not isinstance(plan, WindowPlan):
        items.append(("state", state_bound(plan)))
    return Facts((*items, *reason_facts(explained)))
