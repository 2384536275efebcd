"""Collapsed results: the numbers of matches are the oracle's, however the input is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import classes_of
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import match_partitions, run
from episode.matchers.times import NEVER
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import CLASS_COLUMN, PARTITION_COLUMN, EventTable, InputSchema
from episode.queries.languages.events import of_variables
from tests.property.test_event_pattern_laws import pieces_of
from tests.reference import event_patterns
from tests.reference.event_patterns import Event
from tests.support.events import (
    SCHEMA,
    TYPES,
    Bound,
    _positions,
    bound,
    returning_positions,
    run_whole,
    spec_of,
    table_of,
)

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))

PATTERNS = {
    "SEQ(A a, B+ b[], C c)": ("b", ("a", "c")),
    "SEQ(A a, B* b[], C c)": ("b", ("a", "c")),
    "SEQ(A a, B^2 b[], C c)": ("b", ("a", "c")),
    "SEQ(A a, B+ b[], C* c[], D d)": ("bc", ("a", "d")),
    "SEQ(A a, B* b[], C* c[], B+ d[], D e)": ("bcd", ("a", "e")),
    "SEQ(B+ b[], C c)": ("b", ("c",)),
    "SEQ(B+ b[], C* d[], A c)": ("bd", ("c",)),
    "SEQ(A a, B+ b[])": ("b", ("a",)),
    "SEQ(A a, B* b[], C+ c[])": ("bc", ("a",)),
    "SEQ(A a, B+ b[], C c, B+ d[], A e)": ("bd", ("a", "c", "e")),
    "SEQ(A a, B+ b[], C c) | SEQ(C d, B+ e[], A f)": ("be", ("a", "c", "d", "f")),
    "SEQ(A a, (C c | D d), B+ b[], A e)": ("b", ("a", "e")),
    "SEQ(A a, ~D n, C c, B+ b[], A e)": ("b", ("a", "c", "e")),
}
COUNTED = [
    "{b}[i].x > 1", "{b}[i].x > {a}.x", "{b}[i].x > {b}[i-1].x", "{b}[i].x >= {b}[i-1].y", "{b}[i].x = {b}[i-1].x",
    "{b}[i-1].x >= {b}[i].x", "{b}[i].x <= {b}[i-1].x", "{b}[i].x <> {b}[i-1].x", "{b}[i].x > max({b}[..i-1].x)",
    "{b}[i].x <= min({b}[..i-1].x)", "{b}[i].x + {b}[i-1].x > {a}.x", "abs({b}[i].x - {b}[i-1].y) <= 1",
    "count({b}[]) <= 2", "count({b}[]) > 1", "2 = count({b}[])", "count({b}[]) < 1", "count({b}[]) >= 0",
    "NOT (count({b}[]) >= 3)", "max({b}[].x) > {a}.x", "max({b}[].x) <= 2", "{a}.x < min({b}[].x)",
    "min({b}[].y) < {a}.y", "{b}[1].x > {a}.x", "{b}[last].x = {a}.x", "{b}[1].x <= 1", "{b}[last].y > 0",
]  # fmt: skip
MADE = [
    "sum({b}[].x) > 3", "avg({b}[].x) >= {a}.x", "{b}[i].x > avg({b}[..i-1].x)", "{b}[1].x < {b}[last].x",
    "{b}[i].x > {b}[i-2].x", "count({b}[]) <> 2", "max({b}[].x) = 2", "{b}[i].x > {b}[1].x",
    "max({b}[].x) - min({b}[].x) <= 1", "{b}[i].x < max({b}[..i-1].x)", "max({b}[].x) > 1 OR count({b}[]) > 2",
]  # fmt: skip


@st.composite
def queries(draw: st.DrawFn, kinds: list[str]) -> str:
    pattern = draw(st.sampled_from(list(PATTERNS)))
    closures, single = PATTERNS[pattern]
    conditions = [
        condition.format(b=draw(st.sampled_from(closures)), a=draw(st.sampled_from(single)))
        for condition in draw(st.lists(st.sampled_from(kinds), max_size=3))
    ]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"PATTERN {pattern}{where} WITHIN {draw(st.sampled_from([4, 6, 9, 100]))}"


@st.composite
def events(draw: st.DrawFn, lasting: bool = False) -> list[Event]:
    rows, at = [], 0
    for position in range(draw(st.integers(3, 10))):
        at += draw(st.sampled_from([1, 1, 1, 0]))
        values = {name: draw(st.sampled_from([0, 1, 2, 3, None])) for name in "xy"}
        values |= {"type": draw(st.sampled_from("ABBBBCCD")), "k": 1, "s": "a"}
        rows.append(Event(position, at - (draw(st.integers(0, 2)) if lasting else 0), at, values))
    return rows


def oracle(text: str, rows: list[Event]) -> Counter[tuple[tuple[str, int], ...]]:
    """How many matches there are with each choice of single events."""
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    for match in event_patterns.matches(
        parse_event_query(text), rows, member=lambda place, event: event.values["type"] == place.name
    ):
        found[tuple(sorted((k, v.position) for k, v in match.events.items() if isinstance(v, Event)))] += 1
    return found


def collapsed(spec: EventPatternSpec, found: list[tuple[Bound, Any]]) -> Counter[tuple[tuple[str, int], ...]]:
    out: Counter[tuple[tuple[str, int], ...]] = Counter()
    for one, count in found:
        single = [(name, rows[0]) for name, rows in one if name not in spec.plan.closures and rows]
        key = tuple(sorted(single))
        assert key not in out
        out[key] = int(count)
    return out


def rows_of(spec: EventPatternSpec, output: Any) -> list[tuple[Bound, Any]]:
    """Collapsed rows: positions of the events of each variable, and the number of matches."""
    columns, counts = [], []
    for measure in spec.plan.measures.measures:
        name = measure.sql.removesuffix(" END").split()[-1].strip("`")
        if measure.name == "matches":
            counts = output.column(name).to_pylist()
        elif measure.name.startswith("out_"):
            columns.append((measure.name[len("out_") :], output.column(name).to_pylist()))
    return [
        (tuple((name, _positions(values[row])) for name, values in columns), count) for row, count in enumerate(counts)
    ]


def whole(spec: EventPatternSpec, rows: list[Event]) -> list[tuple[Bound, Any]]:
    return rows_of(spec, run(spec, table_of(rows)))


def check(text: str, rows: list[Event], lasting: bool = False) -> None:
    note(text)
    note("\n".join(map(str, rows)))
    try:
        spec = spec_of(f"{text} RETURN COLLAPSED", lasting=lasting)
    except EpisodeUnsupportedError as error:
        note(str(error))
        return
    expected = oracle(text, rows)
    found = whole(spec, rows)
    assert collapsed(spec, found) == expected


@SETTINGS
@given(queries(COUNTED), events())
def test_numbers_of_choices(text: str, rows: list[Event]) -> None:
    check(text, rows)


@SETTINGS
@given(queries(COUNTED), events(lasting=True))
def test_numbers_of_choices_of_events_that_last(text: str, rows: list[Event]) -> None:
    rows.sort(key=lambda event: event.te)
    check(text, rows, lasting=True)


@SETTINGS
@given(queries(COUNTED + MADE * 3), events())
def test_numbers_of_matches_that_are_made(text: str, rows: list[Event]) -> None:
    check(text, rows)


@SETTINGS
@given(queries(COUNTED + MADE), events(), st.integers(1, 4), st.data())
def test_chunks_and_rounds_do_not_matter(text: str, rows: list[Event], size: int, data: st.DataObject) -> None:
    """Whole, in rounds of few rows, and in chunks with restarts between them."""
    try:
        spec = spec_of(f"{text} RETURN COLLAPSED")
    except EpisodeUnsupportedError:
        return
    expected = sorted(whole(spec, rows), key=str)
    assert sorted(whole(spec_of(f"{text} RETURN COLLAPSED", round_rows=size), rows), key=str) == expected
    pieces = data.draw(pieces_of(rows))
    ends = [max((e.te for e in piece), default=NEVER) for piece in pieces[:-1]] + [END_OF_TIME]
    output = run(spec, [table_of(piece) for piece in pieces], until=ends, restore=data.draw(st.booleans()))
    assert sorted(rows_of(spec, output), key=str) == expected


@SETTINGS
@given(queries(COUNTED), events())
def test_closures_have_all_events_that_matches_have(text: str, rows: list[Event]) -> None:
    try:
        spec = spec_of(f"{text} RETURN COLLAPSED")
    except EpisodeUnsupportedError:
        return
    found = {
        tuple(sorted((name, at[0]) for name, at in one if name not in spec.plan.closures and at)): dict(one)
        for one, _ in whole(spec, rows)
    }
    for match in event_patterns.matches(
        parse_event_query(text), rows, member=lambda place, event: event.values["type"] == place.name
    ):
        single = tuple(sorted((k, v.position) for k, v in match.events.items() if isinstance(v, Event)))
        for name, chosen in match.events.items():
            if not isinstance(chosen, Event):
                assert {event.position for event in chosen} <= set(found[single][name])
                assert list(found[single][name]) == sorted(found[single][name])


def expanded(text: str, rows: list[Event], at_once: int, cut: int) -> list[Bound]:
    """What expand makes of the collapsed matches, in process: their rows in batches of `cut`, matched `at_once`."""
    spec = spec_of(f"{text} RETURN COLLAPSED")
    query = of_variables(returning_positions(parse_event_query(text)))
    names = list(dict.fromkeys(one.variable for one in classes_of(query.pattern)))
    tables = {name: EventTable(number, {column: column for column in TYPES}) for number, name in enumerate(names)}
    added = [(CLASS_COLUMN, pa.int32()), (PARTITION_COLUMN, pa.int32())]
    schema = pa.schema([*((field.name, field.type) for field in SCHEMA), *added])
    events: list[dict[str, Any]] = []
    for found, _ in whole(spec, rows):
        several = [(names.index(name), rows[at]) for name, positions in found for at in positions]
        events += [
            {"pos": event.position, "ts": event.ts, "te": event.te, **event.values, CLASS_COLUMN: number,
             PARTITION_COLUMN: place}
            for place, (number, event) in enumerate(several)
        ]  # fmt: skip
    types = {**TYPES, CLASS_COLUMN: "int", PARTITION_COLUMN: "int"}
    classes = EventClasses(query, InputSchema(types), None, tables)
    plan = plan_event_pattern(query, classes, EventTimes("te", None, "bigint"), (PARTITION_COLUMN,))
    plain = EventPatternSpec(plan, schema)
    pieces = [pa.Table.from_pylist(events[low : low + cut], schema=schema) for low in range(0, len(events), cut)]
    return bound(
        plain, pa.concat_tables([plain.output_schema.empty_table(), *match_partitions(plain, pieces, at_once)])
    )


@SETTINGS
@given(queries(COUNTED + MADE), events(), st.integers(1, 20), st.integers(1, 7))
def test_expanding_gives_what_the_plain_query_gives(text: str, rows: list[Event], at_once: int, cut: int) -> None:
    note(text)
    note("\n".join(map(str, rows)))
    try:
        found = expanded(text, rows, at_once, cut)
    except EpisodeUnsupportedError:
        return
    assert sorted(found) == sorted(run_whole(spec_of(text), rows))
