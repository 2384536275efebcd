"""A query measured in process: sizes and counts are exact, times are only there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.queries.language import Given
from episode.sizing.answer import Demand, number, seconds
from episode.sizing.measuring import COLUMNS, QUERY, SizingRequest, held_rows, measure_query, snapshot_cost
from episode.sizing.profile import EVENTS, ROWS, SITUATIONS, QueryProfile, bind_to, read_pattern
from episode.sizing.samples import generate_rows, read_columns, read_sample
from tests.unit.sizing.fixed import constants

DEMAND = Demand(1e5, 100, window=60.0)
WAITS = """\
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES A.price AS p
  PATTERN (A B*? C) WITHIN 2 seconds DEFINE C AS C.price < -1000)"""
FALLS = """\
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY key ORDER BY ts MEASURES A.price AS p AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B C) WITHIN 2 seconds DEFINE B AS price < PREV(price), C AS price < PREV(price))"""
EVENT = "FROM t PARTITION BY key ORDER BY ts PATTERN T1; T2 WHERE T1.price < 100 AND T2.price > 101 WITHIN 1 second"
SITUATION = (
    "FROM t PARTITION BY key ORDER BY ts DEFINE A AS price > 101, B AS price < 99 PATTERN A before B WITHIN 1 second"
)


def ticks(rows: int = 20_000, keys: int = 50) -> pa.Table:
    return generate_rows(read_columns(COLUMNS), "", ("key",), 10_000.0, keys, rows)


def profile_of(text: str, table: pa.Table, given: Given | None = None) -> QueryProfile:
    query = read_pattern(text)
    return measure_query(bind_to(query, table, given or Given()), query.language.name, "a test", runs=1)


@pytest.mark.parametrize(("text", "language"), [(QUERY, ROWS), (EVENT, EVENTS), (SITUATION, SITUATIONS)])
def test_every_language_is_measured(text: str, language: str) -> None:
    table = ticks()
    found = profile_of(text, table)
    assert (found.language, found.rows, found.row_bytes, found.keys) == (language, 20_000, 20.0, 50)
    assert found.matches == episode.sql_local(text, tables=_tables(text, table)).num_rows / 20_000
    assert 0 < found.passing <= 1
    assert found.hottest == pytest.approx(1 / 50, rel=0.3)
    assert 0 < found.envelope_bytes < 30
    assert 0 < found.wire_share <= 1.1
    assert min(found.scan, found.pack, found.order, found.match) >= 0


def _tables(text: str, table: pa.Table) -> dict[str, pa.Table]:
    return {"ticks" if "FROM ticks" in text else "t": table}


def test_a_screen_leaves_rows_out() -> None:
    table = ticks()
    price = table["price"].to_numpy()
    kept = np.count_nonzero((price < 90) | (price > 110)) / len(price)
    found = profile_of(EVENT.replace("< 100", "< 90").replace("> 101", "> 110"), table)
    assert found.passing == pytest.approx(kept, abs=0.01)


def test_a_screen_may_leave_out_all_rows() -> None:
    found = profile_of(EVENT.replace("< 100", "< -1000").replace("> 101", "< -1000"), ticks())
    assert (found.passing, found.matches, found.envelope_bytes, found.held.rows) == (0, 0, 0, 0)


def test_what_waits_for_its_window_grows_with_the_rate() -> None:
    table = ticks(40_000)  # of 4 s
    waits = held_rows(bind_to(read_pattern(WAITS), table, Given()), 2.0)
    falls = held_rows(bind_to(read_pattern(FALLS), table, Given()), 2.0)
    assert waits.elasticity == pytest.approx(1.0, abs=0.15)
    assert waits.rows == pytest.approx(waits.in_window, rel=0.3)
    assert falls.elasticity < 0.2
    assert falls.rows < 3
    assert waits.bytes > 8
    assert snapshot_cost(bind_to(read_pattern(WAITS), table, Given())) >= 0


def test_without_event_time_nothing_is_known_of_the_state() -> None:
    text = FALLS.replace("ORDER BY ts", "ORDER BY name").replace("WITHIN 2 seconds ", "")
    table = ticks().append_column("name", pa.array(np.arange(20_000).astype(str)))
    found = profile_of(text, table)
    assert not found.held.measured
    assert found.bounded  # three rows, whatever the time


def test_nothing_bounds_a_match() -> None:
    text = QUERY.replace("PARTITION BY key ", "")
    found = profile_of(text, ticks())
    assert (found.keyed, found.bounded, found.within) == (False, False, None)


# ---- samples ---------------------------------------------------------------------------------------------------


def test_samples_are_read_from_files(tmp_path: Path) -> None:
    table = ticks(3_000)
    (tmp_path / "parts").mkdir()
    for part in range(3):
        pq.write_table(table.slice(part * 1_000, 1_000), tmp_path / "parts" / f"{part}.parquet")
    assert read_sample(str(tmp_path / "parts")).equals(table.combine_chunks())
    assert read_sample(str(tmp_path / "parts"), 1_500).num_rows == 1_500
    csv.write_csv(table, tmp_path / "t.csv")
    assert read_sample(str(tmp_path / "t.csv")).num_rows == 3_000


def test_samples_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(EpisodeAnalysisError, match="cannot be read as parquet"):
        read_sample(str(tmp_path / "bad.parquet"))
    with pytest.raises(EpisodeAnalysisError, match="there are no files"):
        read_sample(str(tmp_path / "nothing"))
    with pytest.raises(EpisodeUnsupportedError, match="of this machine"):
        read_sample("s3://bucket/x")


def test_columns() -> None:
    assert read_columns("a bigint, `b c` STRING").equals(pa.schema([("a", pa.int64()), ("b c", pa.string())]))
    for text, said in (
        ("a", "Expected a type"),
        ("a int b int", "Expected ','"),
        ("1 int", "Expected the name of a column"),
        ("a array<int>", "not made up"),
    ):
        with pytest.raises(EpisodeError, match=said):
            read_columns(text)


def test_made_up_rows_fit_their_columns() -> None:
    schema = read_columns(
        "k string, ts timestamp, d date, n timestamp_ntz, b boolean, i tinyint, x float, kind string, m int"
    )
    table = generate_rows(schema, "kind = 'A' OR kind = 'B'", ("k",), 1000.0, 20, 5_000)
    assert table.schema == schema
    assert len(table["k"].unique()) == 20
    assert {"A", "B"} < set(table["kind"].unique().to_pylist())
    times = table["ts"].cast(pa.int64()).to_numpy()
    assert times[-1] - times[0] == pytest.approx(5e6, rel=0.01)


def test_made_up_rows_are_measured() -> None:
    found = SizingRequest(FALLS, columns=COLUMNS, rows=20_000).profile(DEMAND, constants())
    assert (found.rows, found.keys, found.within) == (20_000, 100, 2.0)


def test_a_query_that_is_not_measured() -> None:
    assert SizingRequest(EVENT).profile(DEMAND, constants()).language == EVENTS
    assert SizingRequest().profile(DEMAND, constants()).rows == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"sample": "x"}, "--sample is to measure a query"),
        ({"columns": "a int"}, "--columns is to measure a query"),
        ({"text": QUERY, "columns": "a int", "sample": "x"}, "give one of them"),
    ],
)
def test_what_does_not_go_together(asked: dict[str, str], said: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=said):
        SizingRequest(**asked)


def test_too_few_rows(tmp_path: Path) -> None:
    pq.write_table(ticks(100), tmp_path / "few.parquet")
    with pytest.raises(EpisodeAnalysisError, match="too few to measure"):
        SizingRequest(FALLS, str(tmp_path / "few.parquet")).profile(DEMAND, constants())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM t", "There is no pattern"),
        (f"SELECT * FROM ({WAITS}) UNION ALL {FALLS}", "There are 2 patterns"),
    ],
)
def test_queries_that_are_not_one_pattern(text: str, said: str) -> None:
    with pytest.raises(EpisodeUnsupportedError, match=said):
        read_pattern(text)


def test_what_needs_spark_says_what_to_do() -> None:
    text = FALLS.replace("price < PREV(price),", "levenshtein(cast(B.price AS string), 'x') > 1,")
    with pytest.raises(EpisodeUnsupportedError, match="stored constants"):
        profile_of(text, ticks())


# ---- demands -----------------------------------------------------------------------------------------------------


def test_numbers_and_durations() -> None:
    assert number("1e7", "--keys") == number("10,000,000", "--keys") == 1e7
    assert seconds("1 hour 30 minutes", "--window") == 5_400
    assert seconds("0 seconds", "--delay", positive=False) == 0


@pytest.mark.parametrize("text", ["many", "nan", "inf", "0", "-5", ""])
def test_wrong_numbers(text: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match="--keys"):
        number(text, "--keys")


@pytest.mark.parametrize("text", ["10", "soon", "10 minutes later", "0 seconds", "-1 s", "1 month", ""])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match="--window"):
        seconds(text, "--window")


@pytest.mark.parametrize("share", [0.0, 1.5, 0.0001])
def test_wrong_shares(share: float) -> None:
    with pytest.raises(EpisodeAnalysisError, match="--hot-key"):
        Demand(1e6, 1_000, hottest=share)
