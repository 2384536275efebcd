"""Patterns whose rows may have several labels, over runs long enough for the memory of failures and of the last match.

The oracle follows sets of rows, so that nothing explodes; it says where matches begin and end. Which labels their rows
have is what the same pattern gives with a window that nothing exceeds: there each start row is searched for itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.running import run
from tests.support.correlation import FALL, correlation
from tests.support.rows import finished, run_in_pieces, spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
LABELS = "ABC"
Tree = tuple[Any, ...]


def trees() -> st.SearchStrategy[Tree]:
    leaves = st.sampled_from(LABELS).map(lambda label: ("label", label))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.just("then"), inner, inner),
            st.tuples(st.just("or"), inner, inner),
            st.tuples(st.just("+"), inner),
            st.tuples(st.just("*"), inner),
        ),
        max_leaves=5,
    )


def written(tree: Tree) -> str:
    kind, *parts = tree
    if kind == "label":
        return str(parts[0])
    inner = [written(part) for part in parts]
    return {
        "then": lambda: f"{inner[0]} {inner[1]}",
        "or": lambda: f"({inner[0]} | {inner[1]})",
        "+": lambda: f"({inner[0]})+",
        "*": lambda: f"({inner[0]})*",
    }[kind]()


def ends(tree: Tree, begins: set[int], rows: list[dict[str, Any]]) -> set[int]:
    """Where matches of a part end (the row after them) that begin with one of these rows."""
    kind, *parts = tree
    if kind == "label":
        return {row + 1 for row in begins if row < len(rows) and rows[row][parts[0].lower()] == 1}
    if kind == "then":
        return ends(parts[1], ends(parts[0], begins, rows), rows)
    if kind == "or":
        return ends(parts[0], begins, rows) | ends(parts[1], begins, rows)
    reached, new = set(begins), set(begins)
    found: set[int] = set()
    while new:
        new = ends(parts[0], new, rows)
        found |= new
        new -= reached
        reached |= new
    return reached if kind == "*" else found


def clause(tree: Tree, mode: str, window: str, output: str) -> str:
    pattern = written(tree)
    conditions = ", ".join(f"{label} AS {label}.{label.lower()} = 1" for label in LABELS if label in pattern)
    return f"""
        ORDER BY ts MEASURES FIRST(ts) AS low, LAST(ts) AS high, CLASSIFIER() AS label {output}
        AFTER MATCH SKIP TO NEXT ROW {mode} PATTERN ({pattern}) {window} DEFINE {conditions}
    """


TYPES = {"ts": "bigint", "a": "int", "b": "int", "c": "int"}
ARROW = {"ts": pa.int64(), "a": pa.int32(), "b": pa.int32(), "c": pa.int32()}


@st.composite
def inputs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows most of which have most labels."""
    seed, often = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([0.6, 0.9, 0.99]))
    count = draw(st.integers(1, 60))
    has = np.random.default_rng(seed).random((count, 3)) < often
    return [{"ts": at, **{label.lower(): int(row[i]) for i, label in enumerate(LABELS)}} for at, row in enumerate(has)]


def matched(text: str, rows: list[dict[str, Any]], pieces: list[tuple[int, int]]) -> list[tuple[Any, ...]]:
    spec = spec_of(text, TYPES, pa.schema(list(ARROW.items())))
    output = run_in_pieces(spec, rows, pieces, restore=len(pieces) % 2 == 0)
    found = [tuple(row.values()) for row in finished(spec, output)]
    return sorted(row for row in found if None not in row)  # an empty match has no times


@st.composite
def cuts(draw: st.DrawFn, count: int) -> list[tuple[int, int]]:
    places = sorted(draw(st.sets(st.integers(1, count), max_size=3)) - {count}) if count > 1 else []
    return list(pairwise([0, *places, count]))


@SETTINGS
@given(trees(), inputs(), st.data())
def test_longest_match_of_each_start(tree: Tree, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    found = matched(clause(tree, "MAXIMAL MATCH", "", ""), rows, data.draw(cuts(len(rows))))
    last = {start: max(ends(tree, {start}, rows), default=start) - 1 for start in range(len(rows))}
    wanted = [(start, end) for start, end in last.items() if end >= start]
    assert [row[:2] for row in found] == wanted


@SETTINGS
@given(trees(), inputs(), st.data())
def test_longest_match_of_each_end(tree: Tree, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    found = matched(clause(tree, "INCREMENTAL MATCH", "", ""), rows, data.draw(cuts(len(rows))))
    first: dict[int, int] = {}
    for start in range(len(rows)):
        for end in ends(tree, {start}, rows) - {start}:
            first.setdefault(end - 1, start)
    assert [row[:2] for row in found] == sorted((start, end) for end, start in first.items())


@pytest.mark.parametrize("mode", ["", "MAXIMAL MATCH"])
@SETTINGS
@given(trees(), inputs(), st.data())
def test_labels_are_those_of_each_start_alone(
    mode: str, tree: Tree, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    pieces = data.draw(cuts(len(rows)))
    alone = matched(clause(tree, mode, "WITHIN 1000", "ALL ROWS PER MATCH"), rows, [(0, len(rows))])
    assert matched(clause(tree, mode, "", "ALL ROWS PER MATCH"), rows, pieces) == alone


# ---- many rows ------------------------------------------------------------------------------------------

EITHER = """
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS init, C.price AS most
    AFTER MATCH SKIP TO NEXT ROW {mode} MATCH PATTERN ((A | B)+ C) DEFINE {define}
"""
ROW_ALONE = "A AS A.price < 16, B AS B.price > 4, C AS C.price > 18"
BY_LABEL = "A AS A.price < 19, B AS B.price > 1 AND B.price < 19, C AS C.price > AVG(A.price) + 100"
MOST_SECONDS = 30


def prices(count: int) -> pa.Table:
    price = np.random.default_rng(5).integers(0, 20, count).astype(float)
    return pa.table({"symbol": ["X"] * count, "ts": np.arange(count), "price": price})


@pytest.mark.parametrize("live", [FALL, EITHER.format(mode="INCREMENTAL", define=ROW_ALONE)], ids=["fall", "either"])
def test_each_row_is_not_searched_from_every_start(live: str) -> None:
    """It was, which took some minutes with so many rows."""
    spec = correlation(live, EITHER.format(mode="MAXIMAL", define=ROW_ALONE), recency=50)
    run(spec, prices(100))
    table, began = prices(30_000), time.thread_time()
    run(spec, table)
    assert time.thread_time() - began < MOST_SECONDS


def test_choices_without_end_are_an_error() -> None:
    """Each start stays within its budget; all of them together do not."""
    spec = correlation(FALL, EITHER.format(mode="MAXIMAL", define=BY_LABEL), recency=50)
    spec = replace(spec, archive=replace(spec.archive, spec=replace(spec.archive.spec, step_budget=100_000)))
    price = np.full(4_000, 10.0)
    price[::15] = 50.0  # at most 14 rows that may be A or B: 2 ** 14 ways
    table = pa.table({"symbol": ["X"] * len(price), "ts": np.arange(len(price)), "price": price})
    with pytest.raises(EpisodeDataError, match="more than 2,000,000 steps in all"):
        run(spec, table)
