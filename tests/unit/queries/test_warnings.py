"""Warnings of names that do not fit the values of the input, in process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import episode
from episode.lang.events.parser import parse_event_query
from episode.queries.language import Given
from episode.queries.languages.class_names import PIECE, Rows, rows_of_table, warn_of_class_names

EVENTS = pa.table(
    {"ts": list(range(8)), "k": list("xyxyxyxy"), "kind": list("ABCBABCC"), "note": ["B", "C"] * 4, "v": list(range(8))}
)


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The texts of all warnings of episode."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(one.message) for one in caught if issubclass(one.category, episode.EpisodeWarning)]


def warned(query: str, table: Any = EVENTS, **how: Any) -> list[str]:
    with recorded() as found:
        episode.match_local(table, query, **{"time": "ts", **how})
    return found


# ---- classes that no event has -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "absent"),
    [
        ("A; B", {}),
        ("A; X", {"X": None}),
        ("a; b", {"a": "A", "b": "B"}),
        ("SEQ(A a, Bb b)", {"Bb": None}),
        ("A; X+; B", {"X": None}),
        ("A & X", {"X": None}),
        ("SEQ(A a, SEQ(B b, X x)+)", {"X": None}),
        # what may be absent is warned of only if a value differs in nothing but case
        ("A; !X; B", {}),
        ("A; !c; B", {"c": "C"}),
        ("A; X*; B", {}),
        ("A; b*; C", {"b": "B"}),
        ("A; (B | X)", {}),
        ("A; (B | c)", {"c": "C"}),
    ],
)
def test_classes_that_no_event_has(pattern: str, absent: dict[str, str | None]) -> None:
    for table in (EVENTS, EVENTS.to_pandas(), EVENTS.set_column(2, "kind", EVENTS["kind"].dictionary_encode())):
        texts = warned(f"PATTERN {pattern} WITHIN 3", table, type_column="kind")
        assert len(texts) == len(absent)
        for text, (name, guess) in zip(texts, absent.items(), strict=True):
            assert f"No event is of the class {name}: no row has kind = '{name}'." in text
            assert (f"Did you mean '{guess}'?" in text) is (guess is not None)
            assert "Values of kind: 'A', 'B', 'C'." in text


def test_a_misspelt_class_in_sql() -> None:
    table = pa.table({"ts": [1, 2], "kind": ["order", "payment"]})
    with recorded() as found:
        episode.sql_local("SELECT * FROM EVENTS (FROM t ORDER BY ts TYPE BY kind PATTERN order; paymet) AS m", t=table)
    assert len(found) == 1
    assert "Did you mean 'payment'?" in found[0]


def test_nothing_is_known_of_a_table_without_rows() -> None:
    assert warned("PATTERN A; X", EVENTS.slice(0, 0), type_column="kind") == []
    nulls = pa.table({"ts": [1], "kind": pa.array([None], pa.string())})
    assert warned("PATTERN A; X", nulls, type_column="kind") == []


def test_all_rows_are_looked_at_before_a_warning() -> None:
    many = pa.table({"ts": list(range(2 * PIECE)), "kind": ["A"] * (2 * PIECE - 1) + ["B"]})
    assert warned("PATTERN A; B WITHIN 1", many, type_column="kind") == []
    assert len(warned("PATTERN A; C WITHIN 1", many, type_column="kind")) == 1


def test_looking_ends_when_all_names_are_found() -> None:
    pieces = 0

    def read(names: list[str]) -> Iterator[pa.Table]:
        nonlocal pieces
        for _ in range(10):
            pieces += 1
            yield EVENTS.select(names)

    rows = Rows(EVENTS.schema, read, True)
    warn_of_class_names(parse_event_query("PATTERN A; B; C"), Given(type_column="kind"), rows)
    assert pieces == 1


def test_in_a_sample_a_class_may_be_missing() -> None:
    """A rare class is not warned of; one that is like a value is."""
    rows = Rows(EVENTS.schema, rows_of_table(EVENTS).read, False)
    for pattern, count in (("A; X", 0), ("A; b", 1), ("A; !X; B", 0)):
        with recorded() as found:
            warn_of_class_names(parse_event_query(f"PATTERN {pattern}"), Given(type_column="kind"), rows)
        assert len(found) == count
        assert all("none of the rows that were looked at has" in text for text in found)


# ---- names that look like classes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("PATTERN A; B WITHIN 3", "kind"),
        ("PATTERN SEQ(A x, A y) WITHIN 3", "kind"),
        ("PATTERN B; C WITHIN 3", "kind"),
        ("PATTERN x; y WITHIN 3", "k"),
        ("PATTERN T1; T2 WITHIN 3", None),
        ("PATTERN a; b WITHIN 3", None),
        ("PATTERN A; X WITHIN 3", None),
        ("PATTERN A; B WHERE A.kind = 'A' AND B.kind = 'B' WITHIN 3", None),
        ("PATTERN A; B WHERE A.KIND <> 'A' WITHIN 3", None),
        ("PATTERN A; B WHERE [kind] WITHIN 3", None),
        ("PATTERN B; C WHERE B.kind < 'C' WITHIN 3", "note"),
        ("PATTERN A; B WHERE A.v < 3 WITHIN 3 RETURN A.kind AS a", "kind"),
    ],
)
def test_aliases_that_look_like_classes(query: str, column: str | None) -> None:
    texts = warned(query)
    assert len(texts) == (column is not None)
    assert all(f"the column {column} has" in text and f"type_column='{column}'" in text for text in texts)


def test_a_key_is_not_taken_for_classes() -> None:
    assert warned("PATTERN x; y WITHIN 3", key="k") == []
    assert warned("PATTERN x; y WITHIN 3", EVENTS.to_pandas(), key=["K"]) == []


# ---- how they are shown -------------------------------------------------------------------------------------


def test_a_warning_shows_the_line_of_the_caller_and_can_be_filtered() -> None:
    frame = pd.DataFrame({"ts": [1, 2], "kind": ["A", "B"]})
    with pytest.warns(episode.EpisodeWarning, match="class X") as caught:
        episode.match_local(frame, "PATTERN A; X", time="ts", type_column="kind")
    assert [one.filename for one in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=episode.EpisodeWarning)
        episode.match_local(frame, "PATTERN A; X", time="ts", type_column="kind")


def test_a_line_warns_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            episode.match_local(EVENTS, "PATTERN A; X", time="ts", type_column="kind")
    assert len(caught) == 1


NAMES = st.lists(st.sampled_from(["A", "a", "B", "Login", "login", "Logout", "Logoff"]), min_size=1, max_size=4)
VALUES = st.lists(st.sampled_from(["A", "B", "Login", "login ", "Logout", "", None]), max_size=5)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=200)
@given(NAMES, VALUES, st.booleans(), st.sampled_from([1, 2, PIECE]))
def test_random_names_and_values(names: list[str], values: list[str | None], encoded: bool, piece: int) -> None:
    """All classes of a sequence are needed: each without an event is warned of, and no other, if there are values."""
    places = ", ".join(f"{name} v{n}" for n, name in enumerate(names))
    query = parse_event_query(f"PATTERN SEQ({places})")
    column = pa.array(values, pa.string())
    table = pa.table({"kind": column.dictionary_encode() if encoded else column})

    def read(wanted: list[str]) -> Iterator[pa.Table]:
        return (table.select(wanted).slice(at, piece) for at in range(0, len(table), piece))

    with recorded() as found:
        warn_of_class_names(query, Given(type_column="KIND"), Rows(table.schema, read, True))
    there = {value for value in values if value is not None}
    absent = [name for name in dict.fromkeys(names) if name not in there] if there else []
    assert [text.split(":")[0] for text in found] == [f"No event is of the class {name}" for name in absent]
    for name, text in zip(absent, found, strict=True):
        alike = [value for value in there if value.strip().lower() == name.lower()]
        assert not alike or f"Did you mean {alike[0]!r}?" in text or len(alike) > 1
