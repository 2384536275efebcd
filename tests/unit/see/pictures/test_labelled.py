"""Matches with their rows and labels, beside what the queries themselves put out when they are asked for all of it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import episode
from episode.lang.events.parser import parse_event_query
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.see.pictures.labelled import Labelling
from episode.see.pictures.situations import SituationLabelling
from tests.unit.see.pictures.local_input import local_input

CLAUSES = (
    ("", "PATTERN (A B+)", "B AS B.v < PREV(B.v)"),
    ("AFTER MATCH SKIP TO NEXT ROW", "PATTERN (A B+ C?)", "B AS B.v < PREV(B.v), C AS C.v > A.v"),
    ("AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH", "PATTERN (A B+ D+)", "B AS B.v < PREV(B.v), D AS D.v > PREV(D.v)"),
    ("AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH", "PATTERN (A B+)", "B AS B.v < PREV(B.v)"),
    ("", "PATTERN (A*)", "A AS A.v > 3"),
    ("", "PATTERN (X (A | B)+ Y) WITHIN 6", "A AS A.v > 3, B AS B.v < 3, Y AS Y.v = X.v"),
)


def rows_of(seed: int, count: int = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "k": rng.integers(0, 3, count),
            "ts": rng.permutation(count),
            "v": rng.integers(0, 6, count),
            "type": np.array(list("ABCD"))[rng.integers(0, 4, count)],
        }
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("parts", CLAUSES, ids=lambda parts: parts[1])
def test_labels_are_those_of_all_rows_per_match(seed: int, parts: tuple[str, str, str]) -> None:
    skip, pattern, defined = parts
    table = rows_of(seed)
    tail = f"{skip} {pattern} DEFINE {defined}"
    clause = f"PARTITION BY k ORDER BY ts MEASURES sum(v) AS total {tail}"
    labelling = Labelling.of(local_input(parse_clause(clause), table))
    rows = labelling.order_rows(labelling.inspected.rows({}))
    extents = labelling.extents(rows)
    found = [
        (rows.table.column("k")[int(place)].as_py(), int(number), rows.table.column("ts")[int(place)].as_py(), label)
        for number, one in zip(extents.number, labelling.label_matches(rows, extents.place))
        for place, label in zip(one.places, one.labels)
    ]
    text = f"""SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
        MEASURES MATCH_NUMBER() AS number, CLASSIFIER() AS label ALL ROWS PER MATCH OMIT EMPTY MATCHES {tail})"""
    expected = [
        (row["k"], row["number"], row["ts"], row["label"]) for row in episode.sql_local(text, t=table).to_pylist()
    ]
    assert sorted(found) == sorted(expected)
    assert [len(one.places) for one in labelling.label_matches(rows, extents.place)] == extents.count.tolist()


def test_some_matches_in_any_order() -> None:
    clause = parse_clause("PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)")
    labelling = Labelling.of(local_input(clause, rows_of(1, 300)))
    rows = labelling.order_rows(labelling.inspected.rows({}))
    extents = labelling.extents(rows)
    every = labelling.label_matches(rows, extents.place)
    some = labelling.label_matches(rows, extents.place[[5, 0, 3]])
    assert [one.places.tolist() for one in some] == [every[at].places.tolist() for at in (5, 0, 3)]
    assert extents.first.tolist() == [one.places[0] for one in every]
    assert extents.last.tolist() == [one.places[-1] for one in every]


def test_rows_in_exclusions_are_shown_too_and_no_column_is_read_for_the_output_alone() -> None:
    text = """PARTITION BY k ORDER BY ts MEASURES A.v AS a ALL ROWS PER MATCH PATTERN (A {- B+ -} C)
        DEFINE B AS B.v < PREV(B.v), C AS C.v > PREV(C.v)"""
    labelling = Labelling.of(local_input(parse_clause(text), rows_of(2, 300)))
    assert set(labelling.plan.input_columns) == {"k", "ts", "v"}
    rows = labelling.order_rows(labelling.inspected.rows({}))
    labels = [one.labels for one in labelling.label_matches(rows, labelling.extents(rows).place)]
    assert labels
    assert all(set(one) == {"A", "B", "C"} for one in labels)


PATTERNS = (
    "PATTERN A; !B; C WITHIN 12",
    "PATTERN A a; B+ b; C c WHERE b.v > 2 WITHIN 15",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip-till-next-match AND b[i].v > a.v WITHIN 20",
    "PATTERN A & B WITHIN 6",
    "PATTERN A; (B | C) WITHIN 5",
    "PATTERN A a; B+ b; C c WHERE sum(b.v) > 4 WITHIN 15",
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pattern", PATTERNS)
def test_variables_are_those_of_the_events_returned(seed: int, pattern: str) -> None:
    table = rows_of(seed)
    given = {"time": "ts", "key": ("k",), "type_column": "type"}
    labelling = Labelling.of(local_input(parse_event_query(pattern), table, **given))
    rows = labelling.order_rows(labelling.inspected.rows({}))
    extents = labelling.extents(rows)
    found = []
    for one in labelling.label_matches(rows, extents.place):
        times: dict[str, list[int]] = {}
        for place, label in zip(one.places, one.labels):
            times.setdefault(label, []).append(rows.table.column("ts")[int(place)].as_py())
        found.append(sorted((name, tuple(own)) for name, own in times.items()))
    expected = []
    for row in episode.match_local(table, pattern, time="ts", key="k", type_column="type").to_pylist():
        events = {name: value for name, value in row.items() if name not in ("match_start", "match_end")}
        lists = {name: value if isinstance(value, list) else [value] for name, value in events.items() if value}
        expected.append(sorted((name, tuple(one["ts"] for one in own)) for name, own in lists.items()))
    assert sorted(found) == sorted(expected)
    assert len(extents) == len(expected)


@pytest.mark.parametrize("seed", range(6))
def test_situations_end_as_the_engine_says(seed: int) -> None:
    table = rows_of(seed, 200)
    text = (
        "DEFINE a AS v > 2 AT LEAST 2, b AS v < 4 PATTERN a overlaps b; a contains b; a starts b; a during b WITHIN 60"
    )
    labelling = SituationLabelling.of(local_input(parse_situation_query(text), table, time="ts", key=("k",)))
    rows = labelling.order_rows(labelling.inspected.rows({}))
    starts, detected = labelling.moments(rows)
    every = labelling.situations(rows)
    time = rows.table.column("ts").to_numpy()
    found = set()
    for at in range(len(detected)):
        own = {name: every[name].at(places[[at]])[0] for name, places in starts.items()}
        assert all(every[name].first[one] == starts[name][at] for name, one in own.items())
        if not any(every[name].open[one] for name, one in own.items()):
            ends = [(int(time[every[name].first[one]]), int(time[every[name].end[one]])) for name, one in own.items()]
            found.add((int(rows.table.column("k")[int(starts["a"][at])].as_py()), *ends))
    complete = episode.match_local(table, text, time="ts", key="k", detect="complete").to_pylist()
    expected = {(row["k"], *((row[name]["start"], row[name]["end"]) for name in "ab")) for row in complete}
    assert found == expected
