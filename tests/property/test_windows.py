"""Row patterns in windows against MATCH_RECOGNIZE over full frames.

Every full frame is a partition of its own, and the match of a row is the first one that MATCH_RECOGNIZE finds there.
Which rows are skipped is then said here.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import episode
from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from tests.reference.generate import MIXED, PATH_DEPENDENT, PATH_INDEPENDENT, Weights, _definitions, patterns, tables

OFFSETS = Weights(row_local=1, offset=6, relating=3, aggregate=0, naming=0)
SCHEMA = pa.schema(
    {"frame": pa.int64(), "k": pa.int32(), "ts": pa.int64(), "v": pa.int32(), "f": pa.float64(), "s": pa.string()}
)
MEASURES = {
    "last_v": "LAST(v)",
    "second": "FIRST(v, 1)",
    "before": "PREV(FIRST(ts))",
    "far_before": "PREV(FIRST(ts), 2)",
    "after": "NEXT(LAST(ts))",
    "far_after": "NEXT(LAST(ts), 2)",
    "total": "sum(v)",
    "n": "count(*)",
    "label": "CLASSIFIER()",
    "labels": "array_agg(CLASSIFIER())",
    "first_ts": "FIRST(ts)",
}


@st.composite
def windows(draw: st.DrawFn) -> dict[str, Any]:
    """The parts of a window."""
    weights = draw(st.sampled_from([OFFSETS, OFFSETS, MIXED, PATH_DEPENDENT, PATH_INDEPENDENT]))
    pool = list("ABC"[: draw(st.sampled_from([3, 2, 1]))])
    pattern = draw(patterns(pool, exclusion=False, depth=2, root=True))
    labels = [label for label in pool if label in pattern.labels]
    assume("^" not in pattern.text and "$" not in pattern.text and labels)
    definitions = draw(_definitions(labels, labels, weights, numbered=False, numbers=False))
    skips = ["PAST LAST ROW", "TO NEXT ROW", f"TO FIRST {draw(st.sampled_from(labels))}", f"TO LAST {labels[-1]}"]
    return {
        "pattern": pattern.text,
        "define": ", ".join(f"{label} AS {condition}" for label, condition in definitions.items()),
        "skip": draw(st.sampled_from(skips)),
        "search": draw(st.sampled_from(["SEEK", "INITIAL"])),
        "following": draw(st.sampled_from([None, None, 0, 1, 2, 3, 5])),
    }


def frames_of(rows: list[dict[str, Any]], following: int | None) -> pa.Table:
    """Every full frame, as rows that have the number of the row it belongs to."""
    found = []
    for at, row in enumerate(rows):
        inside = [other for other in rows[at:] if other["k"] == row["k"]]
        frame = inside if following is None else inside[: following + 1]
        found += [{**other, "frame": at} for other in frame]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def expected(rows: list[dict[str, Any]], window: dict[str, Any]) -> list[dict[str, Any] | None]:
    """The match of each row, by its measures; None where it has none."""
    measures = ", ".join(f"{text} AS {name}" for name, text in MEASURES.items())
    pattern = window["pattern"] if window["search"] == "SEEK" else f"^ ({window['pattern']})"
    query = f"""
        SELECT * FROM frames MATCH_RECOGNIZE (
          PARTITION BY frame ORDER BY ts MEASURES MATCH_NUMBER() AS number, {measures}
          PATTERN ({pattern}) {"DEFINE " + window["define"] if window["define"] else ""}
        )
    """
    found = episode.sql_local(query, frames=frames_of(rows, window["following"])).to_pylist()
    by_frame = {match["frame"]: match for match in found if match["number"] == 1}
    result: list[dict[str, Any] | None] = [None] * len(rows)
    for key in {row["k"] for row in rows}:
        mine = [at for at, row in enumerate(rows) if row["k"] == key]
        place = {rows[at]["ts"]: order for order, at in enumerate(mine)}
        order = 0
        while order < len(mine):
            match = by_frame.get(mine[order])
            if match is not None:
                result[mine[order]] = {name: match[name] for name in MEASURES}
            order = after(window["skip"], order, match, place)
    return result


def after(skip: str, order: int, match: dict[str, Any] | None, place: dict[int, int]) -> int:
    """The row to go on with, by its order in the partition."""
    if match is None or match["n"] == 0 or skip == "TO NEXT ROW":
        return order + 1
    first = place[match["first_ts"]]
    if skip == "PAST LAST ROW":
        return first + match["n"]
    _, which, label = skip.split()
    found = [at for at, name in enumerate(match["labels"]) if name == label]
    position = -1 if not found else found[0] if which == "FIRST" else found[-1]
    if position <= 0:
        raise EpisodeDataError("cannot skip")
    return first + position


@given(windows(), tables(max_rows=9))
def test_as_match_recognize_over_each_frame(window: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    rows = [{**row, "ts": ts} for ts, row in enumerate(rows)]
    following = "UNBOUNDED" if window["following"] is None else window["following"]
    query = f"""
        SELECT ts, {", ".join(f"{name} OVER w" for name in MEASURES)}, count(*) OVER w AS counted FROM events
        WINDOW w AS (
          PARTITION BY k ORDER BY ts MEASURES {", ".join(f"{text} AS {name}" for name, text in MEASURES.items())}
          ROWS BETWEEN CURRENT ROW AND {following} FOLLOWING
          AFTER MATCH SKIP {window["skip"]} {window["search"]}
          PATTERN ({window["pattern"]}) {"DEFINE " + window["define"] if window["define"] else ""}
        )
    """
    events = pa.Table.from_pylist([{**row, "frame": 0} for row in rows], schema=SCHEMA)
    try:
        wanted = expected(rows, window)
    except EpisodeUnsupportedError:
        assume(False)
    except EpisodeDataError:
        with pytest.raises(EpisodeDataError, match="AFTER MATCH"):
            episode.sql_local(query, events=events)
        return
    found = {row["ts"]: row for row in episode.sql_local(query, events=events).to_pylist()}
    assert len(found) == len(rows)
    for ts, match in enumerate(wanted):
        nothing = dict.fromkeys(MEASURES)
        assert {name: found[ts][name] for name in MEASURES} == (nothing if match is None else match)
        assert found[ts]["counted"] == (0 if match is None else match["n"])
