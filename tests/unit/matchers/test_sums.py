"""Sums follow one rule in all languages: exact, in Spark's types, null where the total does not fit. Never wrapped."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from episode.errors import EpisodeUnsupportedError
from episode.lang.situations.parser import parse_situation_query
from episode.matchers.running import run
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import plan_situation_pattern
from tests.reference.event_patterns import Event
from tests.support import events, rows, situations

MOST = 2**63 - 1
TYPES = {"k": "int", "ts": "bigint", "v": "bigint"}
SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int64())])


def matched(clause: str, values: list[Any], types: dict[str, str] = TYPES, schema: pa.Schema = SCHEMA) -> list[Any]:
    """What a row pattern over rows of one key gives, a row per match."""
    table = [{"k": 1, "ts": ts, "v": value} for ts, value in enumerate(values)]
    spec = rows.spec_of(clause, types, schema)
    return [tuple(row.values()) for row in rows.finished(spec, rows.run_whole(spec, table))]


@pytest.mark.parametrize("values", [[MOST, 1], [-MOST, -2], [6 * 10**18] * 3])
def test_integers_that_overflow_in_measures(values: list[int]) -> None:
    clause = "ORDER BY ts MEASURES sum(v) AS total, avg(v) AS mean PATTERN (A+)"
    ((total, mean),) = matched(clause, values)
    assert total is None
    assert mean == sum(map(float, values)) / len(values)


def test_a_running_sum_comes_back_from_beyond_bigint() -> None:
    clause = "ORDER BY ts MEASURES RUNNING sum(v) AS total ALL ROWS PER MATCH PATTERN (A+)"
    found = matched(clause, [MOST, 1, -5])
    assert [row[1] for row in found] == [MOST, None, MOST - 4]


def test_one_key_that_overflows_does_not_stop_others() -> None:
    clause = "PARTITION BY k ORDER BY ts MEASURES sum(v) AS total PATTERN (A+)"
    spec = rows.spec_of(clause, TYPES, SCHEMA)
    table = [{"k": k, "ts": ts, "v": v} for k, values in ((1, [MOST, 1]), (2, [1, 2])) for ts, v in enumerate(values)]
    assert [row["total"] for row in rows.finished(spec, rows.run_whole(spec, table))] == [None, 3]


def test_integers_that_overflow_in_define() -> None:
    clause = "ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS sum(A.v) {}"
    assert matched(clause.format("> 0"), [MOST, 1, 2]) == [(1,), (2,)]
    assert matched(clause.format("< 0"), [MOST, 1, 2]) == []
    assert matched(clause.format("IS NULL OR A.v > 0"), [MOST, 1, 2]) == [(3,)]


@pytest.mark.parametrize("strategy", ["skip-till-any-match", "skip-till-next-match"])
@pytest.mark.parametrize("condition", ["sum(b[].x) < 0", "sum(b[..i].x) < 0"])
def test_closures_do_not_wrap(strategy: str, condition: str) -> None:
    spec = events.spec_of(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {strategy} AND {condition} WITHIN 100")
    values = {"k": 1, "y": 0, "s": "a"}
    given = [("A", 0), ("B", MOST), ("B", 1), ("C", 0)]
    found = events.run_whole(
        spec, [Event(at, at, at, {"type": type_, "x": x, **values}) for at, (type_, x) in enumerate(given)]
    )
    assert found == []


def test_situations_that_overflow() -> None:
    text = "FROM s DEFINE A AS a, B AS b PATTERN A meets B WITHIN 100 RETURN sum(A.n) AS total, avg(A.n) AS mean"
    spec = situations.spec_of(text)
    given = [(True, False, MOST), (True, False, 1), (False, True, 0), (False, False, 0)]
    table = pa.Table.from_pylist(
        [
            {"k": "x", "t": t, "a": a, "b": b, "c": False, "d": False, "x": 0.0, "n": n, "s": "s"}
            for t, (a, b, n) in enumerate(given)
        ],
        schema=situations.SCHEMA,
    )
    ((total, mean, *_),) = situations.rows_of(spec, run(spec, [table]))
    assert (total, mean) == (None, 2.0**62)


WIDE = {"k": "int", "ts": "bigint", "v": "decimal(38,18)"}
WIDE_SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.decimal128(38, 18))])
LARGEST = Decimal("99999999999999999999.999999999999999999")
LEAST = LARGEST.copy_negate()


def atoms(clause: str, values: list[Any]) -> list[tuple[Any, ...]]:
    """What the matcher delivers for measures over wide decimals; Spark only casts it."""
    spec = rows.spec_of(clause, WIDE, WIDE_SCHEMA)
    table = [{"k": 1, "ts": ts, "v": value} for ts, value in enumerate(values)]
    return [tuple(row.values()) for row in rows.run_whole(spec, table).to_pylist()]


def test_decimals_that_overflow_in_measures() -> None:
    clause = "ORDER BY ts MEASURES sum(v) AS total, avg(v) AS mean PATTERN (A+)"
    assert atoms(clause, [LARGEST] * 3) == [(None, None)]
    assert atoms(clause, [LARGEST, LEAST, Decimal("1.5"), None]) == [(Decimal("1.5"), Decimal("0.5"))]


def test_a_running_sum_of_decimals_stays_null_as_in_spark() -> None:
    clause = "ORDER BY ts MEASURES RUNNING sum(v) AS total ALL ROWS PER MATCH PATTERN (A+)"
    found = atoms(clause, [LARGEST, Decimal(1), Decimal(-5)])
    assert [row[-1] for row in found] == [LARGEST, None, None]


def test_decimals_that_overflow_in_situations() -> None:
    types = {"t": "bigint", "a": "boolean", "b": "boolean", "n": "decimal(38,18)"}
    schema = pa.schema([("t", pa.int64()), ("a", pa.bool_()), ("b", pa.bool_()), ("n", pa.decimal128(38, 18))])
    query = parse_situation_query(
        "FROM s DEFINE A AS a, B AS b PATTERN A meets B WITHIN 100 RETURN sum(A.n) AS total, avg(A.n) AS mean"
    )
    spec = SituationPatternSpec(plan_situation_pattern(query, InputSchema(types), "t", (), True), schema)
    given = [(True, False), (True, False), (False, True), (False, False)]
    table = pa.table(
        {"t": range(4), "a": [a for a, _ in given], "b": [b for _, b in given], "n": [LARGEST] * 4}, schema=schema
    )
    for pieces in ([table], [table.slice(0, 1), table.slice(1)]):
        ((total, mean, *_),) = situations.rows_of(spec, run(spec, pieces, restore=True))
        assert (total, mean) == (None, None)


NARROW = {"k": "int", "ts": "bigint", "v": "decimal(18,8)"}
NARROW_SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.decimal128(18, 8))])
NEARLY = Decimal("9999999999.99999999")


def lengths(condition: str, values: list[Any]) -> list[int]:
    """Lengths of the matches of A+, whose condition is on decimal(18,8)."""
    clause = f"ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS {condition}"
    return [n for (n,) in matched(clause, values, NARROW, NARROW_SCHEMA)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("sum(A.v) > 0", [30]),
        ("sum(A.v) >= A.v", [30]),
        ("sum(A.v) <= 20000000000", [2] * 15),
        ("sum(A.v) <= 19999999999.9999999", [1] * 30),
        ("sum(A.v) < 2.5e10", [2] * 15),
        ("-sum(A.v) > -2.5e10", [2] * 15),
        ("abs(-sum(A.v)) < 20000000000", [2] * 15),
        ("sum(A.v) BETWEEN 1 AND 30000000000", [3] * 10),
        ("CASE WHEN count(*) > 4 THEN sum(A.v) END IS NULL", [4] * 7 + [2]),
        ("coalesce(CASE WHEN count(*) > 4 THEN sum(A.v) END, -sum(A.v)) < 0", [4] * 7 + [2]),
        ("avg(A.v) = 9999999999.99999999", [30]),
        ("avg(A.v) < 9999999999.99999999", []),
        ("sum(A.v) IS NOT NULL AND CAST(sum(A.v) AS double) < 25000000000", [2] * 15),
    ],
)
def test_sums_of_narrow_decimals_in_define(condition: str, expected: list[int]) -> None:
    assert lengths(condition, [NEARLY] * 30) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("array_contains(array_agg(A.v), sum(A.v))", [1] * 4),
        ("array_contains(array_agg(A.v), avg(A.v))", [4]),
        ("NOT exists(array_agg(A.v), x -> x < sum(A.v))", [1] * 4),
        ("array_max(transform(array_agg(A.v), x -> CAST(sum(A.v) AS double))) < 2.5e10", [2] * 2),
    ],
)
def test_sums_of_decimals_beside_arrays(condition: str, expected: list[int]) -> None:
    assert lengths(condition, [NEARLY] * 4) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "size(transform(array_agg(A.v), x -> sum(A.v))) > 0",
        "array_max(transform(array_agg(A.v), x -> -avg(A.v))) IS NULL",
        "aggregate(array_agg(A.v), sum(A.v), (a, x) -> a) IS NULL",
        "array(sum(A.v)) = array_agg(A.v)",
        "size(array_append(array_agg(A.v), sum(A.v))) > 0",
        "array_agg(A.v) = array(sum(A.v), sum(A.v))",
    ],
)
def test_sums_of_decimals_in_arrays_are_refused(condition: str) -> None:
    with pytest.raises(EpisodeUnsupportedError):
        lengths(condition, [NEARLY])


def test_random_sums_and_averages_of_decimals_in_define() -> None:
    random_ = random.Random(5)
    with localcontext(Context(prec=60, rounding=ROUND_HALF_UP)):
        for _ in range(60):
            values = [
                random_.choice([None, Decimal(random_.randrange(-(10**18) + 1, 10**18)) / 10**8]) for _ in range(6)
            ]
            bound = Decimal(random_.randrange(-(10**18) + 1, 10**18)) / 10**8
            for function in ("sum", "avg"):
                expected, start = [], 0
                while start < len(values):
                    length = 0
                    while start + length < len(values):
                        present = [value for value in values[start : start + length + 1] if value is not None]
                        total = sum(present, Decimal(0))
                        if function == "avg" and present:
                            total = (total / len(present)).quantize(Decimal("1e-12"))
                        if not present or not total <= bound:
                            break
                        length += 1
                    expected += [length] if length else []
                    start += max(length, 1)
                assert lengths(f"{function}(A.v) <= {bound:.8f}", values) == expected, (function, values, bound)


LONG = {"k": "int", "ts": "bigint", "n": "bigint", "v": "decimal(30,20)"}
LONG_SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("n", pa.int64()), ("v", pa.decimal128(30, 20))])
THIRD = Decimal("0.33333333333333333333")


def long_lengths(condition: str, values: list[Any]) -> list[int]:
    """Lengths of the matches of A+ over decimal(30,20), beside the bigint n = 1."""
    clause = f"ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS {condition}"
    table = [{"k": 1, "ts": ts, "n": 1, "v": value} for ts, value in enumerate(values)]
    spec = rows.spec_of(clause, LONG, LONG_SCHEMA)
    return [row["n"] for row in rows.finished(spec, rows.run_whole(spec, table))]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("sum(A.v) < 2", [6, 6]),
        ("sum(A.v) <= 0.99999999999999999999", [3] * 4),
        ("sum(A.v) < 0.99999999999999999999", [2] * 6),
        ("sum(A.v) <= 1 AND sum(A.v) <= A.n", [3] * 4),
        ("avg(A.v) = 0.33333333333333333333", [12]),
        ("avg(A.v) = A.v AND max(A.v) = min(A.v)", [12]),
        ("sum(A.v) < 5 * count(A.v)", [12]),
        ("-sum(A.v) > -1", [3] * 4),
        ("sum(A.v) / 2 <= 0.5", [3] * 4),
        ("abs(sum(A.v)) < 1 AND count(A.v) < 3", [2] * 6),
        ("coalesce(sum(A.v), -sum(A.v)) IS NOT NULL AND sum(coalesce(A.v, A.v)) < 1", [3] * 4),
        ("sum(A.v) <=> 0.33333333333333333333", [1] * 12),
        ("sum(A.v) <=> CAST(NULL AS DECIMAL(30,20))", []),
        ("sum(CASE WHEN CLASSIFIER(A) = 'A' THEN A.v END) < 1", [3] * 4),
        ("min(A.v) < 1 AND max(A.v) > 0.3333 AND coalesce(stddev(A.v), 0) < 1", [12]),
        ("sum(A.v) < 12345678901234567890.5 AND max(A.v) + min(A.v) < 0.7", [12]),
        ("sum(A.v) < 2e0", [5, 5, 2]),
        ("PREV(A.v) + A.v - 1 < 0 OR count(*) = 1", [12]),
        ("array_max(array_agg(A.v)) = max(A.v)", [12]),
    ],
)
def test_sums_of_wide_decimals_in_define(condition: str, expected: list[int]) -> None:
    assert long_lengths(condition, [THIRD] * 12) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "sum(A.v) * 2 > 1",
        "sum(A.v) - A.v > 0",
        "exists(array_agg(A.v), x -> x < sum(A.v))",
    ],
)
def test_arithmetic_of_wide_decimals_that_is_refused(condition: str) -> None:
    with pytest.raises(EpisodeUnsupportedError):
        long_lengths(condition, [THIRD])


def test_sums_of_wide_decimals_that_overflow_in_define() -> None:
    def found(condition: str, values: list[Any]) -> list[int]:
        clause = f"ORDER BY ts MEASURES count(*) AS n PATTERN (A+) DEFINE A AS {condition}"
        return [n for (n,) in matched(clause, values, WIDE, WIDE_SCHEMA)]

    assert found("sum(A.v) > 0", [LARGEST] * 3) == [1, 1, 1]
    assert found("sum(A.v) < 0 OR avg(A.v) < 0", [LARGEST] * 3) == []
    # Null from the value on that makes them too large, as in MEASURES.
    assert found("sum(A.v) IS NULL OR A.v = max(A.v)", [LARGEST, LARGEST, LEAST]) == [3]
    assert found("sum(A.v) IS NULL OR count(*) = 1", [LARGEST, LEAST, LARGEST, LARGEST]) == [1, 1, 2]


CLOSURES = {"pos": "bigint", "ts": "bigint", "te": "bigint", "type": "string", "v": "decimal(30,20)"}
CLOSURES_SCHEMA = pa.schema([*[(name, pa.int64()) for name in ("pos", "ts", "te")], ("type", pa.string()),
                             ("v", pa.decimal128(30, 20))])  # fmt: skip


@pytest.mark.parametrize("strategy", ["skip-till-any-match", "skip-till-next-match"])
@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("sum(b[].v) > 1", True),
        ("sum(b[].v) > 1.33333333333333333331", True),
        ("sum(b[].v) > 1.33333333333333333332", False),
        ("sum(b[..i].v) <= 1.33333333333333333332", True),
        ("avg(b[].v) = 0.33333333333333333333 AND count(b[].v) = 4", True),
        ("min(b[].v) + a.v < max(b[].v)", False),
        ("min(b[].v) + a.v > c.v", True),
        ("b[1].v + b[4].v > 0.66666666666666666665", True),
        ("a.v + c.v > 0.66666666666666666666", False),
    ],
)
def test_sums_of_wide_decimals_in_closures(strategy: str, condition: str, found: bool) -> None:
    spec = events.spec_of(
        f"PATTERN SEQ(A a, B+ b[], C c) WHERE {strategy} AND {condition} WITHIN 100",
        types=CLOSURES, schema=CLOSURES_SCHEMA,
    )  # fmt: skip
    times = range(6)
    table = pa.table({"pos": times, "ts": times, "te": times, "type": list("ABBBBC"), "v": [THIRD] * 6},
                     schema=CLOSURES_SCHEMA)  # fmt: skip
    assert (run(spec, [table]).num_rows > 0) == found


def test_random_sums_and_averages_of_wide_decimals_in_define() -> None:
    random_ = random.Random(7)
    with localcontext(Context(prec=80, rounding=ROUND_HALF_UP)):
        for _ in range(40):
            values = [
                random_.choice([None, Decimal(random_.randrange(-(10**30) + 1, 10**30)) / 10**20]) for _ in range(6)
            ]
            bound = Decimal(random_.randrange(-(10**30) + 1, 10**30)) / 10**20
            for function in ("sum", "avg", "min", "max"):
                expected, start = [], 0
                while start < len(values):
                    length = 0
                    while start + length < len(values):
                        present = [value for value in values[start : start + length + 1] if value is not None]
                        total = sum(present, Decimal(0))
                        if function == "avg" and present:
                            total = (total / len(present)).quantize(Decimal("1e-24"))
                        elif present and function != "sum":
                            total = min(present) if function == "min" else max(present)
                        if not present or not total <= bound:
                            break
                        length += 1
                    expected += [length] if length else []
                    start += max(length, 1)
                assert long_lengths(f"{function}(A.v) <= {bound:.20f}", values) == expected, (function, values, bound)
