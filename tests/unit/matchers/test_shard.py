"""One shard through a matcher: in memory, spilled, and one giant key in pieces; always the same rows in order."""

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.protocol import END_OF_TIME, EventBatch, InputOrder, OrderKey
from episode.matchers.shard import run_shard

OUTPUT = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("id", pa.int64()), ("number", pa.int64())])


class Numbering:
    """Numbers the rows of each key over all feeds, so that order and completeness show; writes a log of the feeds."""

    def __init__(self, log):
        self.log = log
        self.counts = {}
        self.last = {}
        self.until = None

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        self.log.append((len(events), until))
        numbers = []
        for key, time in zip(events.key.tolist(), events.time.tolist(), strict=True):
            assert self.until is None or time > self.until, "a row came after its time was declared complete"
            assert self.last.get(key, time) <= time, "time went back within a key"
            self.last[key] = time
            self.counts[key] = self.counts.get(key, 0) + 1
            numbers.append(self.counts[key])
        self.until = until
        yield events.table.select(["k", "t", "id"]).append_column("number", pa.array(numbers, pa.int64()))

    def finish(self) -> Iterator[pa.Table]:
        self.log.append("finish")
        yield OUTPUT.empty_table()


@dataclass
class NumberingSpec:
    input_order: InputOrder
    log: list
    input_columns: tuple = ("k", "t", "id")
    output_schema: pa.Schema = OUTPUT

    def open(self):
        return Numbering(self.log)


BY_KEY = InputOrder(("k",), (OrderKey("t"),), needs_time=True)


def run(tables, order=BY_KEY, budget=1 << 30, spill=None):
    log = []
    batches = list(run_shard(NumberingSpec(order, log), iter(tables), budget, spill_directory=spill))
    return pa.Table.from_batches(batches, OUTPUT).to_pylist(), log


def expected(tables, order=BY_KEY):
    """The oracle: Python's stable sort, then numbering."""
    rows = pa.concat_tables(tables).to_pylist() if tables else []
    if order.order:
        rows.sort(key=lambda row: row["t"])
    counts, result = {}, []
    for row in rows:
        key = row["k"] if order.keys else None
        counts[key] = counts.get(key, 0) + 1
        result.append({**row, "number": counts[key]})
    return by_id(result)


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def random_tables(n, keys, times, pieces, seed=1):
    rng = np.random.default_rng(seed)
    table = pa.table({"k": rng.integers(0, keys, n), "t": rng.integers(0, times, n), "id": np.arange(n)})
    size = -(-n // pieces)
    return [table.slice(i * size, size) for i in range(pieces)]


def test_a_small_shard_is_fed_at_once():
    tables = random_tables(1000, 7, 50, 5)
    rows, log = run(tables)
    assert by_id(rows) == expected(tables)
    assert log == [(1000, END_OF_TIME), "finish"]


def test_no_rows_give_no_matches():
    assert run([]) == ([], [])
    assert run([pa.table({"k": [], "t": [], "id": []})])[0] == []


def test_a_large_shard_is_split_by_key_within_its_budget(tmp_path):
    tables = random_tables(20_000, 500, 1000, 20)
    rows, log = run(tables, budget=100_000, spill=tmp_path)
    assert by_id(rows) == expected(tables)
    feeds = [entry for entry in log if entry != "finish"]
    assert len(feeds) > 4
    assert all(until == END_OF_TIME and n * 24 <= 100_000 for n, until in feeds)
    gc.collect()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("order", [BY_KEY, InputOrder((), (OrderKey("t"),))], ids=["one key", "no keys"])
def test_a_giant_key_is_fed_in_pieces_of_bounded_size(order, tmp_path):
    tables = random_tables(20_000, 1, 15_000, 20)
    rows, log = run(tables, order, budget=100_000, spill=tmp_path)
    assert by_id(rows) == expected(tables, order)
    feeds = [entry for entry in log if entry != "finish"]
    assert log.count("finish") == 1
    assert sum(n for n, _ in feeds) == 20_000
    assert max(n for n, _ in feeds) * 24 <= 40_000
    assert feeds == sorted(feeds, key=lambda feed: feed[1])
    assert list(tmp_path.iterdir()) == []


def test_a_giant_key_among_small_ones(tmp_path):
    giant = random_tables(20_000, 1, 15_000, 10)
    small = [table.set_column(2, "id", pa.array(np.arange(2000) + 10**6)) for table in random_tables(2000, 99, 50, 1)]
    tables = giant + small
    rows, log = run(tables, budget=60_000, spill=tmp_path)
    assert by_id(rows) == expected(tables)
    assert max(n for n, *_ in log if n != "f") * 24 <= 60_000


def test_without_order_arrival_is_streamed(tmp_path):
    order = InputOrder(("k",), ())
    tables = random_tables(20_000, 1, 10, 20)
    rows, log = run(tables, order, budget=100_000, spill=tmp_path)
    assert by_id(rows) == expected(tables, order)
    assert len(log) > 10


def test_an_order_by_text_runs_in_memory():
    tables = random_tables(5000, 1, 10**6, 5)
    texts = [t.append_column("s", t["t"].cast(pa.string())) for t in tables]
    order = InputOrder(("k",), (OrderKey("s"),))
    log = []
    batches = list(run_shard(NumberingSpec(order, log), iter(texts), 20_000))
    rows = pa.Table.from_batches(batches).to_pylist()
    assert [str(row["t"]) for row in rows] == sorted(str(row["t"]) for row in rows)
    assert log == [(5000, END_OF_TIME), "finish"]


@pytest.mark.parametrize("budget", [30_000, 10**9])
def test_dictionaries_that_differ_from_table_to_table(budget):
    tables = [t.append_column("s", t["k"].cast(pa.string())) for t in random_tables(4000, 40, 100, 8)]
    mixed = [t.set_column(3, "s", t["s"].dictionary_encode()) if i % 3 else t for i, t in enumerate(tables)]
    order = InputOrder(("s",), (OrderKey("t"),))
    rows, _ = run(mixed, order, budget)
    assert by_id(rows) == by_id(run(tables, order)[0])


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 400),
    keys=st.integers(1, 20),
    times=st.sampled_from([1, 5, 10_000]),
    pieces=st.integers(1, 6),
    budget=st.sampled_from([200, 1000, 5000, 10**6]),
    ordered=st.booleans(),
    keyed=st.booleans(),
)
def test_the_budget_never_changes_the_result(n, keys, times, pieces, budget, ordered, keyed):
    tables = random_tables(n, keys, times, pieces, seed=n)
    order = InputOrder(("k",) if keyed else (), (OrderKey("t"),) if ordered else ())
    rows, _ = run(tables, order, budget)
    assert by_id(rows) == expected(tables, order)


def test_files_are_removed_when_the_reader_stops_early_or_the_matcher_fails(tmp_path):
    tables = random_tables(20_000, 500, 1000, 20)
    batches = run_shard(NumberingSpec(BY_KEY, []), iter(tables), 100_000, spill_directory=tmp_path)
    next(batches)
    assert list(tmp_path.iterdir()) != []
    batches.close()
    assert list(tmp_path.iterdir()) == []
    broken = [*tables, pa.table({"k": [1], "t": pa.array([None], pa.int64()), "id": [-1]})]
    with pytest.raises(EpisodeDataError, match="column t is null"):
        run(broken, budget=100_000, spill=tmp_path)
    assert list(tmp_path.iterdir()) == []
