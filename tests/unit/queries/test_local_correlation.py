"""RECENCY in process: Table 1 of the PCQ paper, and what names, conditions and columns mean around it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode import Options, Tuning
from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from tests.support.flat_options import grouped

PRICES = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
TABLE_1 = [
    (2, 5, 7.0, 6.0, 6.0, 7.0),
    (2, 7, 11.0, 8.0, 6.0, 7.0),
    (2, 9, 8.0, 3.0, 6.0, 7.0),
    (4, 7, 11.0, 8.0, 7.0, 11.0),
    (4, 9, 8.0, 3.0, 7.0, 11.0),
]
FALL = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.symbol AS symbolL, A.price AS initPriceL, LAST(B.price) AS minPriceL
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
  PATTERN (A B+) DEFINE B AS B.price < PREV(B.price))"""
TICK = """MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.symbol AS symbolA, A.price AS initPriceA, LAST(D.price) AS maxPriceA
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH
  PATTERN (A B+ C* D+)
  DEFINE B AS (B.price < PREV(B.price)) C AS (C.price >= PREV(C.price) AND C.price <= A.price)
    D AS (D.price > PREV(D.price) AND D.price > A.price))"""
VALUES = "initPriceL, minPriceL, initPriceA, maxPriceA"


def ticks(symbol: str = "X", prices: list[int] = PRICES) -> pa.Table:
    columns: dict[str, Any] = {"symbol": [symbol] * len(prices), "ts": range(len(prices)), "price": map(float, prices)}
    return pa.table({name: list(values) for name, values in columns.items()})


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def run(text: str, **tables: pa.Table) -> pa.Table:
    return episode.sql_local(text, **tables or {"live": ticks(), "archive": ticks()})


@pytest.mark.parametrize("archive", ["live", "archive"])
@pytest.mark.parametrize("strategy", ["auto", "eager", "live first", "archive first"])
def test_table_1(archive: str, strategy: str) -> None:
    text = (
        f"SELECT match_start, match_end, {VALUES} FROM live {FALL}, {archive} {TICK} WHERE symbolA = symbolL RECENCY 7"
    )
    both = ticks()
    options = Options(tuning=Tuning(correlation=strategy))
    assert rows(episode.sql_local(text, options=options, **{"live": both, archive: both})) == TABLE_1


def test_the_archive_pattern_may_stand_first() -> None:
    text = f"SELECT * FROM a {TICK} AS a JOIN l {FALL} AS l ON l.symbolL = a.symbolA RECENCY 7 WHERE minPriceL > 3"
    found = run(text, a=ticks(), l=ticks())
    assert found.column_names == [
        "symbol",
        "symbolA",
        "initPriceA",
        "maxPriceA",
        "symbol",
        "symbolL",
        "initPriceL",
        "minPriceL",
    ]
    assert found.num_rows == 3


def test_names_of_columns() -> None:
    text = (
        f"SELECT l.symbol, a.*, a.high - l.low AS d FROM t {FALL} AS l (symbol, s, high, low), "
        f"t {TICK} a (symbol, s, low, high) WHERE l.symbol = a.symbol AND a.high > l.low + 1 AND RECENCY = 7"
    )
    found = run(text, t=ticks())
    assert found.column_names == ["symbol", "symbol", "s", "low", "high", "d"]
    assert sorted(found.column("d").to_pylist()) == [3.0, 4.0, 8.0]


def test_keys_are_not_mixed() -> None:
    table = pa.concat_tables([ticks("X"), ticks("Y")])
    same = f"SELECT symbolL, symbolA FROM t {FALL}, t {TICK} WHERE symbolA = symbolL AND RECENCY = 7"
    assert sorted(set(rows(run(same, t=table)))) == [("X", "X"), ("Y", "Y")]
    assert run(same, t=table).num_rows == 10
    every = f"SELECT symbolL, symbolA FROM t {FALL}, t {TICK} WHERE RECENCY = 7"
    assert run(every, t=table).num_rows == 20


LIVE = FALL.replace("A.symbol AS symbolL", "A.symbol AS symbol_of, FIRST(ts) AS s, LAST(ts) AS e")
ARCHIVE = TICK.replace("A.symbol AS symbolA", "A.symbol AS symbol_of, FIRST(ts) AS s, LAST(ts) AS e")
LANGUAGES = {
    "rows": f"t {ARCHIVE}",
    "events": "EVENTS (FROM t PARTITION BY symbol ORDER BY ts PATTERN A; B WHERE A.price < B.price WITHIN 2 "
    "RETURN A.symbol AS symbol_of, A.ts AS s, B.ts AS e)",
    "situations": "SITUATIONS (FROM t PARTITION BY symbol ORDER BY ts DEFINE H AS price > 6, L AS price <= 6 "
    "PATTERN H meets L WITHIN 5 RETURN first(H.symbol) AS symbol_of)",
}


def matches(pattern: str, table: pa.Table) -> list[tuple[Any, ...]]:
    """(symbol, start, end) of every match of a pattern alone."""
    found = run(f"SELECT * FROM {pattern} AS p", t=table)
    end = "detected_at" if "detected_at" in found.column_names else "e"
    start = "match_start" if end == "detected_at" else "s"
    return [(row["symbol_of"], row[start], row[end]) for row in found.to_pylist()]


@pytest.mark.parametrize("live", ["rows", "events", "situations"])
@pytest.mark.parametrize("archive", ["rows", "events", "situations"])
def test_either_pattern_may_be_of_any_language(live: str, archive: str) -> None:
    """By nested loops over the matches of either alone."""
    draw = random.Random(5)
    table = pa.concat_tables([ticks("X", [draw.randrange(12) for _ in range(40)]), ticks("Y")])
    texts = [f"t {LIVE}" if live == "rows" else LANGUAGES[live], LANGUAGES[archive]]
    expected = [
        (s, a_s, l_e)
        for s, l_s, l_e in matches(texts[0], table)
        for t, a_s, a_e in matches(texts[1], table)
        if s == t and a_s < l_s and a_e < l_e and l_e - a_s <= 5
    ]
    text = (
        f"SELECT l.symbol_of, {'a.match_start' if archive == 'situations' else 'a.s'} AS s, "
        f"{'l.detected_at' if live == 'situations' else 'l.e'} AS e FROM {texts[0]} AS l, {texts[1]} AS a "
        "WHERE l.symbol_of = a.symbol_of AND RECENCY = 5"
    )
    assert expected
    assert rows(run(text, t=table)) == sorted(expected)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recent_buffer": 5}, "there is none here"),
        ({"correlation": "eager", "result_cache": False}, "all are found without being asked for"),
        ({"correlation": "late"}, "one of 'auto', 'eager', 'live first', 'archive first' is needed"),
        ({"result_cache": 1}, "True or False is needed"),
        ({"recent_buffer": 0}, "a whole number of at least 1"),
        ({"shards": 5}, "is for Spark"),
        ({"detect": "complete"}, "has no meaning"),
    ],
)
def test_options(given: dict[str, Any], message: str) -> None:
    text = f"SELECT 1 FROM t {FALL}, t {TICK} WHERE symbolA = symbolL AND RECENCY = 7"
    with pytest.raises(EpisodeAnalysisError, match=message):
        episode.sql_local(text, t=ticks(), options=grouped(**given))


def test_options_of_correlations_are_for_correlations() -> None:
    with pytest.raises(EpisodeAnalysisError, match="has no meaning for a row pattern"):
        episode.sql_local(
            f"SELECT 1 FROM t {FALL}", t=ticks(), options=Options(tuning=Tuning(correlation="live first"))
        )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            f"SELECT nothing FROM t {FALL}, t {TICK} WHERE RECENCY = 7",
            EpisodeAnalysisError,
            "There is no column nothing",
        ),
        (f"SELECT symbol FROM t {FALL}, t {TICK} WHERE RECENCY = 7", EpisodeAnalysisError, "column of both patterns"),
        (f"SELECT 1 FROM t {FALL}, t {TICK} WHERE RECENCY = 7 LIMIT 1", EpisodeUnsupportedError, "LIMIT after"),
        (f"SELECT soundex(symbolL) FROM t {FALL}, t {TICK} WHERE RECENCY = 7", EpisodeUnsupportedError, "needs Spark"),
        (f"SELECT 1 FROM t {FALL}, u {TICK} WHERE RECENCY = 7", EpisodeAnalysisError, "There is no table u"),
        (f"SELECT 1 FROM t {FALL}, t {TICK} WHERE RECENCY = 7 seconds", EpisodeAnalysisError, "is a number"),
        (f"SELECT 1 FROM t {FALL}, t {TICK} WHERE minPriceL AND RECENCY = 7", EpisodeAnalysisError, "true or false"),
    ],
)
def test_what_is_refused(text: str, kind: type[EpisodeError], message: str) -> None:
    with pytest.raises(kind, match=message):
        run(text, t=ticks())


def test_timestamps_parameters_and_order() -> None:
    """A duration as a parameter; ORDERED gives pairs by start, then by end."""
    moments = pa.array([1_000_000 * at for at in range(len(PRICES))], pa.timestamp("us", "UTC"))
    table = ticks().set_column(1, "ts", moments)
    where = "WHERE symbolA = symbolL AND minPriceL > :least AND RECENCY = :p ORDERED"
    text = f"SELECT unix_seconds(match_start) AS s, unix_seconds(match_end) AS e FROM t {FALL}, t {TICK} {where}"
    found = episode.sql_local(text, {"p": "7 seconds", "least": 0}, t=table)
    assert [tuple(row.values()) for row in found.to_pylist()] == [row[:2] for row in TABLE_1]


def test_a_row_pattern_alone() -> None:
    found = episode.match_local(ticks(), FALL)
    assert found.column_names == ["symbol", "symbolL", "initPriceL", "minPriceL"]
    assert found.num_rows == 5
    with pytest.raises(EpisodeError, match="Expected nothing after MATCH_RECOGNIZE"):
        episode.match_local(ticks(), f"{FALL} AS x")
    with pytest.raises(EpisodeAnalysisError, match="time='ts' has no meaning for a row pattern"):
        episode.match_local(ticks(), FALL, time="ts")
