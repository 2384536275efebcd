"""The results of rules as one DataFrame: Spark computes the columns of all rules in one projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    FloatType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from episode.matchers.rules.one_rule import RULE_COLUMN
from episode.plan.schema import quote
from episode.spark.confinement import check_expression
from episode.spark.errors import without_context_logs
from episode.spark.expressions import Arguments, select, text_literal, uses, where

JSON_OPTIONS = "map('ignoreNullFields', 'false')"
TIME_OPTIONS = (
    "map('timeZone', 'UTC', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)
AS_JSON = (BooleanType, NumericType, StringType, VariantType)
"""Types that are the same in JSON."""
BRANCHES = 16
"""Branches of one CASE."""


@dataclass(frozen=True)
class Finish:
    """Columns that Spark computes for one rule. columns: (name, SQL). key: SQL by column. time: the type of both
    times."""

    number: int
    name: str
    columns: tuple[tuple[str, str], ...]
    conditions: tuple[str, ...]
    key: Mapping[str, str]
    start: str | None
    end: str | None
    time: str | None


def has_variant(frame: DataFrame) -> bool:
    """Whether this Spark can make a VARIANT of a struct."""
    with without_context_logs():
        try:
            frame.sparkSession.range(1).selectExpr("to_variant_object(named_struct('a', 1)) AS v").schema  # noqa: B018
        except (AnalysisException, ParseException):
            return False
    return True


def result_types(matched: DataFrame, rules: Sequence[Finish], arguments: Arguments) -> dict[int, StructType] | None:
    """The types of all rules' columns, in one analysis; None if Spark cannot compute one of them."""
    every = [(sql, f"{rule.number}_{at}") for rule in rules for at, (_, sql) in enumerate(rule.columns)]
    with without_context_logs():
        try:
            fields = iter(_select(matched, every, arguments).schema.fields)
        except (AnalysisException, ParseException):
            return None
    return {rule.number: StructType([next(fields) for _ in rule.columns]) for rule in rules}


def _select(frame: DataFrame, named: Sequence[tuple[str, str]], arguments: Arguments) -> DataFrame:
    """Select many columns with one call of Spark."""
    if uses(arguments, (sql for sql, _ in named)):
        return select(frame, named, arguments)
    return frame.selectExpr(*(check_expression(f"{sql} AS {quote(name)}") for sql, name in named))


def one_result(
    matched: DataFrame,
    rules: Sequence[Finish],
    keys: Sequence[str],
    types: Mapping[int, StructType],
    variant: bool,
    arguments: Arguments,
) -> DataFrame:
    """rule, key columns, match_start, match_end, result of the matches for which the conditions of their rules hold."""
    times = {rule.time for rule in rules if rule.time is not None and rule.start is not None}
    as_text = len(times) > 1
    columns = [
        (_looked_up([text_literal(rule.name) for rule in sorted(rules, key=lambda rule: rule.number)]), "rule"),
        *((_case({rule.number: rule.key.get(name) for rule in rules}), name) for name in keys),
        (_case({rule.number: _time(rule.start, as_text) for rule in rules}), "match_start"),
        (_case({rule.number: _time(rule.end, as_text) for rule in rules}), "match_end"),
        (_case({rule.number: _result(rule, types[rule.number], variant) for rule in rules}), "result"),
    ]
    tests = {rule.number: " AND ".join(f"({one})" for one in rule.conditions) for rule in rules if rule.conditions}
    if tests:
        cases = " ".join(f"WHEN {number} THEN {test}" for number, test in tests.items())
        matched = where(matched, f"CASE {quote(RULE_COLUMN)} {cases} ELSE TRUE END", arguments)
    return select(matched, columns, arguments)


def of_rule(matched: DataFrame, rule: Finish, arguments: Arguments) -> DataFrame:
    """The matches of one rule, in its own result columns."""
    own = matched.where(F.col(RULE_COLUMN) == rule.number)
    for condition in rule.conditions:
        own = where(own, condition, arguments)
    return select(own, [(sql, name) for name, sql in rule.columns], arguments)


def _case(values: Mapping[int, str | None]) -> str:
    """An expression by the number of the rule; rules with the same one share a branch.

    Spark tests the branches of a CASE one after the other: so the branch of a rule is looked up in an array, and many
    branches are nested in two levels."""
    branches = list(dict.fromkeys(values.values()))
    if len(branches) == 1:
        return branches[0] or "NULL"
    places = {sql: at for at, sql in enumerate(branches)}
    branch = _looked_up([str(places[values[number]]) for number in sorted(values)])
    tests = [(at, sql) for at, sql in enumerate(branches) if sql is not None]
    if len(tests) <= BRANCHES:
        return _switch(branch, tests)
    blocks = [tests[at : at + BRANCHES] for at in range(0, len(tests), BRANCHES)]
    inner = " ".join(f"WHEN {branch} <= {block[-1][0]} THEN {_switch(branch, block)}" for block in blocks)
    return f"CASE {inner} END"


def _switch(branch: str, tests: Sequence[tuple[int, str]]) -> str:
    return f"CASE {branch} {' '.join(f'WHEN {at} THEN {sql}' for at, sql in tests)} END"


def _looked_up(values: Sequence[str]) -> str:
    """Look up the constant of a rule; rules are numbered from 0 on."""
    return f"element_at(array({', '.join(values)}), {quote(RULE_COLUMN)} + 1)"


def _time(sql: str | None, as_text: bool) -> str | None:
    return f"CAST({sql} AS STRING)" if as_text and sql is not None else sql


def _result(rule: Finish, types: StructType, variant: bool) -> str:
    fields = [
        f"{text_literal(name)}, {_in_json(sql, field.dataType)}"
        for (name, sql), field in zip(rule.columns, types.fields, strict=True)
    ]
    struct = f"named_struct({', '.join(fields)})"
    return f"to_variant_object({struct})" if variant else f"to_json({struct}, {JSON_OPTIONS})"


def _in_json(sql: str, kind: DataType, depth: int = 0) -> str:
    """A value as JSON holds it, in the form of `matchers.json_text`. depth: of functions that name their argument."""
    if _is_json(kind):
        return sql
    one = f"x{depth}"
    if isinstance(kind, ArrayType):
        return f"transform({sql}, {one} -> {_in_json(one, kind.elementType, depth + 1)})"
    if isinstance(kind, MapType):
        key, value = _key(f"{one}.key", kind.keyType, depth + 1), _in_json(f"{one}.value", kind.valueType, depth + 1)
        return f"map_from_entries(transform(map_entries({sql}), {one} -> struct({key} AS key, {value} AS value)))"
    if isinstance(kind, StructType):
        values = [(one.name, _in_json(f"({sql}).{quote(one.name)}", one.dataType, depth)) for one in kind]
        fields = (f"{text_literal(name)}, {value}" for name, value in values)
        return f"if(({sql}) IS NULL, NULL, named_struct({', '.join(fields)}))"
    if isinstance(kind, FloatType):
        return f"CAST(CAST({sql} AS STRING) AS DOUBLE)"  # the digits that are shown, and no others
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        return f"if(({sql}) IS NULL, NULL, to_csv(named_struct('x', {sql}), {TIME_OPTIONS}))"
    if isinstance(kind, BinaryType):
        return f"replace(replace(base64({sql}), '\\r', ''), '\\n', '')"  # in lines, before Spark 4
    if isinstance(kind, DayTimeIntervalType):
        return f"CAST(CAST({sql} AS INTERVAL DAY TO SECOND) AS STRING)"
    return f"CAST({sql} AS STRING)"


def _key(sql: str, kind: DataType, depth: int) -> str:
    """The key of a map as a text."""
    held, nested = _in_json(sql, kind, depth), isinstance(kind, (ArrayType, StructType))
    return f"to_json({held}, {JSON_OPTIONS})" if nested else f"CAST({held} AS STRING)"


def _is_json(kind: DataType) -> bool:
    """Whether VARIANT and JSON represent values of a type alike."""
    if isinstance(kind, ArrayType):
        return _is_json(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_json(field.dataType) for field in kind.fields)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_json(kind.valueType)
    return isinstance(kind, AS_JSON) and not isinstance(kind, FloatType)
