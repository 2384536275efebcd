"""The templates of `make bench NAME=crimes` against two brute forces: Python's `re` over one letter for each row, and
the oracle of row patterns. The regular expressions are written from the templates' meaning, not from their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import groupby, islice, takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bench.crime_data import BEATS, SCHEMA, THOUSANDS, yearly_tables
from bench.crime_queries import BOX, FIXED_BEAT, FIXED_DISTRICT, SAME_BEAT, TEMPLATES, Template

import episode
from episode.lang.rows.parser import parse_clause
from tests.reference.row_patterns import evaluate

Row = dict[str, Any]

LETTERS = {
    "THEFT": "T",
    "BATTERY": "B",
    "CRIMINAL DAMAGE": "D",
    "ASSAULT": "A",
    "ROBBERY": "R",
    "BURGLARY": "U",
    "MOTOR VEHICLE THEFT": "M",
    "GAMBLING": "-",
}
AFTER_FIRST = {
    "sequence with gaps": ("R", ".*(B).*(M)"),
    "adjacent sequence": ("T", "(B)(T)(D)(B)(T)(B)"),
    "closures": ("T", "(B)+(D)(T)+(B)(D)+"),
    "alternation": ("AR", "(T)|(B)"),
    "alternation of closures with gaps": ("U", ".*(?:(D)+|(A)+).*(T)"),
    "nested closures": ("D", "(?:(T)+(B))+(D)"),
}
"""By pattern: the letters of the first crime, and the rows after it. A group holds the last row of a label."""


def dense_crimes(rows: int, seed: int) -> pa.Table:
    """Crimes of few types, in runs of one beat, two minutes apart: every template matches."""
    draw = np.random.default_rng(seed)
    beat = np.repeat(np.array([1411, 1412, 2232], np.int32)[draw.integers(0, 3, rows)], draw.integers(1, 20, rows))[
        :rows
    ]
    minutes = np.cumsum(draw.integers(0, 5, rows) + 40 * (draw.random(rows) < 0.02))
    columns = {
        "id": draw.permutation(rows),
        "datetime": pa.array(minutes * 60_000_000).cast(pa.timestamp("us", tz="UTC")),
        "primary_type": np.array(list(LETTERS))[draw.choice(8, rows, p=[0.33, 0.33, 0.19, *5 * [0.03]])],
        "district": beat // 100,
        "beat": beat,
        "latitude": 41.8 + 0.03 * draw.random(rows).round(3),
        "longitude": -87.7 + 0.03 * draw.random(rows).round(3),
    }
    return pa.table({field.name: pa.array(columns[field.name]).cast(field.type) for field in SCHEMA})


@pytest.fixture(scope="module")
def many() -> pa.Table:
    return dense_crimes(20_000, seed=1)


@pytest.fixture(scope="module")
def many_rows(many: pa.Table) -> list[Row]:
    return many.to_pylist()


def matches_by_re(template: Template, rows: list[Row]) -> Iterator[tuple]:
    by_beat = template.place == SAME_BEAT
    rows = sorted(rows, key=lambda row: (row["beat"] if by_beat else 0, row["datetime"], row["id"]))
    for _, partition in groupby(rows, key=lambda row: row["beat"] if by_beat else 0):
        ordered = list(partition)
        for place, first in enumerate(ordered):
            yield from match_from(template, first, islice(ordered, place + 1, None))


def match_from(template: Template, first: Row, later: Iterator[Row]) -> Iterator[tuple]:
    firsts, pattern = AFTER_FIRST[template.shape.name]
    letter = LETTERS[first["primary_type"]]
    if letter not in firsts or not near(template, first, first):
        return
    within = list(takewhile(lambda row: row["datetime"] - first["datetime"] <= timedelta(minutes=30), later))
    text = "".join(LETTERS[row["primary_type"]] if near(template, first, row) else "-" for row in within)
    if found := re.match(pattern, text):
        start = [first["id"] if letter == one else None for one in firsts]
        groups = range(1, found.re.groups + 1)
        yield *start, *(within[found.start(group)]["id"] if found[group] else None for group in groups)


def near(template: Template, first: Row, row: Row) -> bool:
    match template.place:
        case place if place == BOX:
            return all(-0.025 <= row[axis] - first[axis] <= 0.025 for axis in ("latitude", "longitude"))
        case place if place == FIXED_DISTRICT:
            return row["district"] == 14
        case place if place == FIXED_BEAT:
            return row["beat"] == 2232
        case _:
            return True


def in_order(matches: list[tuple]) -> list[tuple]:
    return sorted(matches, key=lambda ids: [-1 if one is None else one for one in ids])


def matches_of(query: str, table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in episode.sql_local(query, crimes=table).to_pylist()]


def test_the_templates_are_nineteen() -> None:
    assert len({template.name for template in TEMPLATES}) == 19
    assert len({template.query for template in TEMPLATES}) == 19


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_template_matches_what_a_regular_expression_does(
    template: Template, many: pa.Table, many_rows: list[Row]
) -> None:
    expected = in_order(list(matches_by_re(template, many_rows)))
    assert expected
    assert in_order(matches_of(template.query, many)) == expected


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
def test_a_template_matches_what_the_oracle_does(template: Template) -> None:
    """Times are whole minutes here: the oracle has no intervals."""
    clause, query = (text.replace("INTERVAL '30' MINUTE", "30") for text in (template.clause, template.query))
    for seed in range(10):
        table = dense_crimes(18, seed)
        minutes = pc.divide(table["datetime"].cast(pa.int64()), 60_000_000)
        table = table.set_column(1, "datetime", minutes)
        expected = evaluate(parse_clause(clause), table.to_pylist(), columns=table.column_names)
        ids = [tuple(row[name] for name in template.measures) for row in expected]
        assert in_order(matches_of(query, table)) == in_order(ids)


def test_crimes_are_in_order_and_a_smaller_set_is_a_prefix() -> None:
    large, small = (pa.concat_tables(yearly_tables(rows)) for rows in (400_000, 1_000))
    assert large.num_rows == 400_000
    assert large.slice(0, 1_000).equals(small)
    time = large["datetime"].cast(pa.int64()).to_numpy()
    assert (np.diff(time) >= 0).all()
    assert (time % 60_000_000 == 0).all()
    assert large["id"].to_pylist() == list(range(1, 400_001))
    assert np.isin(large["beat"].to_numpy(), BEATS).all()
    assert (large["beat"].to_numpy() // 100 == large["district"].to_numpy()).all()


def test_types_have_their_shares() -> None:
    counts = Counter(next(yearly_tables(360_000))["primary_type"].to_pylist())
    for name, thousands in THOUSANDS.items():
        assert counts[name] / 360_000 == pytest.approx(thousands / sum(THOUSANDS.values()), rel=0.15, abs=0.001)
