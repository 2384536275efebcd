"""States of situation patterns that released versions have written are read for ever; see test_state_formats.py.

`situation_formats/N.json` was written by `python -m tests.state.test_situation_state_formats` when format N came to be.
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
from tests.support.situations import SCHEMA, rows_of, spec_of

FORMATS = Path(__file__).with_name("situation_formats")
TEXT = """FROM t PARTITION BY k DEFINE A AS a AT LEAST 2, B AS b, C AS n % 11 > 6
PATTERN A overlaps B; A finishes B; A contains B; A before B AND B before C; B meets C; B overlaps C WITHIN 30
RETURN first(A.s) AS s, sum(A.n) AS total, avg(B.x) AS mean, stddev(C.x) AS deviation, max(B.s) AS most,
    A.end AS ended"""


def events(begin: int, end: int) -> pa.Table:
    rows = [
        {
            "k": "xyz"[t % 3],
            "t": t,
            "a": t * 7 // 20 % 3 == 0,
            "b": t * 5 // 17 % 2 == 0,
            "c": False,
            "d": None,
            "x": float(t % 5),
            "n": t,
            "s": f"s{t * 7 % 10}",
        }
        for t in range(begin, end)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def stopped() -> Stopped:
    """With situations that last, finished ones and waiting events."""
    return stopped_shard(spec_of(TEXT), events, (-1, 30, 70))


def rest(shard: StreamShard) -> list[Any]:
    tables = remaining(shard, events, 130)
    found = [row for table in tables for row in rows_of(shard.spec, table)]  # type: ignore[arg-type]
    return sorted([[round(v, 9) if isinstance(v, float) else v for v in row] for row in found], key=repr)


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*.json")), ids=lambda path: path.stem)
def test_a_state_of_this_format_goes_on(path: Path) -> None:
    state = json.loads(path.read_text())
    assert rest(restored(state, spec_of(state["text"]))) == state["rest"]
    assert len(state["rest"]) > 5


def test_the_format_of_this_version_is_kept() -> None:
    assert (FORMATS / f"{STATE_VERSION}.json").exists()


if __name__ == "__main__":
    keep(FORMATS / f"{STATE_VERSION}.json", {"text": TEXT}, stopped(), rest)
