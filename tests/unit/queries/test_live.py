"""Statements planned for live tasks: their matches are those of the same statement over tables; their outputs."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.live.inputs import StoreInputs
from episode.live.kafka_sink import KafkaOutput
from episode.live.protocol import TaskOptions
from episode.live.sinks import Delivery, FilesOutput, StreamOutput
from episode.live.task import LiveTask
from episode.plan.options import Options, StreamOptions
from episode.queries.live import plan_live
from episode.queries.live_plan import LivePlan
from episode.queries.live_start import (
    LiveSettings,
    checkpoint_of,
    describe_tasks,
    identity_of,
    made_for,
    output_of,
    tasks_for,
    with_partitions,
)
from episode.store.catalog import Catalog, declare
from episode.store.stream import StreamStore
from tests.support.flat_options import grouped

END = 10_000
TICKS = "symbol STRING, ts BIGINT, price DOUBLE"
FALLS = """SELECT {columns} FROM Ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS top, LAST(B.price) - 1 AS low, FIRST(ts) AS t0, LAST(ts) AS t1
    PATTERN (A B+ C) WITHIN 50 DEFINE B AS price < PREV(price), C AS price >= PREV(price))"""

COLUMNS = ["*", "low * 2 AS l, m.symbol, t1 + 1", "symbol, CASE WHEN low > 0 THEN 'a' END AS x"]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(tmp_path / "catalog")
    made.create(declare("Ticks", TICKS, time="ts", key="symbol", delay=5, archive="Old", lanes=4))
    made.create(declare("Others", TICKS, time="ts", key="symbol", delay=5, lanes=4))
    made.create(declare("A", "k BIGINT, ts BIGINT, v DOUBLE, w STRING", time="ts", key="k", lanes=4))
    made.create(declare("B", "k BIGINT, ts INT, v INT", time="ts", key="k", lanes=4))
    return made


def ticks(count: int = 120, step: int = 7) -> pa.Table:
    numbers = range(count)
    prices = [float(n * step % 5) for n in numbers]
    return pa.table({"symbol": [f"s{n % 4}" for n in numbers], "ts": list(numbers), "price": prices})


def plan(text: str, catalog: Catalog, **options: Any) -> LivePlan:
    found = plan_live(text, catalog, grouped(**options, end=END))
    return pickle.loads(pickle.dumps(found))


def run(found: LivePlan, catalog: Catalog, place: Path, events: dict[str, pa.Table], tasks: int = 1) -> pa.Table:
    """What tasks put into files."""
    for name, table in events.items():
        store = StreamStore(catalog.find(name))
        for begin in range(0, table.num_rows, 13):
            store.append(table.slice(begin, 13))
        last = table.slice(table.num_rows - 1, 1).to_pylist()[0]
        store.append(pa.Table.from_pylist([{**last, "ts": END + 100}], schema=table.schema))
    output = output_of(str(place / "found") + "/", found, catalog, "")
    options = TaskOptions(handling="pull", step_rows=10)
    for one in describe_tasks(found, output, StoreInputs(found.streams), str(place / "state"), tasks, options):
        LiveTask(one).run()
    import pyarrow.parquet as pq

    return pq.read_table(place / "found")


def same(found: pa.Table, right: pa.Table) -> None:
    assert found.schema.names == right.schema.names
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, right.to_pylist()))
    assert right.num_rows > 3


@pytest.mark.parametrize("tasks", [1, 3])
@pytest.mark.parametrize("columns", COLUMNS)
def test_a_row_pattern(catalog: Catalog, tmp_path: Path, columns: str, tasks: int) -> None:
    text = FALLS.format(columns=columns) + " m"
    found = plan(text, catalog)
    assert (found.lanes, found.reason) == (4, None)
    same(run(found, catalog, tmp_path, {"Ticks": ticks()}, tasks), episode.sql_local(text, Ticks=ticks()))


def test_a_situation_pattern(catalog: Catalog, tmp_path: Path) -> None:
    text = (
        "FROM Ticks PARTITION BY symbol ORDER BY ts DEFINE X AS price > 2, Y AS price * 2 < 3 "
        "PATTERN X meets Y; X before Y WITHIN 20 RETURN first(X.price) AS p, count(Y.price) AS n"
    )
    same(run(plan(text, catalog), catalog, tmp_path, {"Ticks": ticks()}, 2), episode.sql_local(text, Ticks=ticks()))


def test_a_stream_for_each_class(catalog: Catalog, tmp_path: Path) -> None:
    """Columns of one name and other types, a key, a column that one of them lacks."""
    text = "PARTITION BY k PATTERN A; B WHERE A.v < B.v AND A.w = 'x' WITHIN 9 RETURN A.k, A.v, B.v, A.w"
    a = pa.table(
        {
            "k": [n % 2 for n in range(40)],
            "ts": list(range(0, 80, 2)),
            "v": [float(n % 3) for n in range(40)],
            "w": ["x" if n % 4 else "y" for n in range(40)],
        }
    )
    b = pa.table(
        {
            "k": [n % 2 for n in range(40)],
            "ts": pa.array(range(1, 81, 2), pa.int32()),
            "v": pa.array([n % 5 for n in range(40)], pa.int32()),
        }
    )
    found = plan(text, catalog)
    assert (found.lanes, [one.declaration.name for one in found.streams]) == (4, ["A", "B"])
    typed = text.replace("PARTITION BY k", "FROM e PARTITION BY k ORDER BY ts TYPE BY t").replace("B.v", "B.u")
    rows = [{**row, "t": "A", "u": None} for row in a.to_pylist()]
    rows += [{"k": row["k"], "ts": row["ts"], "v": None, "w": None, "t": "B", "u": row["v"]} for row in b.to_pylist()]
    right = episode.sql_local(typed, e=pa.Table.from_pylist(rows))
    got = run(found, catalog, tmp_path, {"A": a, "B": b}, 2)
    assert sorted(tuple(row.values()) for row in got.to_pylist()) == sorted(
        tuple(row.values()) for row in right.to_pylist()
    )
    assert got.num_rows > 10


CORRELATED = """SELECT l.symbol AS s, l.p + a.q AS pq, match_end FROM Ticks MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES LAST(B.price) AS p AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
    PATTERN (A B) DEFINE B AS price < PREV(price)) AS l, {archive} MATCH_RECOGNIZE (
    PARTITION BY symbol ORDER BY ts MEASURES LAST(B.price) AS q AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH
    PATTERN (A B) DEFINE B AS price > PREV(price)) AS a
    WHERE l.symbol = a.symbol AND l.p < a.q + 1 AND RECENCY = 9"""


@pytest.mark.parametrize("archive", ["Ticks", "Old", "Others"])
def test_a_correlation(catalog: Catalog, tmp_path: Path, archive: str) -> None:
    """Of a stream with itself, with its archive (which is the stream), and with another stream."""
    text = CORRELATED.format(archive=archive)
    found = plan(text, catalog)
    assert (found.lanes, dict(found.times), found.keys) == (4, {"match_end": 0}, ("s",))
    other = archive == "Others"
    events = {"Ticks": ticks(), **({"Others": ticks(step=11)} if other else {})}
    tables = {"Ticks": ticks(), **({"Others": ticks(step=11)} if other else {})}
    right = episode.sql_local(text.replace("Old", "Ticks"), **tables)
    same(run(found, catalog, tmp_path, events, 2), right)


def test_a_correlation_that_needs_spark(catalog: Catalog) -> None:
    with pytest.raises(EpisodeUnsupportedError, match="needs Spark") as raised:
        plan(CORRELATED.format(archive="Old").replace("l.p + a.q", "sha2(l.symbol, 256)"), catalog)
    assert "episode.sql" in str(raised.value)


def test_days_are_those_of_the_sessions_time_zone(catalog: Catalog) -> None:
    catalog.create(declare("Clock", "ts TIMESTAMP, v INT", time="ts"))
    text = """SELECT t + INTERVAL 2 DAYS AS later, t FROM Clock MATCH_RECOGNIZE (
        MEASURES LAST(ts) AS t PATTERN (A B) DEFINE B AS v > PREV(v))"""
    plan_live(text, catalog, Options())
    with pytest.raises(EpisodeUnsupportedError, match="needs Spark") as raised:
        plan_live(text, catalog, Options(), utc=False)
    assert "timeZone" in str(raised.value)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (datetime(2026, 1, 1, tzinfo=timezone.utc), 1_767_225_600_000_000),
        ("2026-01-01 00:00:00.5", 1_767_225_600_500_000),
        ("1969-12-31T23:59:59Z", -1_000_000),
    ],
)
def test_the_end_of_a_stream(catalog: Catalog, end: Any, expected: int) -> None:
    catalog.create(declare("Clock", "ts TIMESTAMP, v INT", time="ts"))
    text = "SELECT * FROM Clock MATCH_RECOGNIZE (MEASURES LAST(ts) AS t PATTERN (A B) DEFINE B AS v > PREV(v))"
    assert plan_live(text, catalog, Options(stream=StreamOptions(end=end))).settings.end == expected


# ---- outputs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "time", "delay"),
    [("*", "t1", 55), ("symbol, t0", "t0", 55), ("t1 AS t0, symbol", "t0", 55)],
)
def test_the_time_of_a_stream_that_is_made(catalog: Catalog, columns: str, time: str, delay: int) -> None:
    made = made_for("Found", plan(FALLS.format(columns=columns), catalog))
    assert (made.time, made.key, made.delay) == (time, ("symbol",), delay)


def test_the_end_of_a_match_rather_than_its_start(catalog: Catalog) -> None:
    made = made_for("Found", plan("PATTERN A x; A y WHERE x.v < y.v WITHIN 9 RETURN x.k", catalog))
    assert (made.time, made.key, made.delay) == ("match_end", (), None)


def test_kinds_of_output(catalog: Catalog, tmp_path: Path) -> None:
    found = plan(FALLS.format(columns="*"), catalog)
    made = output_of("Found", found, catalog, "")
    assert made.made is not None
    assert "found" not in [name.lower() for name in catalog.names()], "declared first when the query starts"
    assert isinstance(made.prepare(catalog).sink, StreamOutput)
    assert isinstance(output_of("found", found, catalog, "").sink, StreamOutput)
    assert isinstance(output_of(tmp_path, found, catalog, "").sink, FilesOutput)
    topic = output_of({"kafka": "alerts", "kafka.bootstrap.servers": "h:1"}, found, catalog, "").sink
    assert isinstance(topic, KafkaOutput)
    assert (topic.declaration.options["topic"], topic.declaration.key) == ("alerts", ("symbol",))
    called = output_of(print, found, catalog, str(tmp_path))
    assert isinstance(called.receiver, Delivery)
    assert called.receiver.columns == ("symbol", "top", "low", "t0", "t1")


def test_checkpoints_have_places_of_their_own(catalog: Catalog) -> None:
    def place(text: str = "a", into: Any = "x", **arguments: object) -> str:
        return checkpoint_of(text, into, arguments, None, catalog)

    places = [place(), place("b"), place(into="y"), place(n=1), place(into=print), place(into={"kafka": "x"})]
    assert len(set(places)) == len(places)
    assert place("SELECT  1") == place("SELECT\n1")
    assert all(Path(one).parent.parent == catalog.directory for one in places)
    assert identity_of(test_kinds_of_output).endswith("test_kinds_of_output")


def test_how_many_tasks(catalog: Catalog) -> None:
    found = plan(FALLS.format(columns="*"), catalog)
    assert [tasks_for(found, None, None, slots) for slots in (1, 2, 4, 16)] == [1, 1, 3, 4]
    assert (tasks_for(found, 4, None, 4), tasks_for(found, None, 2, 4)) == (4, 2)
    assert [tasks_for(found, None, None, 4, used) for used in (1, 2, 3)] == [2, 1, 1]
    with pytest.raises(EpisodeAnalysisError, match="other live queries have 3 of them"):
        tasks_for(found, 2, None, 4, 3)
    with pytest.raises(EpisodeAnalysisError, match="4 of them") as raised:
        tasks_for(found, None, None, 4, 4)
    assert "Stop one of them" in str(raised.value)
    alone = plan(FALLS.format(columns="*").replace("PARTITION BY symbol ", ""), catalog)
    assert (tasks_for(alone, 1, None, 4), tasks_for(alone, None, 1, 4)) == (1, 1)
    with pytest.raises(EpisodeUnsupportedError, match="several tasks"):
        tasks_for(alone, None, None, 4)


def test_wishes() -> None:
    with pytest.raises(EpisodeAnalysisError, match="metrics_port=-1"):
        LiveSettings(metrics_port=-1)


def test_as_many_tasks_as_a_topic_has_partitions(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        def __init__(self, declaration: Any) -> None:
            assert declaration.name == "Trades"

        def count(self) -> int:
            return 3

        def close(self) -> None: ...

    monkeypatch.setattr("episode.queries.live_start.TopicReader", Reader)
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    catalog.create(declare("Trades", TICKS, time="ts", key="symbol", using="kafka", options=options))
    text = FALLS.format(columns="*").replace("Ticks", "Trades")
    found = with_partitions(plan(text, catalog))
    assert tasks_for(found, None, None, 8) == 3
    with pytest.raises(EpisodeAnalysisError, match="has 3 partitions"):
        tasks_for(found, 4, None, 8)
    alone = with_partitions(plan(text.replace("PARTITION BY symbol ", ""), catalog))
    with pytest.raises(EpisodeUnsupportedError, match="Trades is spread by symbol"):
        tasks_for(alone, None, None, 8)
