"""States in files, as released versions have written them: what the tests of the formats share.

A shard takes the events 0:40, 40:80 and 80:120 and is stopped. From its state it goes on with 120:160, to the end.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from episode.matchers.columns import to_bytes
from episode.matchers.protocol import MatcherSpec, StateChunk
from episode.matchers.stream_shard import ShardSettings, StreamShard

Events = Callable[[int, int], pa.Table]
"""The events begin:end."""
Stopped = tuple[StreamShard, dict[str, StateChunk]]

RULES = ShardSettings(end=10_000)


def stopped_shard(spec: MatcherSpec, events: Events, watermarks: tuple[int, int, int]) -> Stopped:
    """A shard in the midst of its work, and its state."""
    shard = StreamShard(spec, RULES)
    chunks: dict[str, StateChunk] = {}
    for begin, watermark in zip((0, 40, 80), watermarks, strict=True):
        shard.step([_envelope(events(begin, begin + 40))], watermark)
        shard.snapshot().apply(chunks)
    return shard, chunks


def remaining(shard: StreamShard, events: Events, watermark: int) -> list[pa.Table]:
    """What the shard still gives."""
    return [shard.step([_envelope(events(120, 160))], watermark).matches, shard.step([], 20_000).matches]


def _envelope(table: pa.Table) -> tuple[bytes, pa.Table]:
    return to_bytes(table), table


def restored(state: dict[str, Any], spec: MatcherSpec) -> StreamShard:
    """A shard with the state of a file."""
    chunks = [StateChunk(c["name"], c["version"], base64.b64decode(c["data"])) for c in state["chunks"]]
    shard = StreamShard(spec, RULES)
    shard.restore(chunks, state["watermark"], False)
    return shard


def keep(path: Path, query: dict[str, str], stopped: Stopped, rest: Callable[[StreamShard], list[Any]]) -> None:
    """Write the state of a format, once and for all."""
    if path.exists():
        raise SystemExit(f"{path} is there already and stays as it is.")
    shard, chunks = stopped
    kept = [
        {"name": chunk.name, "version": chunk.version, "data": base64.b64encode(chunk.data).decode()}
        for chunk in chunks.values()
    ]
    state = {**query, "watermark": shard.watermark, "chunks": kept, "rest": rest(shard)}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(state, indent=1) + "\n")
