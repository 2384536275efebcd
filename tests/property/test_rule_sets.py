"""The law of rule sets: a rule gives among others what it gives alone, however the input is cut and the state moved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeError
from episode.matchers.events import prefixes as event_prefixes
from episode.matchers.events.prefixes import MOST_RECORDS, EventPrefix
from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.times import NEVER
from tests.reference import generate_events, generate_situations
from tests.reference.generate import clauses, tables
from tests.support import events as of_events
from tests.support import rows as of_rows
from tests.support import situations as of_situations
from tests.support.rules import alone, together

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(
    specs: Sequence[MatcherSpec | None], pieces: list[pa.Table], until: list[int], restore: bool, coded: bool = False
) -> None:  # fmt: skip
    """Rules that fail on these data are left out: see test_an_error_of_the_data_names_its_rule."""
    named: dict[str, MatcherSpec] = {}
    expected = {}
    for number, spec in enumerate(one for one in specs if one is not None):
        try:
            expected[f"rule {number}"] = alone(spec, pieces, until)
            named[f"rule {number}"] = spec
        except EpisodeError as error:
            note(str(error))
    assume(len(named) > 1)
    assert together(named, pieces, until, restore, coded) == expected


def planned(make: Any, *arguments: Any, **options: Any) -> MatcherSpec | None:
    """The spec; None for what is refused at plan time."""
    try:
        return make(*arguments, **options)
    except EpisodeError as error:
        note(str(error))
        return None


def cut(data: st.DataObject, rows: list[Any], times: list[int]) -> tuple[list[list[Any]], list[int]]:
    """Pieces of rows in order of time, and up to when the input is complete with each; often one whole piece."""
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(rows) - 1)), max_size=3)))
    bounds = [0, *cuts, len(rows)]
    pieces = [rows[a:b] for a, b in pairwise(bounds)]
    until = [min(times[b:], default=END_OF_TIME) - 1 if b < len(rows) else END_OF_TIME for b in bounds[1:]]
    return pieces, until


@SETTINGS
@given(st.lists(clauses(), min_size=2, max_size=4), tables(max_rows=12), st.data())
def test_row_patterns(texts: list[str], rows: list[dict[str, Any]], data: st.DataObject) -> None:
    specs = [planned(of_rows.spec_of, text) for text in texts]
    pieces, until = [rows], [END_OF_TIME]
    if data.draw(st.booleans()):
        specs = [one for one in specs if one is not None and _by_time(one)]
        rows = sorted((row for row in rows if row["ts"] is not None), key=lambda row: row["ts"])
        pieces, until = cut(data, rows, [row["ts"] for row in rows])
    schema = pa.schema(list(of_rows.ARROW_TYPES.items()))
    parts = [pa.Table.from_pylist(piece, schema=schema) for piece in pieces]
    check(specs, parts, until, data.draw(st.booleans()), data.draw(st.booleans()))


def _by_time(spec: Any) -> bool:
    order = spec.plan.order
    return bool(order) and order[0].column == "ts" and order[0].ascending


@SETTINGS
@given(st.lists(generate_events.cases(), min_size=2, max_size=4), st.data())
def test_event_patterns(cases: list[generate_events.Case], data: st.DataObject) -> None:
    specs = [planned(of_events.spec_of, one.text, typed=one.typed, key=one.key, strategy=one.strategy) for one in cases]
    events = max((one.events for one in cases), key=len)
    pieces, until = cut(data, events, [event.te for event in events])
    tables_ = [of_events.table_of(piece) for piece in pieces]
    check(specs, tables_, until, data.draw(st.booleans()), data.draw(st.booleans()))


@SETTINGS
@given(st.lists(generate_situations.cases(max_events=8), min_size=2, max_size=4), st.data())
def test_situation_patterns(cases: list[generate_situations.Case], data: st.DataObject) -> None:
    specs = [planned(of_situations.spec_of, one.text, one.pattern.detect) for one in cases]
    events = sorted((event for one in cases for event in one.events), key=lambda event: event.time)
    pieces, until = cut(data, events, [event.time for event in events])
    check(specs, [of_situations.table_of(piece) for piece in pieces], until, data.draw(st.booleans()))


# ---- a mix of languages over one table ----------------------------------------------------------------

KINDS = ["a", "b", "c", "d"]
TYPES = {"k": "int", "ts": "bigint", "kind": "string", "v": "double"}
SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("kind", pa.string()), ("v", pa.float64())])
NUMBERS = st.sampled_from([1, 2, 3, 4])


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """The text of a rule, and what is said beside it."""
    first, second, third = (draw(st.sampled_from([*KINDS, "z"])) for _ in range(3))
    low, high, within = draw(NUMBERS), draw(NUMBERS), draw(st.sampled_from([3, 5, 20]))
    keyed = draw(st.booleans())
    row_key = "PARTITION BY k" if keyed else ""
    given = {"time": "ts", "key": ("k",) if keyed else ()}
    shape = draw(st.integers(0, 7))
    if shape == 0:
        return f"PATTERN SEQ({first} x, {second} y) WHERE y.v > {low} WITHIN {within} RETURN x.v AS a, y.ts AS b", given
    if shape == 1:
        return f"PATTERN {first} x; !{second} n; {third} y WHERE x.v <= y.v WITHIN {within} RETURN y.v AS v", given
    if shape == 2:
        strategy = draw(st.sampled_from(["skip-till-next-match", "skip-till-any-match", "strict-contiguity"]))
        return f"PATTERN SEQ({first} x, {second}+ y[], {third} z) WITHIN {within} RETURN count(y[].v) AS n", {
            **given, "strategy": strategy,
        }  # fmt: skip
    if shape == 3:
        return f"PATTERN SEQ({first} x, {second} y) WHERE x.v > {low} WITHIN {within} AGGREGATE count(*) AS n", given
    if shape == 4:
        both = f"DEFINE P AS v > {low}, Q AS kind = '{first}' PATTERN P before Q; P overlaps Q WITHIN {within}"
        return f"{both} RETURN P.start AS s, max(Q.v) AS m", given
    rows = draw(st.sampled_from(["ONE ROW PER MATCH", "ALL ROWS PER MATCH", "ALL ROWS PER MATCH WITH UNMATCHED ROWS"]))
    if shape == 5:
        measures = "MEASURES MATCH_NUMBER() AS n, FIRST(ts) AS t, sum(v) AS total"
        return (
            f"MATCH_RECOGNIZE ({row_key} ORDER BY ts {measures} {rows} PATTERN (X Y+) DEFINE X AS kind = '{first}', "
            f"Y AS v > PREV(v) AND v > {low})"
        ), {}
    if shape == 6:
        return (
            f"MATCH_RECOGNIZE ({row_key} ORDER BY ts MEASURES CLASSIFIER() AS c {rows} AFTER MATCH SKIP TO NEXT ROW "
            f"PATTERN (X? (Y | Z)) DEFINE X AS v < {low}, Y AS kind = '{second}' AND v > {high}, Z AS kind IS NULL)"
        ), {}
    return (
        f"MATCH_RECOGNIZE ({row_key} ORDER BY ts DESC MEASURES LAST(X.v) AS v, count(*) AS n {rows} "
        f"PATTERN (X{{2}}) DEFINE X AS kind IN ('{first}', '{second}') AND v * 2 > {low})"
    ), {}


def spec_of(text: str, said: dict[str, Any]) -> MatcherSpec | None:
    from episode.lang.table_patterns import pattern_of
    from episode.plan.options import RunOptions
    from episode.plan.schema import InputSchema
    from episode.queries.language import Given, Input
    from episode.queries.languages import language_of
    from episode.queries.languages.events import strategy_of

    query = pattern_of(text, strategy_of(said.get("strategy")))
    language = language_of(query)
    own = Given(**said, **({"type_column": "kind"} if language.name == "event pattern" else {}))
    plan = language.bind(query, Input(InputSchema(TYPES, shared=True)), own, RunOptions())
    return language.spec(language.with_extent(plan)[0], SCHEMA)


@SETTINGS
@given(
    st.lists(rules(), min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([*KINDS, None]), NUMBERS | st.none()), max_size=30),
    st.data(),
)
def test_any_mix_of_languages(
    chosen: list[tuple[str, dict[str, Any]]], events: list[tuple[int, str | None, int | None]], data: st.DataObject
) -> None:
    specs = [planned(spec_of, text, said) for text, said in chosen]
    times = sorted(data.draw(st.lists(st.integers(0, 40), min_size=len(events), max_size=len(events))))
    rows = [
        {"k": k, "ts": ts, "kind": kind, "v": None if v is None else float(v)}
        for (k, kind, v), ts in zip(events, times, strict=True)
    ]
    pieces, until = [rows], [END_OF_TIME]
    if data.draw(st.booleans()):
        specs = [one for one in specs if one is not None and one.input_order.order[0].ascending]
        pieces, until = cut(data, rows, times)
    parts = [pa.Table.from_pylist(piece, schema=SCHEMA) for piece in pieces]
    restore, coded = data.draw(st.booleans()), data.draw(st.booleans())
    check(specs, parts, [max(end, NEVER) for end in until], restore, coded)


# ---- rules that begin alike ----------------------------------------------------------------------------

BETWEEN = ["{x}.v < {y}.v", "{x}.v = {y}.v", "{x}.v <> {y}.v", "{x}.v + 1 < {y}.v * 2", "abs({x}.v - {y}.v) > 1"]


@st.composite
def rules_that_begin_alike(draw: st.DrawFn) -> list[str]:
    """Sequences with the same first two events and condition between them, and whatever else."""
    first, second = (draw(st.sampled_from(KINDS)) for _ in range(2))
    between = draw(st.sampled_from(BETWEEN))
    texts = []
    for number in range(draw(st.integers(2, 4))):
        x, y = f"x{number}", f"other{number}"
        third, fourth = (draw(st.sampled_from(KINDS)) for _ in range(2))
        within = draw(st.sampled_from([2, 5, 20]))
        places = draw(
            st.sampled_from(
                [
                    f"{first} {x}, {second} {y}",
                    f"{first} {x}, {second} {y}, {third} z",
                    f"{first} {x}, !({third} n), {second} {y}, {fourth} z",
                    f"{first} {x}, {second} {y}, !({third} n)",
                    f"!({third} n), {first} {x}, {second} {y}",
                    f"{first} {x}, {second} {y}, {third} z, {fourth} w",
                ]
            )
        )
        more = f" AND z.v > {draw(NUMBERS)} AND z.v >= {x}.v" if " z" in places and draw(st.booleans()) else ""
        condition = between.format(x=x, y=y)
        texts.append(f"PATTERN SEQ({places}) WHERE {condition}{more} WITHIN {within} RETURN {x}.ts AS a, {y}.ts AS b")
    return texts


@SETTINGS
@given(
    rules_that_begin_alike(),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([*KINDS, None]), NUMBERS | st.none()), max_size=30),
    st.sampled_from([1, MOST_RECORDS]),
    st.data(),
)
def test_rules_that_begin_alike(
    texts: list[str], events: list[tuple[int, str | None, int | None]], most: int, data: st.DataObject
) -> None:
    """The events of what they have in common are found once, whether it pays or not."""
    given = {"time": "ts", "key": ("k",)}
    specs = [planned(spec_of, text, given) for text in texts]
    times = sorted(data.draw(st.lists(st.integers(0, 40), min_size=len(events), max_size=len(events))))
    rows = [
        {"k": k, "ts": ts, "kind": kind, "v": None if v is None else float(v)}
        for (k, kind, v), ts in zip(events, times, strict=True)
    ]
    pieces, until = cut(data, rows, times) if data.draw(st.booleans()) else ([rows], [END_OF_TIME])
    parts = [pa.Table.from_pylist(piece, schema=SCHEMA) for piece in pieces]
    always = patch.object(EventPrefix, "gain", lambda *_: 1.0)
    with always, patch.object(event_prefixes, "MOST_RECORDS", most):
        check(specs, parts, [max(end, NEVER) for end in until], data.draw(st.booleans()))
