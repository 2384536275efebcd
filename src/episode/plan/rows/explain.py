"""A plan in words: the pattern program, how each condition is split, what moves, and what bounds the state."""

from __future__ import annotations

from episode.lang.rows.scalar import with_subqueries
from episode.lang.rows.syntax import MatchMode
from episode.plan.expressions import Condition, render
from episode.plan.rows.plan import ATTEMPT_MEMORY, PARTITION_MEMORY, RowPatternPlan
from episode.plan.rows.windows import WindowPlan

MEMORY_WORDS = {
    PARTITION_MEMORY: "failures are remembered for the whole partition (conditions depend on the row alone)",
    ATTEMPT_MEMORY: "failures are remembered within one start row (conditions depend on the start row at most)",
    "none": "failures are not remembered (conditions depend on the labels chosen before); a step budget guards",
}
SHOWN_INSTRUCTIONS = 60


def explain_row_pattern(plan: RowPatternPlan) -> list[str]:
    """Lines for one MATCH_RECOGNIZE."""
    mode = plan.rules.mode
    beginning = (
        f"MATCH_RECOGNIZE: {plan.output.rows.value}, {_skip(plan)}"
        f"{'' if mode is MatchMode.PREFERRED else ', ' + mode.value}"
    )
    return [beginning, *_search_lines(plan), f"  state: {state_bound(plan)}"]


def explain_window(plan: WindowPlan) -> list[str]:
    """Lines for one window with a row pattern."""
    frame = plan.frame
    reach = "UNBOUNDED" if frame.following is None else str(frame.following)
    lines = [
        f"WINDOW with a row pattern: {'SEEK' if frame.seek else 'INITIAL'}, "
        f"ROWS BETWEEN CURRENT ROW AND {reach} FOLLOWING, {_skip(plan)}",
        *_search_lines(plan),
        f"  called over it: {', '.join(measure.original for measure in plan.measures.measures)}",
    ]
    if frame.seek and (frame.following is not None or plan.lookback):
        tried = (
            "all rows of its frame" if frame.following is not None else f"the first {plan.lookback} rows of its frame"
        )
        lines.append(f"  frames: each row tries {tried} anew, as what they see depends on the row")
    return lines


def _skip(plan: RowPatternPlan) -> str:
    rules = plan.rules
    return f"SKIP {rules.skip_to.value}{' ' + rules.skip_label if rules.skip_label else ''}"


def _search_lines(plan: RowPatternPlan) -> list[str]:
    order = ", ".join(f"{column.column}{'' if column.ascending else ' DESC'}" for column in plan.order)
    lines = [
        f"  partitions: {', '.join(plan.keys) or 'one (no PARTITION BY)'}; "
        f"order: {order or 'of arrival (no ORDER BY)'}",
        "  pattern program (preferred way first):",
    ]
    instructions = plan.program.instructions
    lines += [f"    {index:>3}  {instruction}" for index, instruction in enumerate(instructions[:SHOWN_INSTRUCTIONS])]
    if len(instructions) > SHOWN_INSTRUCTIONS:
        lines.append(f"    … {len(instructions) - SHOWN_INSTRUCTIONS} more")
    lines.append("  conditions (row-local: once per row, before matching; residual: while matching):")
    for label in plan.labels.names:
        lines += _condition_lines(label, plan.conditions.get(label))
    lines.append(f"  search: {MEMORY_WORDS[plan.memory]}")
    lines.append(f"  columns moved: {', '.join(plan.input_columns) or 'none'}")
    text = plan.source.text
    lines += [
        f"  computed by Spark before matching: {name} = {with_subqueries(sql, text)}" for sql, name in plan.derived
    ]
    return lines


def _condition_lines(label: str, condition: Condition | None) -> list[str]:
    if condition is None:
        return [f"    {label}: any row"]
    lines = []
    if condition.row_local:
        lines.append(f"    {label} row-local: {' AND '.join(render(part) for part in condition.row_local)}")
    if condition.residual:
        lines.append(f"    {label} residual:  {' AND '.join(render(part) for part in condition.residual)}")
    return lines


def state_bound(plan: RowPatternPlan) -> str:
    """What bounds the rows that a partition must keep while it waits."""
    _, most = plan.length
    around = plan.lookback + plan.lookahead
    extra = f" and {around} around them (PREV/NEXT)" if around else ""
    if most is not None:
        return f"at most {most} rows per partition{extra}: the pattern is bounded"
    if plan.window is not None:
        window = plan.source.written(plan.window)
        return f"the rows of the last {window} per partition{extra}: WITHIN bounds it"
    return (
        "not bounded: the pattern may grow without end and there is no WITHIN; "
        "a partition is held until a match is certain"
    )
