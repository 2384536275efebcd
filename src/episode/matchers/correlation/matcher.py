"""The correlation Matcher: two patterns on one shard, joined by recency, in batch and in a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import EventBatch, Snapshot, StateChunk

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec


class CorrelationMatcher:
    """Two patterns and their join at work on one shard."""

    def __init__(self, spec: CorrelationSpec) -> None:
        self.spec = spec
        raise NotImplementedError

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        raise NotImplementedError

    def finish(self) -> Iterator[pa.Table]:
        raise NotImplementedError

    def snapshot(self) -> Snapshot:
        raise NotImplementedError

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        raise NotImplementedError

    @property
    def state_rows(self) -> int:
        raise NotImplementedError

    @property
    def given_up(self) -> int:
        raise NotImplementedError

    @property
    def live_keys(self) -> np.ndarray:
        raise NotImplementedError

    @property
    def wakes_at(self) -> int | None:
        raise NotImplementedError
