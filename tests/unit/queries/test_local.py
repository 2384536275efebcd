"""Patterns in process: what comes in and goes out, what is refused, and that Spark is not there."""

from __future__ import annotations

import runpy
import subprocess
import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError, EpisodeUnsupportedError

PRICES = pa.table({"s": ["a"] * 5 + ["b"] * 2, "t": [1, 2, 3, 4, 5, 1, 2], "p": [9, 7, 5, 8, 9, 1, 2]})
V_SHAPE = """
    SELECT * FROM t MATCH_RECOGNIZE (
        PARTITION BY s ORDER BY t
        MEASURES A.t AS begins, LAST(UP.t) AS ends, A.p - min(DOWN.p) AS depth, count(*) / 2 AS half
        PATTERN (A DOWN+ UP+) DEFINE DOWN AS DOWN.p < PREV(DOWN.p), UP AS UP.p > PREV(UP.p))
"""
EVENTS = pa.table({"type": ["A", "B", "B", "C"], "at": [1, 2, 3, 4], "x": [5, 6, 7, 8]})


class Stream:
    """A frame of another library: nothing but an Arrow stream."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


# ---- what comes in goes out ------------------------------------------------------------------------------------


def test_arrow() -> None:
    found = episode.sql_local(V_SHAPE, t=PRICES)
    assert found.to_pylist() == [{"s": "a", "begins": 1, "ends": 5, "depth": 4, "half": 2.5}]
    assert found.schema.field("depth").type == pa.int64()
    assert found.schema.field("half").type == pa.float64()


def test_record_batches_and_streams_come_out_as_arrow() -> None:
    expected = episode.sql_local(V_SHAPE, t=PRICES)
    assert episode.sql_local(V_SHAPE, t=PRICES.to_batches()[0]).equals(expected)
    assert episode.sql_local(V_SHAPE, t=Stream(PRICES)).equals(expected)


def test_pandas() -> None:
    found = episode.sql_local(V_SHAPE, t=PRICES.to_pandas())
    assert isinstance(found, pd.DataFrame)
    assert found.to_dict("records") == [{"s": "a", "begins": 1, "ends": 5, "depth": 4, "half": 2.5}]


def test_integers_of_pandas_stay_integers_beside_nulls() -> None:
    query = "SELECT x FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES PREV(A.p) AS x PATTERN (A))"
    frame = pd.DataFrame({"t": [1, 2], "p": [2**60 + 1, 7]})
    found = episode.sql_local(query, t=frame)
    assert str(found["x"].dtype) == "Int64"
    assert found["x"][1] == 2**60 + 1
    assert found["x"].isna().tolist() == [True, False]


def test_polars() -> None:
    polars = pytest.importorskip("polars")
    found = episode.sql_local(V_SHAPE, t=polars.from_arrow(PRICES))
    assert isinstance(found, polars.DataFrame)
    assert found.to_dicts() == [{"s": "a", "begins": 1, "ends": 5, "depth": 4, "half": 2.5}]


def test_a_table_of_another_kind() -> None:
    with pytest.raises(EpisodeAnalysisError, match="pandas or Polars frames"):
        episode.sql_local(V_SHAPE, t=[{"s": "a"}])


# ---- times -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ns"])
def test_times_keep_their_zone(zone: str | None, unit: str) -> None:
    kind = pa.timestamp(unit, tz=zone)
    moments = [datetime(2026, 3, 1, 10, minute, tzinfo=timezone.utc if zone else None) for minute in (0, 5)]
    table = pa.table({"at": pa.array(moments, kind), "x": [1, 2]})
    found = episode.match_local(table, "PATTERN A; B WITHIN 10 minutes RETURN A.at AS a, B.at - A.at AS gap", time="at")
    assert found.schema.field("a").type == pa.timestamp("us", tz=zone)
    assert found.column("gap").to_pylist()[0].total_seconds() == 300
    assert found.column("match_end")[0].as_py() == moments[1]


def test_other_numbers_of_arrow() -> None:
    table = pa.table(
        {
            "t": pa.array([1, 2], pa.uint8()),
            "n": pa.array([1, 2**63], pa.uint64()),
            "s": pa.array(["a", "b"]).dictionary_encode(),
            "l": pa.array(["x", "y"], pa.large_string()),
        }
    )
    query = "SELECT * FROM t MATCH_RECOGNIZE (MEASURES LAST(n) AS n, LAST(s) AS s, LAST(l) AS l PATTERN (A+))"
    found = episode.sql_local(query, t=table)
    assert found.to_pylist() == [{"n": Decimal(2**63), "s": "b", "l": "y"}]
    assert [field.type for field in found.schema] == [pa.decimal128(20, 0), pa.string(), pa.string()]


# ---- the statement around a pattern ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("*", {"s": "a", "n": 5}),
        ("n", {"n": 5}),
        ("m.n AS rows, m.s", {"rows": 5, "s": "a"}),
        ("`n`, *", [("n", 5), ("s", "a"), ("n", 5)]),
        ("n + 1 AS more, coalesce(s, 'none') AS s", {"more": 6, "s": "a"}),
    ],
)
def test_lists_of_columns(selected: str, expected: Any) -> None:
    query = f"""SELECT {selected} FROM t MATCH_RECOGNIZE (
        PARTITION BY s ORDER BY t MEASURES count(*) AS n PATTERN (A{{3,}})) AS m"""
    found = episode.sql_local(query, t=PRICES)
    row = [(name, column[0].as_py()) for name, column in zip(found.column_names, found.columns, strict=True)]
    assert row == (list(expected.items()) if isinstance(expected, dict) else expected)


CLAUSE = "MATCH_RECOGNIZE (ORDER BY t MEASURES count(*) AS n PATTERN (A+))"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT * FROM t {CLAUSE} WHERE n > 1", "WHERE after the pattern needs Spark"),
        (f"SELECT * FROM t {CLAUSE} AS m ORDER BY n", "ORDER after the pattern needs Spark"),
        (f"SELECT DISTINCT n FROM t {CLAUSE}", "needs Spark"),
        (f"SELECT hex(n) FROM t {CLAUSE}", "hex"),
        (f"SELECT * FROM (SELECT * FROM t) {CLAUSE}", "A pattern over a query needs Spark"),
        (f"SELECT * FROM (SELECT n FROM t {CLAUSE})", "needs Spark"),
        (f"WITH u AS (SELECT 1) SELECT * FROM t {CLAUSE}", "needs Spark"),
        ("SELECT 1", "There is no pattern in this query; a query in process has one pattern"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES upper(A.s) AS u PATTERN (A))", "upper(A.s) needs Spark"),
        (
            "SELECT * FROM t MATCH_RECOGNIZE (MEASURES A.s AS u PATTERN (A) DEFINE A AS A.s LIKE 'a%')",
            "LIKE",
        ),
        ("PATTERN A; B", "a pattern is over one table"),
    ],
)
def test_what_needs_spark_is_refused_at_its_place(query: str, said: str) -> None:
    with pytest.raises(EpisodeUnsupportedError) as raised:
        episode.sql_local(query, t=PRICES)
    assert said in str(raised.value)
    assert "^" in str(raised.value)
    assert "episode.sql" in str(raised.value)


def test_refusals_do_not_wait_for_matches() -> None:
    with pytest.raises(EpisodeUnsupportedError):
        episode.match_local(EVENTS.slice(0, 0), "PATTERN A; B RETURN hex(A.x)", time="at", type_column="type")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"SELECT * FROM u {CLAUSE}", "There is no table u"),
        (f"SELECT z FROM t {CLAUSE}", "There is no column z in the output"),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES A.zz AS z PATTERN (A))", "There is no column zz"),
    ],
)
def test_mistakes(query: str, said: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=said):
        episode.sql_local(query, t=PRICES)


def test_errors_of_syntax_are_the_same() -> None:
    with pytest.raises(EpisodeSyntaxError):
        episode.sql_local("SELECT * FROM t MATCH_RECOGNIZE (PATTERN A)", t=PRICES)


# ---- event and situation patterns ------------------------------------------------------------------------------


def test_whole_events() -> None:
    found = episode.match_local(EVENTS, "PATTERN A; B+; C", time="at", type_column="type", strategy="strict-contiguity")
    events = EVENTS.to_pylist()
    assert found.to_pylist() == [{"A": events[0], "B": events[1:3], "C": events[3], "match_start": 1, "match_end": 4}]


def test_an_event_that_is_not_there_is_null() -> None:
    found = episode.match_local(EVENTS, "PATTERN (A | D); C", time="at", type_column="type")
    assert found.column("D").to_pylist() == [None]
    assert found.column("A")[0].as_py() == EVENTS.to_pylist()[0]


def test_situations() -> None:
    table = pa.table(
        {"t": [1, 2, 3, 4, 5], "a": [True, True, False, False, False], "b": [False, True, True, False, True]}
    )
    text = "DEFINE A AS a, B AS b PATTERN A overlaps B RETURN A.end - A.start AS lasted, count(B.b) AS n"
    found = episode.match_local(table, text, time="t", detect="complete")
    assert found.to_pylist() == [{"lasted": 2, "n": 2, "match_start": 1, "detected_at": 4}]
    whole = episode.match_local(table, "DEFINE A AS a, B AS b PATTERN A overlaps B", time="t", detect="complete")
    assert whole.to_pylist()[0]["A"] == {"start": 1, "end": 3}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"detect": "complete"}, "detect='complete' has no meaning for an event pattern"),
        ({"options": episode.Options(watermark="1 second")}, "no pattern of this query is over a stream"),
        ({"options": episode.Options(tuning=episode.Tuning(shards=4))}, "is for Spark"),
        ({"time": "nowhere"}, "There is no column nowhere"),
        ({"key": "nowhere"}, "There is no column nowhere"),
    ],
)
def test_options_without_meaning(given: dict[str, Any], said: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=said):
        episode.match_local(EVENTS, "PATTERN A; B", **{"time": "at", "type_column": "type", **given})


# ---- scalars ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected", "kind"),
    [
        ("sum(d)", Decimal("3.75"), pa.decimal128(20, 2)),
        ("avg(d)", Decimal("1.875000"), pa.decimal128(14, 6)),
        ("LAST(d) * 2", Decimal("5.00"), pa.decimal128(12, 2)),
        ("LAST(i) / FIRST(i)", 3.5, pa.float64()),
        ("LAST(i) div FIRST(i)", 3, pa.int64()),
        ("LAST(i) % FIRST(i)", 1, pa.int32()),
        ("LAST(i) / 0", None, pa.float64()),
        ("LAST(i) + 2147483647", None, pa.int32()),
        ("PREV(FIRST(i))", None, pa.int32()),
        ("PREV(FIRST(i)) > 1 OR LAST(i) = 7", True, pa.bool_()),
        ("CASE WHEN LAST(i) > 5 THEN LAST(s) ELSE 'small' END", "y", pa.string()),
        ("greatest(FIRST(s), LAST(s), 'w')", "y", pa.string()),
        ("LAST(p).a + LAST(p).b.c", 33, pa.int64()),
        ("LAST(p).b", {"c": 3}, pa.struct([("c", pa.int64())])),
        ("array_agg(i)", [2, 7], pa.list_(pa.int32())),
        ("size(array_agg(i))", 2, pa.int32()),
        ("try_element_at(array_agg(i), -1)", 7, pa.int32()),
        ("named_struct('n', count(*), 'last', LAST(s))", {"n": 2, "last": "y"},
         pa.struct([("n", pa.int64()), ("last", pa.string())])),
        ("CAST(LAST(i) AS STRING)", "7", pa.string()),
        ("LAST(x) IS NULL", True, pa.bool_()),
    ],
)  # fmt: skip
def test_measures_have_the_types_of_spark(expression: str, expected: Any, kind: pa.DataType) -> None:
    rows = [
        {"t": 1, "i": 2, "d": Decimal("1.25"), "s": "x", "p": {"a": 10, "b": {"c": 1}}, "x": None},
        {"t": 2, "i": 7, "d": Decimal("2.50"), "s": "y", "p": {"a": 30, "b": {"c": 3}}, "x": None},
    ]
    struct = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.int64())]))])
    schema = pa.schema(
        [("t", pa.int64()), ("i", pa.int32()), ("d", pa.decimal128(10, 2)), ("s", pa.string()), ("p", struct),
         ("x", pa.list_(pa.int64()))]
    )  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schema)
    found = episode.sql_local(
        f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES {expression} AS m PATTERN (A+))", t=table
    )
    assert found.schema.field("m").type == kind
    assert found.column("m").to_pylist() == [expected]


def test_fields_of_structs_in_conditions() -> None:
    table = pa.table({"t": [1, 2, 3], "p": [{"v": 1}, {"v": 5}, {"v": 2}]})
    query = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES A.t AS t PATTERN (A) DEFINE A AS A.p.v > 1)"
    assert episode.sql_local(query, t=table).column("t").to_pylist() == [2, 3]


def test_spark_is_not_imported() -> None:
    code = f"""
import sys, pyarrow as pa, episode
table = pa.table({{"t": [1, 2], "s": ["A", "B"]}})
episode.match_local(table, "PATTERN A; B", time="t", type_column="s")
episode.sql_local("SELECT n FROM x {CLAUSE}", x=table)
print([name for name in ("pyspark", "py4j", "polars") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PLAIN_QUERIES = {
    "rows": f"episode.sql_local('SELECT n FROM x {CLAUSE}', x=table)",
    "events": "episode.match_local(table, 'PATTERN A; B WHERE A.t < B.t RETURN A.t AS a', time='t', type_column='s')",
    "situations": "episode.match_local(table, 'DEFINE P AS t > 1, Q AS t < 9 PATTERN P overlaps Q "
    "WITHIN 9 units RETURN count(P.t) AS n', time='t')",
}


@pytest.mark.parametrize("query", PLAIN_QUERIES.values(), ids=PLAIN_QUERIES)
def test_pandas_is_not_imported(query: str) -> None:
    """It would cost every process a quarter of a second and 30 MB. Many functions of pyarrow import it."""
    code = f"""
import sys, numpy, pyarrow as pa, episode
from episode.matchers.columns import from_numbers, from_texts
table = pa.Table.from_arrays([from_numbers(numpy.arange(1, 3)), from_texts(["A", "B"])], ["t", "s"])
{query}
print("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[3] / "examples" / "local.py"), run_name="__main__")
    header, row, found = capsys.readouterr().out.splitlines()
    assert header.split() == ["symbol", "low", "gain"]
    assert row.split() == ["ACME", "17.0", "4.0"]
    assert found == "[{'since': 2, 'gain': 4.0, 'match_start': 2, 'match_end': 4}]"


def test_parameters_are_bound() -> None:
    table = pa.table({"id": [1, 2, 3, 4], "v": [5, 1, 7, 2]})
    query = """
        SELECT n + :more AS n, s FROM t MATCH_RECOGNIZE (
          ORDER BY id MEASURES count(*) AS n, sum(v) * :factor AS s PATTERN (A+) WITHIN :w DEFINE A AS v > :x
        )
    """
    found = episode.sql_local(query, {"x": 1, "factor": 10, "more": 100, "w": 1}, t=table)
    assert found.to_pylist() == [{"n": 101, "s": 50}, {"n": 102, "s": 90}]
    pairs = episode.match_local(
        table, "PATTERN a; b WHERE b.v > a.v + :least RETURN a.id AS a, b.id AS b", {"least": 4}, time="id"
    )
    assert pairs.select(["a", "b"]).to_pylist() == [{"a": 2, "b": 3}]
    with pytest.raises(EpisodeAnalysisError, match=r"no value for the parameter :x"):
        episode.sql_local(query, {"factor": 10, "more": 1, "w": 1}, t=table)
