"""Live tasks over stores in a directory, and what they put out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.live.checkpoint import open_query
from episode.live.inputs import StoreInputs, StreamRead
from episode.live.protocol import TaskDescription, TaskOptions
from episode.live.sinks import StreamOutput
from episode.live.task import LiveTask
from episode.matchers.protocol import MatcherSpec
from episode.matchers.spark_types import spark_name
from episode.matchers.stream_shard import ShardSettings
from episode.store.catalog import Catalog, declare
from episode.store.declaration import Declaration
from episode.store.stream import StreamStore

OUTPUT = "t bigint, row string"
PULL = TaskOptions(handling="pull")


class InWords:
    """Matches as rows of one text each: whatever a matcher's columns are, a stream can hold them."""

    def __call__(self, matched: pa.Table) -> pa.Table:
        texts = [repr(sorted(row.items())) for row in matched.to_pylist()]
        return pa.table({"t": pa.array([0] * len(texts), pa.int64()), "row": pa.array(texts, pa.string())})


def in_words(matched: pa.Table) -> list[str]:
    return sorted(InWords()(matched).column("row").to_pylist())


class LiveQuery:
    """A query over one stream of the spec's columns, and a stream of its matches."""

    def __init__(
        self,
        directory: Path,
        spec: MatcherSpec,
        *,
        key: str | Sequence[str] = (),
        tasks: int = 1,
        delay: int | None = None,
        options: TaskOptions = PULL,
        settings: ShardSettings | None = None,
        lanes: int = 4,
        archive: str | None = None,
        **store_options: Any,
    ) -> None:
        self.directory, self.spec, self.tasks = directory, spec, tasks
        self.options, self.settings = options, settings or ShardSettings()
        catalog = Catalog(directory / "catalog")
        columns = [(field.name, spark_name(field.type)) for field in spec.input_schema]
        plain = {"sync": "false", **store_options}
        time = spec.input_order.order[0].column
        self.input = StreamStore(
            catalog.create(
                declare("In", columns, time=time, key=key, delay=delay, lanes=lanes, archive=archive, options=plain)
            )
        )
        self.output = StreamStore(
            catalog.create(declare("Out", OUTPUT, time="t", key="row", lanes=2, options={"sync": "false"}))
        )
        self.checkpoint = str(directory / "checkpoint")

    @property
    def declaration(self) -> Declaration:
        return self.input.declaration

    def append(self, rows: Sequence[dict[str, Any]] | pa.Table) -> None:
        given = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=self.input.schema)
        self.input.append(given)

    def description(self, task: int = 0) -> TaskDescription:
        fingerprint = self.spec.fingerprint
        return TaskDescription(
            spec=self.spec,
            settings=self.settings,
            finish=InWords(),
            input=StoreInputs((StreamRead(self.declaration, tuple(self.spec.input_columns)),)),
            sink=StreamOutput(self.output.declaration),
            checkpoint=self.checkpoint,
            query=open_query(self.checkpoint, fingerprint, self.tasks),
            fingerprint=fingerprint,
            task=task,
            tasks=self.tasks,
            options=self.options,
        )

    def task(self, task: int = 0) -> LiveTask:
        return LiveTask(self.description(task))

    def run(self) -> list[dict[str, Any]]:
        """Run all tasks, one after the other, to the end of the stream."""
        return [self.task(number).run() for number in range(self.tasks)]

    def matches(self) -> list[str]:
        return sorted(StreamStore(self.output.declaration).table().column("row").to_pylist())


class Killed(BaseException):
    """A process that is no more."""


class Operations:
    """File operations of this process, counted; at one of them it dies, and from then on does nothing more."""

    NAMES = ("rename", "replace", "fsync", "unlink", "link")

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import os

        self.count = 0
        self.dies_at: int | None = None
        self.dead = False
        self.seen: list[str] = []
        for name in self.NAMES:
            monkeypatch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real: Any) -> Any:
        def operation(*arguments: Any, **named: Any) -> Any:
            if self.dead:
                raise Killed
            self.count += 1
            self.seen.append(name)
            if self.count == self.dies_at:
                self.dead = True
                raise Killed
            return real(*arguments, **named)

        return operation

    def reset(self, dies_at: int | None) -> None:
        self.count, self.dies_at, self.dead, self.seen = 0, dies_at, False, []


def pieces(items: Sequence[Any], cuts: Sequence[int]) -> Iterator[Sequence[Any]]:
    """A sequence cut at some places, without empty pieces."""
    bounds = [0, *sorted(cuts), len(items)]
    for begin, end in itertools.pairwise(bounds):
        if end > begin:
            yield items[begin:end]


def with_options(options: TaskOptions, **changes: Any) -> TaskOptions:
    return replace(options, **changes)
