"""Readers of stream stores, without a session: who reads what, how far a micro-batch goes, and envelopes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from episode.errors import EpisodeAnalysisError
from episode.matchers.envelope import Packing, unpack
from episode.matchers.protocol import InputOrder, OrderKey
from episode.spark.stores import reading as store_reading
from episode.spark.stores.reading import EnvelopeOptions, LanePart, StoreReader, StoreStreamReader
from episode.spark.stores.source import EpisodeSource, declared_schema
from episode.store.catalog import Catalog, declare
from episode.store.segment import CorruptSegment
from episode.store.stream import StreamStore, open_store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamStore:
    """Three commits, of 1,000, 100 and 100 events; a task reads about 300."""
    monkeypatch.setattr(store_reading, "TASK_EVENTS", 300)
    declaration = declare("s", "k INT, ts BIGINT, tags ARRAY<STRING>", time="ts", key="k", delay=5, archive="a")
    store = open_store(Catalog(tmp_path).create(declaration))
    for first, count in ((0, 1000), (1000, 100), (1100, 100)):
        store.append(events(first, count))
    return store


def events(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    tags = [[f"t{n % 3}"] if n % 5 else None for n in numbers]
    return pa.table({"k": pa.array([n % 11 for n in numbers], pa.int32()), "ts": list(numbers), "tags": tags})


def stream(store: StreamStore, **given: str) -> StoreStreamReader:
    return StoreStreamReader(store.declaration, given, declared_schema(store.declaration))


def rows(batches: list[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def read(reader: StoreReader | StoreStreamReader, partitions: Any) -> list[list[tuple[Any, ...]]]:
    return [rows(list(reader.read(partition))) for partition in partitions]


def test_lanes_of_a_large_commit_are_read_apart_and_small_commits_together(store: StreamStore) -> None:
    reader = stream(store)
    partitions = reader.partitions({"commit": 0}, {"commit": 3})
    assert len(partitions) >= 3
    assert any(isinstance(piece, LanePart) for piece in partitions[0].pieces)
    found = read(reader, partitions)
    everything = [row for part in found for row in part]
    assert Counter(map(repr, everything)) == Counter(map(repr, rows(events(0, 1200).to_batches())))
    for key in range(11):
        times = [ts for k, ts, _ in everything if k == key]
        assert times == sorted(times)


def test_how_far_a_micro_batch_goes(store: StreamStore) -> None:
    reader = stream(store, maxeventspertrigger="150")
    assert reader.initialOffset() == {"commit": 0}
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(150)
    assert reader.latestOffset({"commit": 0}, limit) == {"commit": 1}  # a commit is not cut
    assert reader.latestOffset({"commit": 1}, limit) == {"commit": 2}
    assert reader.latestOffset({"commit": 1}, ReadAllAvailable()) == {"commit": 3}
    assert reader.latestOffset({"commit": 3}, limit) == {"commit": 3}
    assert reader.partitions({"commit": 3}, {"commit": 3}) == []
    reader.prepareForTriggerAvailableNow()
    store.append(events(1200, 10))
    assert reader.latestOffset({"commit": 1}, ReadAllAvailable()) == {"commit": 3}
    assert stream(store).latestOffset({"commit": 1}, ReadAllAvailable()) == {"commit": 4}
    assert stream(store, startingposition="latest").initialOffset() == {"commit": 4}
    assert stream(store, startingposition="2").initialOffset() == {"commit": 2}


def test_a_table_is_the_archive_and_what_is_not_archived(store: StreamStore) -> None:
    store.archive()
    store.append(events(1200, 50))
    reader = StoreReader(store.declaration, {}, declared_schema(store.declaration))
    found = read(reader, reader.partitions())
    assert Counter(repr(row) for part in found for row in part) == Counter(
        map(repr, rows(events(0, 1250).to_batches()))
    )


def test_envelopes_hold_the_events(store: StreamStore) -> None:
    packing = Packing(InputOrder(("key",), (OrderKey("ts"),)), 4)
    how = EnvelopeOptions((("k", "key"), ("ts", "ts")), packing, call=-1)
    reader = stream(store, envelopes=how.as_option())
    partitions = reader.partitions({"commit": 0}, {"commit": 3})
    found: Counter[tuple[int, int]] = Counter()
    for partition in partitions:
        *batches, called = list(reader.read(partition))
        assert called.column("shard").to_pylist() == [-1]
        for _, table in unpack(batches):
            found += Counter(zip(*table.to_pydict().values(), strict=True))
    assert found == Counter((row[0], row[1]) for row in rows(events(0, 1200).to_batches()))


def test_corrupt_segments_are_left_out_on_request(store: StreamStore) -> None:
    path = store.log.path(2)
    path.write_bytes(path.read_bytes()[:-10])
    careful = stream(store)
    with pytest.raises(CorruptSegment):
        read(careful, careful.partitions({"commit": 0}, {"commit": 3}))
    lenient = stream(store, skipcorrupt="true")
    with pytest.warns(match="is left out"):
        found = read(lenient, lenient.partitions({"commit": 0}, {"commit": 3}))
    assert sum(map(len, found)) == 1100


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"maxEventsPerTrigger": "0"}, "a number of at least 1"),
        ({"startingPosition": "yesterday"}, "earliest, latest or the number of a commit"),
        ({"skipCorrupt": "yes"}, "true or false"),
        ({"maxRows": "5"}, "There is no option maxrows here"),
        ({"stream": ""}, "Which stream"),
    ],
)
def test_options_that_are_wrong(store: StreamStore, tmp_path: Path, given: dict[str, str], message: str) -> None:
    source = EpisodeSource({"catalog": str(tmp_path), "stream": "s", **given})
    with pytest.raises(EpisodeAnalysisError, match=message):
        source.streamReader(declared_schema(store.declaration))
