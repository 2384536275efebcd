"""What becomes of good queries: syntax trees, plans as `explain` shows them, pattern programs."""

from __future__ import annotations

import sqlglot

from episode.lang.rows.parser import parse_clause
from episode.lang.statement import parse_statement
from episode.plan.rows.explain import row_section
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.program import compile_pattern
from episode.plan.rows.windows import plan_window
from episode.plan.schema import InputSchema
from episode.plan.sections import lines_of
from tests.golden.cases import SCHEMA, Case, check, parametrized
from tests.golden.printing import output_text, statement_text

SPARK_TYPES = {"upper": "string", "length": "int", "substring": "string", "dot": "int", "column": "int"}


def type_of(expression: str) -> str:
    """Spark's answers, for the few expressions of the cases."""
    return SPARK_TYPES.get(sqlglot.parse_one(expression, read="spark").key, "boolean")


def plan_text(text: str) -> str:
    plan = plan_row_pattern(parse_clause(text), InputSchema(SCHEMA, type_of))
    least, most = plan.length
    lines = lines_of(row_section(plan))
    lines += [f"  measure {measure.name}: {measure.sql}" for measure in plan.measures.measures]
    lines += [f"  {name} = {output_text(atom)}" for atom, name in plan.measures.atoms.items()]
    lines.append(f"  rows of a match: {least} to {'any number' if most is None else most}")
    lines.append(f"  output: {', '.join(plan.output.columns)} (measures after the first {plan.output.before})")
    return "\n".join(lines)


def window_plan_text(text: str) -> str:
    (select,) = parse_statement(text).windowed
    plan = plan_window(select.windows[0], InputSchema(SCHEMA, type_of))
    measures = [f"  {measure.name}: {measure.sql}" for measure in plan.measures.measures]
    return "\n".join([*lines_of(row_section(plan)), *measures])


def program_text(pattern: str) -> str:
    program = compile_pattern(parse_clause(f"PATTERN ({pattern})"))
    lines = [f"{index:>3}  {instruction}" for index, instruction in enumerate(program.instructions)]
    return "\n".join([*lines, f"{program.loops} loops, {'' if program.nullable else 'not '}nullable"])


@parametrized("parse")
def test_parse(case: Case) -> None:
    check(case, lambda text: statement_text(parse_statement(text)))


@parametrized("plan")
def test_plan(case: Case) -> None:
    check(case, plan_text)


@parametrized("window_plan")
def test_window_plan(case: Case) -> None:
    check(case, window_plan_text)


@parametrized("program")
def test_program(case: Case) -> None:
    check(case, program_text)
