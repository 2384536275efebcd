"""The section of a row pattern: its program, how each condition is split, which columns move, what bounds the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from episode.lang.rows.scalar import with_subqueries
from episode.lang.rows.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Label,
    MatchMode,
    Pattern,
    Permutation,
    Quantified,
)
from episode.lang.syntax import Span
from episode.plan.expressions import render
from episode.plan.rows.plan import ATTEMPT_MEMORY, PARTITION_MEMORY, RowPatternPlan, RowReport, sum_of
from episode.plan.rows.program import MATCH
from episode.plan.rows.windows import WindowPlan
from episode.plan.sections import (
    BAR,
    CODE,
    NO_EVENTS,
    NUMBER,
    PICTURE,
    TEXT,
    Bar,
    Column,
    Diagram,
    FactLine,
    Rail,
    RailChoice,
    RailLoop,
    RailRow,
    Rails,
    RailStop,
    Section,
    SectionBlock,
    Table,
    fact,
    moved_columns,
)
from episode.words import count_of

MEMORY_WORDS = {
    PARTITION_MEMORY: "failures are remembered for the whole partition (conditions depend on the row alone)",
    ATTEMPT_MEMORY: "failures are remembered within one start row (conditions depend on the start row at most)",
    "none": "failures are not remembered (conditions depend on the labels chosen before); a step budget guards",
}
STAGE_WORDS = {"read": "scan or unpack", **{name: name for name in ("order", "prepare", "match", "assemble")}}
"""The stages of a task's work, in their order."""
MOST_INSTRUCTIONS = 60
LEGEND = "the preferred way is thick, numbers are those of instructions"


def row_section(plan: RowPatternPlan, pattern: Pattern | None = None, reports: Sequence[str] | None = None) -> Section:
    """Build the section of one MATCH_RECOGNIZE, or of a window. pattern: as it was parsed, to be drawn."""
    report = None if reports is None else sum_of(reports)
    run = () if reports is None else (NO_EVENTS,) if report is None else tuple(_run(plan, report))
    blocks = _search(plan)
    if pattern is not None:  # only a picture: the text lists the program
        rails = Rails(_rail(pattern, _stops(plan, report)))
        blocks.append(Diagram("the pattern", rails, LEGEND, only=PICTURE))
    settings = plan.settings
    skip = f"SKIP {settings.skip_to.value}{' ' + settings.skip_label if settings.skip_label else ''}"
    if isinstance(plan, WindowPlan):
        reach = "UNBOUNDED" if plan.frame.following is None else str(plan.frame.following)
        start = "SEEK" if plan.frame.seek else "INITIAL"
        title = f"WINDOW with a row pattern: {start}, ROWS BETWEEN CURRENT ROW AND {reach} FOLLOWING, {skip}"
        return Section(title, (*blocks, *_window(plan)), run)
    mode = "" if settings.mode is MatchMode.PREFERRED else f", {settings.mode.value}"
    title = f"MATCH_RECOGNIZE: {plan.output.rows.value}, {skip}{mode}"
    return Section(title, (*blocks, fact("state", state_bound(plan))), run)


def _window(plan: WindowPlan) -> list[SectionBlock]:
    frame = plan.frame
    blocks: list[SectionBlock] = [fact("called over it", ", ".join(one.original for one in plan.measures.measures))]
    if frame.seek and (frame.following is not None or plan.lookback):
        tried = "all" if frame.following is not None else f"the first {plan.lookback}"
        what = f"each row tries {tried} rows of its frame anew, as what they see depends on the row"
        blocks.append(fact("frames", what))
    return blocks


def _search(plan: RowPatternPlan) -> list[SectionBlock]:
    order = ", ".join(f"{column.column}{'' if column.ascending else ' DESC'}" for column in plan.order)
    keys = ", ".join(plan.keys) or "one (no PARTITION BY)"
    instructions, text = plan.program.instructions, plan.source.text
    listed = tuple((str(index), str(one)) for index, one in enumerate(instructions[:MOST_INSTRUCTIONS]))
    return [
        FactLine((("partitions", keys), ("order", order or "of arrival (no ORDER BY)"))),
        Table(
            "pattern program (preferred way first)",
            (Column("", NUMBER, "{:>3}"), Column("instruction", CODE, "  {}")),
            listed,
            left_out=max(0, len(instructions) - MOST_INSTRUCTIONS),
            only=TEXT,  # a picture has the rails
        ),
        Table(
            "conditions (row-local: once per row, before matching; residual: while matching)",
            (Column("label", CODE), Column("tested", words=" {}"), Column("condition", CODE, ": {}")),
            tuple(row for label in plan.labels.names for row in _conditions(plan, label)),
        ),
        fact("search", MEMORY_WORDS[plan.memory]),
        *moved_columns(plan.input_columns, [(with_subqueries(sql, text), name) for sql, name in plan.derived]),
    ]


def _conditions(plan: RowPatternPlan, label: str) -> list[tuple[str, str, str]]:
    condition = plan.conditions.get(label)
    if condition is None:
        return [(label, "", "any row")]
    parts = (("row-local", condition.row_local), ("residual", condition.residual))
    return [(label, tested, " AND ".join(map(render, these))) for tested, these in parts if these]


def state_bound(plan: RowPatternPlan) -> str:
    """Return what bounds the rows that a partition must keep while it waits."""
    _, most = plan.length
    around = plan.lookback + plan.lookahead
    extra = f" and {around} around them (PREV/NEXT)" if around else ""
    if most is not None:
        return f"at most {most} rows per partition{extra}: the pattern is bounded"
    if plan.window is not None:
        window = plan.source.text_at(plan.window)
        return f"the rows of the last {window} per partition{extra}: WITHIN bounds it"
    return (
        "not bounded: the pattern may grow without end and there is no WITHIN; "
        "a partition is held until a match is certain"
    )


# A run.


def _run(plan: RowPatternPlan, report: RowReport) -> list[SectionBlock]:
    attempts = f"at {report.attempts:,} start rows, {report.steps:,} steps"
    if report.attempts:
        attempts += f" ({report.steps / report.attempts:,.1f} for each)"
    labels = enumerate(report.rows_by_label(plan).items())
    blocks: list[SectionBlock] = [
        fact("run", f"{count_of(report.parts, 'part')} of the input, {report.rows:,} rows, {report.matches:,} matches"),
        fact("attempts", attempts, level=2),
        Table(
            "rows by label (in matches; and of all rows those that satisfy the row-local conditions)",
            (
                Column("label", CODE),
                Column("rows in matches", NUMBER, ": {}"),
                Column("rows that satisfy row-local", NUMBER, "; {}"),
            ),
            tuple((label, f"{rows:,}", _row_local_rows(plan, report, number)) for number, (label, rows) in labels),
            level=2,
        ),
    ]
    return [*blocks, *_by_instruction(plan, report), _stages(report)]


def _by_instruction(plan: RowPatternPlan, report: RowReport) -> list[Table]:
    if not report.counted:
        return []
    rows = tuple(
        (str(number), str(one), f"{report.tried[number]:,}", f"{report.tried[number] - report.refused[number]:,}")
        for number, one in enumerate(plan.program.instructions[:MOST_INSTRUCTIONS])
        if one.operation == MATCH
    )
    columns = (
        Column("", NUMBER, "{:>3}"),
        Column("instruction", CODE, "  {}"),
        Column("tried", NUMBER, ": {} tried"),
        Column("taken", NUMBER, ", {} taken"),
    )
    which = "rows that attempts came to (in a search without short cuts), by instruction, and those that it took"
    return [Table(which, columns, rows, level=2)]


def _stages(report: RowReport) -> Table:
    rows = tuple(
        (words, Bar(f"{report.shares[stage]:.0%}", report.seconds[stage]), f"{report.seconds[stage]:,.3f} s")
        for stage, words in STAGE_WORDS.items()
    )
    columns = (Column("stage"), Column("share", BAR, " {}"), Column("time", NUMBER, ""))
    return Table(f"time in tasks: {sum(report.seconds.values()):,.3f} s", columns, rows, join=", ", level=2)


def _row_local_rows(plan: RowPatternPlan, report: RowReport, label: int) -> str:
    """Return how many rows satisfy the row-local conditions of a label."""
    condition = plan.conditions.get(plan.labels.names[label])
    if condition is None or not condition.row_local:
        return "any row"
    if not report.counted:
        return "not counted"
    return f"{report.offered[label]:,} ({report.offered[label] / report.counted:.1%})"


# Rails.


def _stops(plan: RowPatternPlan, report: RowReport | None) -> Callable[[Label], RailStop]:
    """Return what a stop shows of a label: when it is tested, its instructions, and the rows that they took."""
    places: dict[Span, list[int]] = {}
    for number, instruction in enumerate(plan.program.instructions):
        if instruction.operation == MATCH:
            places.setdefault(instruction.span, []).append(number)

    def stop(label: Label) -> RailStop:
        condition = plan.conditions.get(label.name)
        kind, tested = ("any", "any row") if condition is None else ("local", "row-local")
        if condition is not None and condition.residual:
            kind, tested = "residual", "residual"
        numbers = places[label.span]
        listed = f"{', '.join(map(str, numbers[:3]))}{', …' if len(numbers) > 3 else ''}"
        notes = [f"{tested} · {listed}" if numbers else tested]
        if report is not None and numbers:
            tried, refused, taken = (
                sum(counts[number] for number in numbers) for counts in (report.tried, report.refused, report.taken)
            )
            notes += [f"{tried - refused:,} of {tried:,} taken"] if report.counted else []
            notes.append(f"{taken:,} in matches")
        which = f" (instructions {listed})" if numbers else ""
        return RailStop(label.name, kind, f"{label.name}: {tested}{which}", tuple(notes))

    return stop


def _rail(pattern: Pattern, stop: Callable[[Label], RailStop]) -> Rail:
    def parts(many: Sequence[Any]) -> tuple[Rail, ...]:
        return tuple(_rail(one, stop) for one in many)

    if isinstance(pattern, Label):
        return stop(pattern)
    if isinstance(pattern, Empty):
        return RailRow(())
    if isinstance(pattern, Anchor):
        sign, end = ("^", "start") if pattern.at_start else ("$", "end")
        return RailStop(sign, "end", f"the {end} of the partition", round_=True)
    if isinstance(pattern, Alternation):
        return RailChoice(parts(pattern.parts))
    if isinstance(pattern, Concatenation):
        return RailRow(parts(pattern.parts))
    if isinstance(pattern, Permutation):
        return RailRow(parts(pattern.parts), "PERMUTE: any order, this one first")
    if isinstance(pattern, Exclusion):
        return RailRow(parts((pattern.part,)), "{- -} not shown")
    inner, low, high = _rail(pattern.part, stop), pattern.minimum, pattern.maximum
    if (low, high) == (1, 1):
        return inner
    return RailLoop(inner, high != 1, low == 0, _repetition(pattern), pattern.greedy)


def _repetition(node: Quantified) -> str:
    """Return `+`, `{2,5}?` and so on, and what it prefers."""
    low, high = node.minimum, node.maximum
    sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
    if sign is None:
        sign = f"{{{low}}}" if low == high else f"{{{low or ''},{'' if high is None else high}}}"
    if low == high:
        return f"{sign} times"
    return f"{sign} prefers more rows" if node.greedy else f"{sign}? prefers fewer rows"
