"""States of event patterns that released versions have written are read for ever; see test_state_formats.py.

`event_formats/N.json` was written by `python -m tests.state.test_event_state_formats` when format N came to be.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.matchers.state import STATE_VERSION
from episode.matchers.stream_shard import StreamShard
from tests.state.snapshots import Stopped, keep, remaining, restored, stopped_shard
from tests.support.events import SCHEMA, bound, spec_of

FORMATS = Path(__file__).with_name("event_formats")
TEXT = "PATTERN A; !B; C; D* WHERE [k] AND A.x < C.x WITHIN 30"


def events(begin: int, end: int) -> pa.Table:
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
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def stopped() -> Stopped:
    """With open windows and waiting events."""
    return stopped_shard(spec_of(TEXT), events, (-1, 30, 70))


def rest(shard: StreamShard) -> list[Any]:
    tables = remaining(shard, events, 130)
    found = [match for table in tables for match in bound(shard.spec, table)]  # type: ignore[arg-type]
    return sorted([[name, list(positions)] for name, positions in match] for match in found)


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.json")), ids=lambda path: path.stem)
def test_a_state_of_this_format_goes_on(path: Path) -> None:
    state = json.loads(path.read_text())
    assert rest(restored(state, spec_of(state["text"]))) == state["rest"]
    assert len(state["rest"]) > 5


def test_the_format_of_this_version_is_kept() -> None:
    assert (FORMATS / f"{STATE_VERSION}.json").exists()


if __name__ == "__main__":
    keep(FORMATS / f"{STATE_VERSION}.json", {"text": TEXT}, stopped(), rest)
