"""States that released versions have written are read for ever.

`formats/N.json` was written by `python -m tests.state.test_state_formats` when format N came to be, and stays as it is.
A new format gets a new file beside the old ones.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.live import BUFFER_VERSION, LiveRules, LiveShard
from episode.matchers.protocol import StateChunk
from episode.matchers.row_pattern import STATE_VERSION
from tests.in_process import ARROW_TYPES, finished, run_whole, spec_of

FORMATS = Path(__file__).with_name("formats")
SCHEMA = pa.schema(list(ARROW_TYPES.items()))
CLAUSE = (
    "PARTITION BY s, k ORDER BY ts MEASURES MATCH_NUMBER() AS number, FIRST(ts) AS first, LAST(ts) AS last, "
    "count(*) AS n PATTERN (A B+ C) WITHIN 200 DEFINE B AS v > PREV(v), C AS v < PREV(v)"
)
RULES = LiveRules(end=10_000)


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [
        {"k": t % 3 or None, "ts": 7 * t, "v": (t * t + t // 5) % 11, "f": t / 2, "s": "xy"[t % 2]}
        for t in range(begin, end)
    ]


def envelope(events: list[dict[str, Any]]) -> tuple[bytes, pa.Table]:
    table = pa.Table.from_pylist(events, schema=SCHEMA)
    return to_bytes(table), table


def stopped() -> tuple[LiveShard, dict[str, StateChunk]]:
    """A shard in the midst of its work: with open matches, waiting events, and keys."""
    shard = LiveShard(spec_of(CLAUSE), RULES)
    chunks: dict[str, StateChunk] = {}
    for begin, watermark in ((0, -1), (40, 200), (80, 480)):
        shard.step([envelope(rows(begin, begin + 40))], watermark)
        shard.snapshot().apply(chunks)
    return shard, chunks


def rest(shard: LiveShard) -> list[dict[str, Any]]:
    """What the shard still gives."""
    tables = [shard.step([envelope(rows(120, 160))], 830).matches, shard.step([], 20_000).matches]
    return finished(shard.spec, pa.concat_tables(tables))


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.json")), ids=lambda path: path.stem)
def test_a_state_of_this_format_goes_on(path: Path) -> None:
    state = json.loads(path.read_text())
    chunks = [StateChunk(c["name"], c["version"], base64.b64decode(c["data"])) for c in state["chunks"]]
    shard = LiveShard(spec_of(state["clause"]), RULES)
    shard.restore(chunks, state["watermark"], False, from_bytes)
    assert rest(shard) == state["rest"]


def test_the_expected_rest_is_that_of_the_whole() -> None:
    shard, _ = stopped()
    known = rest(shard)
    whole = finished(shard.spec, run_whole(shard.spec, rows(0, 160)))
    assert len(known) > 5
    assert all(match in whole for match in known)


def test_the_formats_of_this_version_are_kept() -> None:
    assert (FORMATS / f"{STATE_VERSION}.json").exists()
    versions = {chunk["version"] for chunk in json.loads((FORMATS / f"{STATE_VERSION}.json").read_text())["chunks"]}
    assert versions == {STATE_VERSION, BUFFER_VERSION}


def main() -> None:
    path = FORMATS / f"{STATE_VERSION}.json"
    if path.exists():
        raise SystemExit(f"{path} is there already and stays as it is.")
    shard, chunks = stopped()
    state = {
        "clause": CLAUSE,
        "watermark": shard.watermark,
        "chunks": [
            {"name": chunk.name, "version": chunk.version, "data": base64.b64encode(chunk.data).decode()}
            for chunk in chunks.values()
        ],
        "rest": rest(shard),
    }
    FORMATS.mkdir(exist_ok=True)
    path.write_text(json.dumps(state, indent=1) + "\n")


if __name__ == "__main__":
    main()
