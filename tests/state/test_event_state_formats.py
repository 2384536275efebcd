"""States of event patterns that released versions have written are read for ever; see test_state_formats.py.

`event_formats/N.json` was written by `python -m tests.state.test_event_state_formats` when format N came to be.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.held import STATE_VERSION
from episode.matchers.live import LiveRules, LiveShard
from episode.matchers.protocol import StateChunk
from tests.in_process_events import SCHEMA, bound, spec_of

FORMATS = Path(__file__).with_name("event_formats")
TEXT = "PATTERN A; !B; C; D* WHERE [k] AND A.x < C.x WITHIN 30"
RULES = LiveRules(end=10_000)


def envelope(begin: int, end: int) -> tuple[bytes, pa.Table]:
    rows = [
        {
            "pos": t,
            "ts": t,
            "te": t,
            "type": "AABCD"[(t * 3 + t // 7) % 5],
            "k": t % 3,
            "x": t * 7 % 11,
            "y": 1,
            "s": "",
        }
        for t in range(begin, end)
    ]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return to_bytes(table), table


def stopped() -> tuple[LiveShard, dict[str, StateChunk]]:
    """A shard in the midst of its work, with open windows and waiting events."""
    shard = LiveShard(spec_of(TEXT), RULES)
    chunks: dict[str, StateChunk] = {}
    for begin, watermark in ((0, -1), (40, 30), (80, 70)):
        shard.step([envelope(begin, begin + 40)], watermark)
        shard.snapshot().apply(chunks)
    return shard, chunks


def rest(shard: LiveShard) -> list[Any]:
    """What the shard still gives."""
    tables = [shard.step([envelope(120, 160)], 130).matches, shard.step([], 20_000).matches]
    found = [match for table in tables for match in bound(shard.spec, table)]  # type: ignore[arg-type]
    return sorted([[name, list(positions)] for name, positions in match] for match in found)


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.json")), ids=lambda path: path.stem)
def test_a_state_of_this_format_goes_on(path: Path) -> None:
    state = json.loads(path.read_text())
    chunks = [StateChunk(c["name"], c["version"], base64.b64decode(c["data"])) for c in state["chunks"]]
    shard = LiveShard(spec_of(state["text"]), RULES)
    shard.restore(chunks, state["watermark"], False, from_bytes)
    assert rest(shard) == state["rest"]
    assert len(state["rest"]) > 5


def test_the_format_of_this_version_is_kept() -> None:
    assert (FORMATS / f"{STATE_VERSION}.json").exists()


def main() -> None:
    path = FORMATS / f"{STATE_VERSION}.json"
    if path.exists():
        raise SystemExit(f"{path} is there already and stays as it is.")
    shard, chunks = stopped()
    kept = [
        {"name": chunk.name, "version": chunk.version, "data": base64.b64encode(chunk.data).decode()}
        for chunk in chunks.values()
    ]
    state = {"text": TEXT, "watermark": shard.watermark, "chunks": kept, "rest": rest(shard)}
    path.write_text(json.dumps(state, indent=1) + "\n")


if __name__ == "__main__":
    main()
