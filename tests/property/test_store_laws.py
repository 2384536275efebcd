"""Stream stores under any order of appends, archiving, compaction, expiry, crashes and reading.

At every moment the archive and the log together hold each event once; readers from any position get what was appended
after it; and tools that see plain Parquet files never see an event twice.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from episode.store.log import Origin
from episode.store.stream import StreamStore
from tests.support.stores import Row, events, in_plain_files, make_store, rows_of

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are quick: these tests write many."""

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=8)
NAMES = ("rename", "link", "unlink")


class Killed(BaseException):
    """Stands in for kill -9."""


class Store(RuleBasedStateMachine):
    """Three processes (stores of their own) on one stream, and what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="episode-store-", dir=MEMORY))
        self.commits: list[list[Row]] = []
        self.batches = Counter[str]()
        self.limit = -1
        self.serial = 0

    @initialize(
        lanes=st.integers(1, 4),
        partition=st.sampled_from(["5", "20", "1000"]),
        kept=st.booleans(),
        retain=st.sampled_from([None, 25]),
    )
    def make(self, lanes: int, partition: str, kept: bool, retain: int | None) -> None:
        options = {"partition": partition, "sync": "false", "log_retain": "1 hour" if kept else "0 seconds"}
        self.retain = retain
        first = make_store(self.place, lanes=lanes, options=options, retain=retain)
        self.stores = [first, StreamStore(first.declaration), StreamStore(first.declaration)]

    def teardown(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def fresh(self, rows: list[tuple[str, int]]) -> list[Row]:
        """Rows with numbers by which each is recognised, in order of arrival."""
        self.serial += len(rows)
        return [(*row, self.serial - len(rows) + i) for i, row in enumerate(rows)]

    # ---- what happens -----------------------------------------------------------------------------

    @rule(who=st.integers(0, 2), drawn=ROWS)
    def append(self, who: int, drawn: list[tuple[str, int]]) -> None:
        rows = self.fresh(drawn)
        if rows:
            self.commits.append(rows)
        assert self.stores[who].append(events(rows)) == len(self.commits)

    @rule(who=st.integers(0, 2), drawn=ROWS.filter(bool), producer=st.sampled_from("xy"), again=st.booleans())
    def append_by_producer(self, who: int, drawn: list[tuple[str, int]], producer: str, again: bool) -> None:
        rows = self.fresh(drawn)
        origin = Origin(producer, self.batches[producer])
        self.batches[producer] += 1
        self.commits.append(rows)
        position = self.stores[who].append(events(rows), origin)
        assert position == len(self.commits)
        if again:
            assert self.stores[(who + 1) % 3].append(events(rows), origin) == position

    @rule(parts=st.lists(ROWS, min_size=1, max_size=3), who=st.integers(0, 2), lost=st.booleans())
    def append_in_parts(self, parts: list[list[tuple[str, int]]], who: int, lost: bool) -> None:
        staged = [(rows, self.stores[i % 3].stage(events(rows))) for i, rows in enumerate(map(self.fresh, parts))]
        if lost:
            return
        rows = [row for part, _ in staged for row in part]
        if rows:
            self.commits.append(rows)
        assert self.stores[who].commit([one for _, one in staged]) == len(self.commits)

    @rule(who=st.integers(0, 2))
    def archive(self, who: int) -> None:
        self.stores[who].archive()
        assert self.stores[who].archived.manifest().archived_to == len(self.commits)

    @rule(who=st.integers(0, 2))
    def compact(self, who: int) -> None:
        self.stores[who].compact()

    @precondition(lambda self: self.commits)
    @rule(who=st.integers(0, 2))
    def expire(self, who: int) -> None:
        if self.retain is not None:
            latest = max(row[1] for rows in self.commits for row in rows)
            self.limit = max(self.limit, latest - self.retain)
        self.stores[who].expire()

    @rule(
        who=st.integers(0, 2),
        action=st.sampled_from(["archive", "compact", "expire", "append"]),
        step=st.integers(1, 9),
    )
    def killed(self, who: int, action: str, step: int) -> None:
        """A process dies at the n-th change of a name on the disk; another one takes its place."""
        left = step

        def deadly(original: Any) -> Any:
            def called(*given: Any, **more: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                return original(*given, **more)

            return called

        rows = self.fresh([("a", 30), ("b", 31)])
        store = self.stores[who]
        if action == "expire" and self.retain is not None and self.commits:
            self.limit = max(self.limit, max(row[1] for part in self.commits for row in part) - self.retain)
        died = False
        with suppress(Killed), mock.patch.multiple(os, **{name: deadly(getattr(os, name)) for name in NAMES}):
            died = True
            store.append(events(rows)) if action == "append" else getattr(store, action)()
            died = False
        self.stores[who] = StreamStore(store.declaration)
        if action == "append" and (not died or self.stores[who].head() > len(self.commits)):
            self.commits.append(rows)

    # ---- what must hold ---------------------------------------------------------------------------

    def check(self, found: list[Row], wanted: list[Row]) -> None:
        """Events that RETAIN keeps are there once; those before may have gone."""
        counted = Counter(found)
        assert counted <= Counter(wanted)
        assert {row for row in wanted if row[1] >= self.limit} <= set(counted)

    @invariant()
    def each_event_once(self) -> None:
        if not hasattr(self, "stores"):
            return
        everything = [row for rows in self.commits for row in rows]
        for store in self.stores[:2]:
            found = rows_of(store.table())
            self.check(found, everything)
            assert store.count() == len(found)
            assert store.head() == len(self.commits)
        assert Counter(in_plain_files(self.stores[0])) <= Counter(everything)

    @precondition(lambda self: self.commits)
    @rule(who=st.integers(0, 2), ends=st.tuples(st.integers(0, 50), st.integers(0, 50)), lane=st.integers(-1, 3))
    def read(self, who: int, ends: tuple[int, int], lane: int) -> None:
        after, until = sorted(min(end, len(self.commits)) for end in ends)
        store = self.stores[who]
        lanes = range(store.declaration.lanes)
        chosen = None if lane < 0 else [one for one in lanes if one != lane]
        found = rows_of(store.read(after, until, lanes=chosen)[0])
        if chosen is not None:
            found += rows_of(store.read(after, until, lanes=[lane])[0])
        self.check(found, [row for rows in self.commits[after:until] for row in rows])

    @rule(who=st.integers(0, 2), rows=st.integers(1, 20))
    def read_step_by_step(self, who: int, rows: int) -> None:
        store, position, found = self.stores[who], 0, []
        while position < store.head():
            end = store.advance(position, rows)
            assert end > position
            table, position = store.read(position, end)
            found += rows_of(table)
        self.check(found, [row for part in self.commits for row in part])

    @rule(
        who=st.integers(0, 2),
        keys=st.sets(st.sampled_from("abcd"), max_size=3),
        times=st.tuples(*[st.integers(0, 60)] * 2),
    )
    def look_back(self, who: int, keys: set[str], times: tuple[int, int]) -> None:
        """Of each key in order of time, and where times are equal in order of arrival."""
        lo, hi = sorted(times)
        given = pa.table({"k": pa.array(sorted(keys), pa.string())})
        found = rows_of(self.stores[who].history().read(given, lo, hi, ["k", "t", "v"]))
        everything = [row for rows in self.commits for row in rows]
        self.check(found, [row for row in everything if row[0] in keys and lo <= row[1] <= hi])
        for key in keys:
            own = [row[1:] for row in found if row[0] == key]
            assert own == sorted(own)


Store.TestCase.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=25)
test_store = Store.TestCase
