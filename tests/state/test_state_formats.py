"""States that released versions have written are read for ever.

`formats/N.json` was written by `python -m tests.state.test_state_formats` when format N came to be, and stays as it is.
A new format gets a new file beside the old ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.matchers.state import STATE_VERSION
from episode.matchers.stream_shard import BUFFER_VERSION, StreamShard
from tests.state.snapshots import Stopped, keep, remaining, restored, stopped_shard
from tests.support.rows import ARROW_TYPES, finished, run_whole, spec_of

FORMATS = Path(__file__).with_name("formats")
SCHEMA = pa.schema(list(ARROW_TYPES.items()))
CLAUSE = (
    "PARTITION BY s, k ORDER BY ts MEASURES MATCH_NUMBER() AS number, FIRST(ts) AS first, LAST(ts) AS last, "
    "count(*) AS n PATTERN (A B+ C) WITHIN 200 DEFINE B AS v > PREV(v), C AS v < PREV(v)"
)


def rows(begin: int, end: int) -> list[dict[str, Any]]:
    return [
        {"k": t % 3 or None, "ts": 7 * t, "v": (t * t + t // 5) % 11, "f": t / 2, "s": "xy"[t % 2]}
        for t in range(begin, end)
    ]


def events(begin: int, end: int) -> pa.Table:
    return pa.Table.from_pylist(rows(begin, end), schema=SCHEMA)


def stopped() -> Stopped:
    """With open matches, waiting events, and keys."""
    return stopped_shard(spec_of(CLAUSE), events, (-1, 200, 480))


def rest(shard: StreamShard) -> list[dict[str, Any]]:
    tables = remaining(shard, events, 830)
    return finished(shard.spec, pa.concat_tables(tables))


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.json")), ids=lambda path: path.stem)
def test_a_state_of_this_format_goes_on(path: Path) -> None:
    state = json.loads(path.read_text())
    assert rest(restored(state, spec_of(state["clause"]))) == state["rest"]


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


if __name__ == "__main__":
    keep(FORMATS / f"{STATE_VERSION}.json", {"clause": CLAUSE}, stopped(), rest)
