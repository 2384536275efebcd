"""Aggregates of event patterns: every aggregate, over every kind of variable, in every clause."""

from __future__ import annotations

import pyarrow as pa
import pytest

import episode

EVENTS = pa.table(
    {"ts": list(range(8)), "x": [1.0, 5.0, 2.0, 8.0, 3.0, 4.0, 9.0, 1.0], "kind": list("ABCBABCC")},
    pa.schema([("ts", pa.int64()), ("x", pa.float64()), ("kind", pa.string())]),
)
AGGREGATES = (
    "count({0})", "count({0}.x)", "sum({0}.x)", "avg({0}.x)", "min({0}.x)", "max({0}.x)", "stddev({0}.x)",
    "first({0}.x)", "last({0}.x)", "array_agg({0}.x)", "max_by({0}.x, {0}.ts)", "count_if({0}.x > 2)",
    "bool_and({0}.x > 2)",
)  # fmt: skip
SINGLE = {
    "single": ("A; B; C", "B", "A"),
    "single of SEQ": ("SEQ(A a, B b, C c)", "b", "a"),
    "conjunction": ("A & B", "B", "A"),
    "alternative": ("A; (B | C)", "B", "A"),
    "optional": ("SEQ(A a, B b, C c) | SEQ(A a, C c)", "b", "a"),
    "negated": ("A; !B; C", "B", "A"),
    "negated in SEQ": ("SEQ(A a, ~B b, C c)", "b", "a"),
    "negated at the end": ("SEQ(A a, C c, ~B b)", "b", "a"),
}
SEVERAL = {
    "group": ("A; B+; C", "B", "A"),
    "group that may be empty": ("A; B*; C", "B", "A"),
    "counted group": ("A; B^2; C", "B", "A"),
    "closure": ("SEQ(A a, B+ b[], C c)", "b", "a"),
    "closure that may be empty": ("SEQ(A a, B* b[], C c)", "b", "a"),
    "closure of a sequence": ("SEQ(A a, SEQ(B b, C c)+)", "b", "a"),
    "closure in a negation": ("SEQ(A a, ~SEQ(B+ b[], C c), A d)", "b", "a"),
}
CLAUSES = (
    "WHERE {0} = 2",
    "WHERE {0} > {1}.x",
    "WHERE {0} IS NULL OR {1}.x > 3",
    "WHERE skip-till-next-match AND {0} > 2",
    "WHERE strict-contiguity AND {0} > {1}.x",
    "RETURN {0} AS r, coalesce({0}) AS s",
    "WHERE skip-till-next-match RETURN {0} AS r",
    "AGGREGATE {0} AS r",
)


def run(query: str) -> pa.Table:
    return episode.match_local(EVENTS, query, time="ts", type_column="kind")


@pytest.mark.parametrize("kind", [*SINGLE, *SEVERAL])
def test_aggregates_give_a_result_or_an_error_of_episode(kind: str) -> None:
    pattern, variable, other = (SINGLE | SEVERAL)[kind]
    for aggregate in AGGREGATES:
        for clause in CLAUSES:
            query = f"PATTERN {pattern} {clause.format(aggregate.format(variable), other)}"
            where, word, rest = query.partition("RETURN") if "RETURN" in query else query.partition("AGGREGATE")
            query = f"{where} WITHIN 10 {word}{rest}"
            try:
                run(query)
            except episode.EpisodeError as error:
                assert str(error)  # noqa: PT017 (a refusal is one of the two right answers)
            except Exception as error:
                raise AssertionError(query) from error


@pytest.mark.parametrize("kind", list(SINGLE))
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_where_has_no_aggregate_of_one_event(kind: str, aggregate: str) -> None:
    pattern, variable, other = SINGLE[kind]
    written = aggregate.format(variable)
    for clause in ("{0} = 2", "{0} > {1}.x", "skip-till-next-match AND {0} IS NOT NULL"):
        query = f"PATTERN {pattern} WHERE {clause.format(written, other)} WITHIN 10"
        with pytest.raises(episode.EpisodeSyntaxError, match=f"{variable} is one event, not a closure") as error:
            run(query)
        assert "^" * len(written) in str(error.value)


@pytest.mark.parametrize("function", ["count_if({}.x > 0)", "sum({}.x)", "avg({}.x)", "max({}.x)", "last({}.x)"])
def test_return_has_aggregates_of_one_event(function: str) -> None:
    [row] = run(f"PATTERN A; B; C WHERE A.ts = 0 AND C.ts = 2 RETURN {function.format('B')} AS r").to_pylist()
    assert row["r"] == (1 if "count" in function else 5.0)
