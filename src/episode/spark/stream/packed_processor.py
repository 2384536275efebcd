"""A processor of shards in Spark's driver: pickled, and unpickled when the first rows come.

Before the first micro-batch of a query Spark starts a new Python process for each pattern, only to ask which state the
processor has. Unpickling a processor there would load its matcher, and with it pyarrow, pandas and parsers: seconds
before the first row of every stream. So this class declares the state with modules that Spark has loaded anyway, and
this module must not import others. Workers that match have everything loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, MapState, TimerValues, ValueState

    from episode.spark.stream.shards import ShardProcessor

HEAD = (
    "format int, token string, watermark long, ended boolean, timer long, steps long, shards int, query string, "
    "small binary"
)


def declare_state(handle: StatefulProcessorHandle) -> tuple[ValueState, MapState]:
    """Declare the state of a shard: its head, and its chunks."""
    head = handle.getValueState("head", HEAD)
    return head, handle.getMapState("chunks", "name string", "version int, data binary")


class PackedProcessor(StatefulProcessor):
    """Delegates to the wrapped processor, unpickled on first use."""

    def __init__(self, processor: ShardProcessor) -> None:
        self._packed = cloudpickle.dumps(processor)
        self._unpacked: ShardProcessor | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = declare_state(handle)

    @property
    def _processor(self) -> ShardProcessor:
        if self._unpacked is None:
            self._unpacked = cloudpickle.loads(self._packed)
            self._unpacked.use(self._handle, *self._state)
        return self._unpacked

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        yield from self._processor.handleInputRows(key, rows, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[pd.DataFrame]:
        yield from self._processor.handleExpiredTimer(key, timerValues, expiredTimerInfo)

    def close(self) -> None:
        if self._unpacked is not None:
            self._unpacked.close()
