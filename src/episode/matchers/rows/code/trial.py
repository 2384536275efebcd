"""One step of an attempt as a program: take a row into the aggregates, test a label's condition, evaluate anything.

Its function takes the number of a step, the first and the last row of the match so far and the number of the last match
before; `path` and the first and last rows of labels are in arrays. The rows are those of one partition.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.expression_code import CodeConstants
from episode.matchers.rows.code.arrays import TYPES
from episode.matchers.rows.code.condition_traits import ColumnPlaces, ConditionTraits
from episode.matchers.rows.code.conditions import RowConditions
from episode.matchers.rows.code.match import RunningMatch
from episode.native.builder import Program
from episode.native.ir import Block
from episode.native.scope import ArrayTypes, entry_scope
from episode.native.types import F64, I64, I128
from episode.plan.rows.plan import RowPatternPlan

TAKE, TEST, EVALUATE = range(3)
"""What a step does: its number is a label's times 3, and this."""
NULL, WHOLE, HIGH = range(3)
"""Places of `value_i`: what an evaluated expression comes to, if it is not a float."""

TRIAL_TYPES: ArrayTypes = {**TYPES, "value_i": (I64, True), "value_f": (F64, True)}


@dataclass(frozen=True)
class TrialCode:
    """A program, and the constants that it reads."""

    program: Program
    traits: ConditionTraits
    constants: CodeConstants


def trial_code(plan: RowPatternPlan, labels: int, places: ColumnPlaces) -> TrialCode:
    """Steps that take rows of the first `labels` labels and test their conditions; those of others are evaluated."""
    s = entry_scope("trial", TRIAL_TYPES)
    f = s.f
    step, start, row, number = (f.scalar(name) for name in ("step", "start", "row", "number"))
    match = RunningMatch(start, row, start, f.value(0), s.key.length, number, start)
    conditions = RowConditions(s, plan, places, match)
    for label in conditions.tracked:
        match.last_row[label] = f.variable("last_row", s.last_row[label])
        match.first_row[label] = f.variable("first_row", s.first_row[label])
    cases: dict[int, Block] = {}
    begin, nothing = f.current, f.block("nothing")
    for label in range(len(plan.labels.names)):
        for what in (TAKE, TEST) if label < labels else (EVALUATE,):
            f.at(f.block("step"))
            cases[3 * label + what] = f.current
            _emit_step(conditions, what, label)
            f.jump(nothing)
    f.at(begin)
    f.switch(step, cases, nothing)
    f.at(nothing)
    f.give(0)
    return TrialCode(s.program, conditions.traits, conditions.constants)


def _emit_step(conditions: RowConditions, what: int, label: int) -> None:
    s, match = conditions.s, conditions.match
    if what == TAKE:
        conditions.take(label, match.row.equals(match.start))
        return
    if what == TEST:
        holds = conditions.holds(label)
        s.value_i[WHOLE] = 1 if holds is None else holds.to(I64)
        return
    value, null = conditions.value(label)
    s.value_i[NULL] = 0 if null is None else null.to(I64)
    if value.type is F64:
        s.value_f[0] = value
    elif value.type is I128:
        s.value_i[WHOLE] = value.to(I64)
        s.value_i[HIGH] = (value >> 64).to(I64)
    else:
        s.value_i[WHOLE] = value
