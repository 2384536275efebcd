"""One live task over a store: equal to a table, stopped, started again, late events, errors."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.live.checkpoint import open_query, request_stop, withdraw_stop
from episode.live.inputs import StoreInputs, StreamRead
from episode.live.progress import LatencyHistogram, read_progress
from episode.live.protocol import TaskOptions
from episode.live.sinks import FileDirectory, FilesOutput
from episode.live.task import LiveTask
from episode.matchers.stream_shard import ShardSettings
from episode.store.catalog import Catalog
from episode.store.stream import StreamStore
from tests.support.live import PULL, Killed, LiveQuery, Operations, in_words, pieces, with_options
from tests.support.rows import run_whole, spec_of

CLAUSE = (
    "PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n "
    "PATTERN (A B+ C) DEFINE B AS v > PREV(v), C AS v < PREV(v)"
)
END = 10_000
NAMES = {"a": 7, "b": 3}


def row(ts: int, v: int, k: int = 1, s: str = "a") -> dict[str, Any]:
    return {"k": k, "ts": ts, "v": v, "f": 0.0, "s": s}


def rows_of(count: int, keys: int = 3) -> list[dict[str, Any]]:
    return [row(i, (i * 7) % 5, k=i % keys) for i in range(count)]


def ended(query: LiveQuery) -> None:
    query.append([row(END + 100, 0)])


def expected(query: LiveQuery, rows: list[dict[str, Any]]) -> list[str]:
    return in_words(run_whole(query.spec, rows))


@pytest.mark.parametrize("handling", ["pull", "push", "adaptive"])
@pytest.mark.parametrize("tasks", [1, 3])
def test_a_live_query_equals_a_table(tmp_path: Path, handling: Any, tasks: int) -> None:
    options = TaskOptions(handling=handling, step_rows=16, batch_rows=8)
    query = LiveQuery(
        tmp_path, spec_of(CLAUSE), key="k", tasks=tasks, delay=3, settings=ShardSettings(end=END), options=options
    )
    rows = rows_of(300)
    for part in pieces(rows, range(0, 300, 7)):
        query.append(part)
    ended(query)
    words = query.run()
    assert query.matches() == expected(query, rows)
    assert sum(word["events"] for word in words) == 301
    assert sum(word["matches"] for word in words) == len(query.matches())
    assert all(word["ended"] and word["state_rows"] == 0 for word in words)
    again = query.run()
    assert query.matches() == expected(query, rows)
    assert [word["events"] for word in again] == [word["events"] for word in words]


def test_it_stops_and_goes_on(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END))
    rows = rows_of(100)
    query.append(rows[:50])
    working = query.task().work()
    next(working)
    request_stop(query.checkpoint)
    last = list(working)[-1]
    assert last["position"] == {"In": 1}
    assert not last["ended"]
    query.append(rows[50:])
    ended(query)
    assert query.task().run()["position"] == {"In": 1}  # it shall not run
    withdraw_stop(query.checkpoint)
    assert query.task().run()["replayed"] == 0
    assert query.matches() == expected(query, rows)


def test_kills_at_every_file_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = Operations(monkeypatch)
    rows = rows_of(60)
    number = 0
    reached: set[str] = set()
    while True:
        number += 1
        directory = tmp_path / str(number)
        options = with_options(PULL, step_rows=6, snapshot_every=0.0)
        query = LiveQuery(
            directory, spec_of(CLAUSE), key="k", delay=2, settings=ShardSettings(end=END), options=options, sync="true"
        )
        for part in pieces(rows, range(0, 60, 9)):
            query.append(part)
        ended(query)
        task = query.task()
        operations.reset(number)
        try:
            task.run()
        except Killed:
            reached.add(operations.seen[-1])
        else:
            assert operations.count < number
            break
        operations.reset(None)
        query.run()
        assert query.matches() == expected(query, rows), number
    assert number > 40
    assert {"fsync", "rename", "replace"} <= reached


def test_matches_that_are_out_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between an append and the next snapshot, again and again."""
    query = LiveQuery(
        tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END), options=with_options(PULL, step_rows=1)
    )
    rows = rows_of(80)
    for part in pieces(rows, range(0, 80, 4)):
        query.append(part)
    ended(query)
    replayed = []
    for steps in (5, 9, 14):
        task = query.task()
        left = [steps]

        def write(*arguments: Any, real: Any = task._step, left: list[int] = left) -> None:
            real(*arguments)
            left[0] -= 1
            if left[0] == 0:
                raise Killed

        monkeypatch.setattr(task, "_step", write)
        with pytest.raises(Killed):
            task.run()
        replayed.append(task.progress.replayed)
    assert query.task().run()["ended"]
    assert query.matches() == expected(query, rows)
    assert replayed[0] == 0
    assert replayed[1] > 0


def test_late_events_are_counted_and_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = tmp_path / "late"
    options = with_options(PULL, late_path=str(late), snapshot_every=0.0, step_rows=1)
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", delay=2, settings=ShardSettings(end=END), options=options)
    query.append([row(1, 1), row(10, 2)])
    query.append([row(8, 1), row(7, 1), row(9, 1), row(3, 7)])  # 8 is as late as may be
    query.append([row(9, 4), row(5, 4)])
    ended(query)
    operations = Operations(monkeypatch)
    number = 0
    while True:
        number += 1
        operations.reset(number)
        try:
            done = query.task().run()
        except Killed:
            continue
        break
    assert done["late"] == 3
    found = pa.concat_tables([pq.read_table(path) for path in sorted(late.glob("late-*.parquet"))])
    assert sorted(found.column("ts").to_pylist()) == [3, 5, 7]


def test_late_events_of_a_snapshot_that_was_not_completed(tmp_path: Path) -> None:
    """A task that was killed has written a file, and the next one takes its snapshots at other moments."""
    options = with_options(PULL, late_path=str(tmp_path / "late"), snapshot_every=0.0, step_rows=1)
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END), options=options)
    for commit in ([row(10, 1)], [row(11, 2)], [row(12, 3)], [row(3, 7)], [row(13, 1)]):
        query.append(commit)
    ended(query)
    stale = f"late-{query.description().query}-00000-{1:012d}.parquet"
    FileDirectory(str(tmp_path / "late")).write(stale, pa.table({"ts": [3]}), {})
    assert query.run()[0]["late"] == 1
    found = [pq.read_table(path).column("ts").to_pylist() for path in (tmp_path / "late").iterdir()]
    assert found == [[3]]


def test_equal_times_in_two_commits_are_in_time(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END))
    rows = [row(1, 1), row(2, 2), row(2, 3), row(3, 0)]
    for one in rows:
        query.append([one])
    ended(query)
    assert query.run()[0]["late"] == 0
    assert query.matches() == expected(query, rows) != []


def test_lateness_does_not_depend_on_slices(tmp_path: Path) -> None:
    found = set()
    for step_rows in (1, 3, 1000):
        options = with_options(PULL, step_rows=step_rows)
        query = LiveQuery(
            tmp_path / str(step_rows),
            spec_of(CLAUSE),
            key="k",
            delay=2,
            settings=ShardSettings(end=END),
            options=options,
        )
        for i in range(0, 60, 3):
            query.append([row(i, 1), row(max(0, i - 6), 2), row(max(0, i - 2), 0)])
        ended(query)
        [word] = query.run()
        found.add((word["late"], tuple(query.matches())))
    assert len(found) == 1
    assert found.pop()[0] == 18


def test_matches_into_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = Operations(monkeypatch)
    rows = rows_of(60)
    for number in range(1, 100, 2):
        directory = tmp_path / str(number)
        options = with_options(PULL, step_rows=6, snapshot_every=0.0)
        query = LiveQuery(directory, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END), options=options)
        for part in pieces(rows, range(0, 60, 9)):
            query.append(part)
        ended(query)

        def run(query: LiveQuery = query, directory: Path = directory) -> None:
            LiveTask(replace(query.description(), sink=FilesOutput(str(directory / "out")))).run()

        operations.reset(number)
        try:
            run()
        except Killed:
            operations.reset(None)
            run()
        else:
            break
        texts = pq.read_table(directory / "out").column("row").to_pylist()
        assert sorted(texts) == expected(query, rows)
        assert not list((directory / "out").glob("_*"))
    assert number > 20


def test_checkpoints_that_do_not_fit(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", tasks=2, settings=ShardSettings(end=END))
    query.append(rows_of(30))
    ended(query)
    query.run()
    with pytest.raises(EpisodeAnalysisError, match="belongs to another query"):
        open_query(query.checkpoint, "other", 2)
    with pytest.raises(EpisodeAnalysisError, match="written by 2 tasks, and this query has 3") as error:
        open_query(query.checkpoint, query.spec.fingerprint, 3)
    assert "tasks=2" in str(error.value)
    manifest = Path(query.checkpoint, "tasks", "0", "state.json")
    text = manifest.read_bytes()
    manifest.write_bytes(text.replace(b'"position"', b'"positiom"'))
    with pytest.raises(EpisodeDataError, match="corrupt: its checksum is wrong"):
        query.task().run()
    manifest.write_bytes(text)
    Path(query.checkpoint, "query.json").write_text("{")
    with pytest.raises(EpisodeDataError, match=r"query\.json is corrupt"):
        query.task()


def test_state_that_is_damaged_or_missing(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", options=with_options(PULL, snapshot_every=0.0))
    query.append(rows_of(31))
    working = query.task().work()
    next(working)
    request_stop(query.checkpoint)
    list(working)
    withdraw_stop(query.checkpoint)
    files = sorted(Path(query.checkpoint, "tasks", "0").glob("chunks-*"))
    assert files
    data = files[-1].read_bytes()
    files[-1].write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(EpisodeDataError, match=r"the checksum of .* is wrong"):
        query.task().run()
    files[-1].unlink()
    with pytest.raises(EpisodeDataError, match="it is missing"):
        query.task().run()


def test_an_output_that_was_created_again(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END))
    query.append(rows_of(30))
    ended(query)
    query.run()
    for path in query.output.log.directory.iterdir():
        path.unlink()
    with pytest.raises(EpisodeDataError, match="The output has lost matches"):
        query.task().run()


def test_a_second_process_waits_for_the_first(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END))
    rows = rows_of(40)
    query.append(rows)
    first = query.task().work()
    next(first)
    second = threading.Thread(target=query.task().run)
    second.start()
    ended(query)
    assert list(first)[-1]["ended"]
    second.join(20)
    assert not second.is_alive()
    assert query.matches() == expected(query, rows)


def test_progress_is_a_file(tmp_path: Path) -> None:
    query = LiveQuery(tmp_path, spec_of(CLAUSE), key="k", settings=ShardSettings(end=END))
    query.append(rows_of(60))
    ended(query)
    query.run()
    [found] = read_progress(query.checkpoint, 1)
    assert found["events"] == 61
    assert found["position"] == {"In": 2}
    assert found["unread"] == 0
    assert len(found["last_matches"]) == min(10, len(query.matches()))
    latencies = LatencyHistogram(found["latency"]["buckets"])
    assert latencies.counts.sum() == len(query.matches())
    assert found["latency"]["p50"] > 0
    json.dumps(found)


def test_snapshots_stay_small(tmp_path: Path) -> None:
    """Many snapshots of a state that is always about as large: what is kept does not grow."""
    text = CLAUSE.replace("DEFINE", "WITHIN 50 DEFINE")
    options = with_options(PULL, snapshot_every=0.0, step_rows=1)
    query = LiveQuery(tmp_path, spec_of(text), key="k", delay=20, settings=ShardSettings(end=END), options=options)
    for i in range(150):
        query.append([row(4 * i + j, (i + j) % 5, k=j % 2) for j in range(4)])
    ended(query)
    sizes, files = [], []
    task = query.task()
    real = task.checkpoint.save

    def save(*arguments: Any) -> None:
        real(*arguments)
        sizes.append(task.checkpoint.size)
        files.append(len(list(task.checkpoint.directory.iterdir())))

    task.checkpoint.save = save  # type: ignore[method-assign]
    import episode.live.checkpoint as module

    before, module.SMALL = module.SMALL, 0
    try:
        task.run()
    finally:
        module.SMALL = before
    assert len(sizes) > 100
    assert max(sizes[100:-2]) <= 1.5 * max(sizes[20:60])
    assert max(files[100:]) <= 1.5 * max(files[20:60])
    assert query.matches()


def test_histograms() -> None:
    histogram = LatencyHistogram()
    assert histogram.percentile(0.5) is None
    for milliseconds in range(1, 1001):
        histogram.add(milliseconds / 1000)
    assert histogram.percentile(0.5) == pytest.approx(0.5, rel=0.1)
    assert histogram.percentile(0.99) == pytest.approx(0.99, rel=0.1)
    histogram.include(LatencyHistogram(histogram.as_dict()))
    assert histogram.counts.sum() == 2000
    histogram.add(1e9)
    assert histogram.counts[-1] == 1


# ---- several streams -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """The events of one of two streams say of which."""

    name: str

    def __call__(self, table: pa.Table) -> pa.Table:
        label = pa.array([self.name] * table.num_rows, pa.string())
        return table.set_column(table.column_names.index("s"), "s", label)


def test_two_streams_with_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of the same time are in order of the streams, however they come; killed, it goes on as if it had not."""
    text = CLAUSE.replace("count(*) AS n", "count(*) AS n, FIRST(s) AS s0, LAST(s) AS s1")
    operations = Operations(monkeypatch)
    rows = {name: [row(i // 2, (i * factor) % 5, k=i % 2, s=name) for i in range(60)] for name, factor in NAMES.items()}
    for number in (1, 5, 8, 13, 19, 24, 31, 37, 45):
        directory = tmp_path / str(number)
        options = with_options(PULL, step_rows=4, snapshot_every=0.0)
        query = LiveQuery(directory, spec_of(text), key="k", delay=1, settings=ShardSettings(end=END), options=options)
        other = StreamStore(
            Catalog(directory / "catalog").create(replace(query.declaration, name="Other", location=""))
        )
        reads = tuple(
            StreamRead(store.declaration, ("k", "ts", "v", "f", "s"), Labelled(name))
            for store, name in zip((query.input, other), NAMES, strict=True)
        )
        for store, name in zip((query.input, other), NAMES, strict=True):
            for part in pieces([*rows[name], row(END + 9, 0)], range(0, 60, 7 if name == "a" else 11)):
                store.append(pa.Table.from_pylist(list(part), schema=store.schema))
        description = replace(query.description(), input=StoreInputs(reads))
        operations.reset(number)
        killed = False
        try:
            LiveTask(description).run()
        except Killed:
            killed = True
            operations.reset(None)
            assert LiveTask(description).run()["events"] <= 122
        assert killed
        together = sorted([*rows["a"], *rows["b"]], key=lambda one: (one["ts"], one["s"]))
        assert query.matches() == expected(query, together)


def test_a_producer_that_is_too_fast(tmp_path: Path) -> None:
    """All events are there before the task begins: what it holds stays small, and nothing is lost."""
    held: dict[str, list[int]] = {"push": [], "adaptive": [], "pull": []}
    found = {}
    for handling in held:
        options = TaskOptions(handling=handling, step_rows=500, batch_rows=250, max_unprocessed=2_000)  # type: ignore[arg-type]
        text = CLAUSE.replace("DEFINE", "WITHIN 200 DEFINE")
        query = LiveQuery(
            tmp_path / handling, spec_of(text), key="k", settings=ShardSettings(end=10**9), options=options
        )
        for begin in range(0, 100_000, 1_000):
            numbers = np.arange(begin, begin + 1_000)
            query.append(
                pa.table(
                    {
                        "k": pa.array(numbers % 50, pa.int32()),
                        "ts": numbers,
                        "v": pa.array((numbers * 7919) % 1009, pa.int32()),
                        "f": np.zeros(1_000),
                        "s": pa.array(["a"] * 1_000),
                    },
                    schema=query.input.schema,
                )
            )
        query.append([row(10**9 + 1, 0)])
        task = query.task()
        real = task._step

        def step(*arguments: Any, real: Any = real, kept: list[int] = held[handling]) -> None:
            real(*arguments)
            kept.append(pa.total_allocated_bytes())

        task._step = step  # type: ignore[method-assign]
        word = task.run()
        assert word["events"] == 100_001
        assert word["held_most"] <= 2_000 + 1_000 + 500 + 50 * 200
        found[handling] = query.matches()
        quarter = len(held[handling]) // 4
        assert max(held[handling][-quarter:]) <= 1.5 * max(held[handling][quarter : 2 * quarter])
    assert found["push"] == found["pull"] == found["adaptive"]
    assert len(found["pull"]) > 5_000
