"""What rules share: shown by counts of conditions that were evaluated and of rows that rules were fed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeDataError
from episode.lang.table_patterns import pattern_of
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.spec import Member, RuleSetSpec, rule_groups
from episode.matchers.running import LocalRun
from episode.plan.options import RunOptions
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.queries.languages import language_of

TYPES = {"k": "bigint", "ts": "bigint", "kind": "string", "v": "double"}
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("kind", pa.string()), ("v", pa.float64())])
EVENTS = pa.table(
    {
        "k": [1, 1, 1, 2, 2, 2, 3, 3],
        "ts": [1, 2, 3, 1, 2, 3, 1, 2],
        "kind": ["login", "fail", "pay", "login", "pay", "pay", "view", "view"],
        "v": [1.0, 5.0, 9.0, 1.0, 3.0, 9.0, 2.0, 1.0],
    },
    schema=SCHEMA,
)


def spec_of(text: str, **said: object) -> object:
    query = pattern_of(text)
    language = language_of(query)
    kind = {"type_column": "kind"} if language.name == "event pattern" else {}
    given = {"time": "ts", "key": ("k",), **kind} if language.arguments else {}
    plan = language.bind(query, Input(InputSchema(TYPES)), Given(**{**given, **said}), RunOptions())
    return language.spec(plan, SCHEMA)


def one_group(rules: dict[str, str]) -> RuleSetSpec:
    (group,) = rule_groups([(name, spec_of(text)) for name, text in rules.items()], SCHEMA)  # type: ignore[misc]
    return group


def fed(group: RuleSetSpec) -> RuleSetMatcher:
    running = LocalRun(group)
    assert isinstance(running.matcher, RuleSetMatcher)
    list(running.matcher.feed(running.events(EVENTS), END_OF_TIME))
    return running.matcher


def test_an_equal_condition_is_evaluated_once() -> None:
    text = "PATTERN SEQ(login a, pay b) WHERE b.v > {} WITHIN 10 RETURN b.v AS v"
    one = fed(one_group({"r0": text.format(8)})).report()
    same = fed(one_group({f"r{at}": text.format(8) for at in range(20)})).report()
    other = fed(one_group({f"r{at}": text.format(at) for at in range(20)})).report()
    assert (one.conditions, same.conditions) == (3, 3)  # kind = 'login', kind = 'pay', v > 8
    assert other.conditions == 2 + 20
    assert same.rows == 20 * one.rows


def test_conditions_beside_those_on_strings_are_tested_on_their_rows_alone() -> None:
    report = fed(one_group({"r": "PATTERN SEQ(login a, fail b) WHERE b.v > 4 WITHIN 10"})).report()
    kinds, of_kind = 5, 1  # login, fail, pay, view and null; one row is of the kind fail
    assert report.tested == 2 * kinds + of_kind


def test_a_rule_whose_events_are_not_there_is_not_opened() -> None:
    rules = {"some": "PATTERN SEQ(login a, pay b) WITHIN 10", "none": "PATTERN SEQ(login a, refund b) WITHIN 10"}
    matcher = fed(one_group(rules))
    assert matcher.rules["none"].matcher is None
    assert matcher.rules["some"].matcher is not None
    assert matcher.report().skipped == 1


def test_partitions_without_what_every_match_needs_are_left_out() -> None:
    text = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.v AS b PATTERN (A B) DEFINE B AS kind = 'fail')"
    matcher = fed(one_group({"r": text}))
    assert matcher.report().rows == 3  # those of the partition with a failure
    unmatched = text.replace("PATTERN", "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN")
    assert fed(one_group({"r": unmatched})).report().rows == len(EVENTS)


def test_columns_are_put_into_lanes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from episode.matchers import encoding
    from episode.matchers.rules import batches

    calls = []

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return encoding.encode(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(batches, "encode", counted)
    text = "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS v PATTERN (A B) DEFINE B AS v > PREV(v) - 9{})"
    matcher = fed(one_group({f"r{at}": text.format(at) for at in range(8)}))
    assert len(calls) == 1
    assert matcher.report().feeds == 8


def test_rules_of_one_order_are_one_group() -> None:
    rows = "MATCH_RECOGNIZE ({} ORDER BY ts MEASURES A.v AS v PATTERN (A) DEFINE A AS v > 1)"
    specs = [
        ("row", spec_of(rows.format("PARTITION BY k"))),
        ("event", spec_of("PATTERN SEQ(login a, pay b) WITHIN 10")),
        ("situation", spec_of("DEFINE A AS v > 1, B AS v < 3 PATTERN A before B WITHIN 5")),
        ("keyless", spec_of(rows.format(""))),
    ]
    groups = rule_groups(specs, SCHEMA)  # type: ignore[arg-type]
    assert [[member.name for member in group.members] for group in groups] == [
        ["row", "event", "situation"],
        ["keyless"],
    ]
    assert groups[0].pool == groups[1].pool
    assert groups[0].input_order.needs_time


def test_an_error_of_the_data_names_its_rule() -> None:
    rules = {
        "good": "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS v PATTERN (A) DEFINE A AS v > 1)",
        "bad": "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS v AFTER MATCH SKIP TO A PATTERN (A))",
    }
    with pytest.raises(EpisodeDataError, match=r"^Rule bad: "):
        fed(one_group(rules))


# ---- state -----------------------------------------------------------------------------------------------

LATER = "PATTERN SEQ(login a, pay b) WITHIN 10 RETURN b.v AS v"
OTHER = "PATTERN SEQ(login a, fail b) WITHIN 10 RETURN b.v AS v"


def batch(rows: list[int], group: RuleSetSpec) -> EventBatch:
    return LocalRun(group).events(EVENTS.take(rows))


def test_what_matchers_say_of_themselves_is_that_of_all_rules() -> None:
    group = one_group({"a": LATER, "b": OTHER, "none": "PATTERN SEQ(x a, y b) WITHIN 3"})
    matcher = RuleSetMatcher(group)
    assert (matcher.state_rows, matcher.given_up, matcher.wakes_at) == (0, 0, None)
    list(matcher.feed(batch([0, 3], group), 1))
    assert matcher.state_rows == 4  # two logins, for each of two rules
    assert len(matcher.live_keys) == 2
    keys, times = matcher.open_from
    assert np.array_equal(keys, matcher.live_keys)
    assert times.tolist() == [1, 1]


def test_a_pool_has_as_many_columns_as_the_widest_rules() -> None:
    specs = [
        (str(at), spec_of(f"PATTERN SEQ(login a, pay b) WITHIN {at + 1} RETURN a.v AS x, b.v AS y")) for at in range(9)
    ]
    (group,) = rule_groups(specs, SCHEMA)  # type: ignore[arg-type]
    assert len({member.columns for member in group.members}) == 1
    assert len(group.pool) == 1 + len(group.members[0].columns)
    assert isinstance(group.members[0], Member)


def test_explain_says_what_is_shared() -> None:
    rules = {"one": LATER, "two": LATER.replace("10", "20"), "three": OTHER}
    matches = episode.match_all_local(EVENTS, rules, time="ts", key="k", type_column="kind")
    assert matches.counts == {"one": 3, "two": 3, "three": 1}
    assert matches.report.conditions == 3
    assert "6 asked, 3 different, in 3 classes of rows" in matches.explain()


# ---- prefixes ------------------------------------------------------------------------------------------


def many_events(kinds: list[str], rows: int = 6_000) -> pa.Table:
    """Events of a few keys, one for each unit of time, with random kinds and values."""
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "k": rng.integers(0, 3, rows),
            "ts": np.arange(rows),
            "kind": [kinds[at] for at in rng.integers(0, len(kinds), rows)],
            "v": rng.random(rows),
        },
        schema=SCHEMA,
    )


ALIKE = "PATTERN SEQ(view a{0}, search b{0}, pay c) WHERE a{0}.v > b{0}.v + 0.99 AND c.v > 0.{0} WITHIN 1{0}0"


def rows_and_prefixes(rules: dict[str, str], events: pa.Table) -> tuple[int, int]:
    running = LocalRun(one_group(rules))
    matcher = running.matcher
    assert isinstance(matcher, RuleSetMatcher)
    list(matcher.feed(running.events(events), END_OF_TIME))
    return matcher.report().rows, matcher.report().prefixes


def test_events_of_a_selective_prefix_are_found_once() -> None:
    events = many_events(["view", "search", "pay"])
    rules = {f"r{at}": ALIKE.format(at) for at in range(1, 8)}
    alone = sum(rows_and_prefixes({name: text}, events)[0] for name, text in rules.items())
    together, found = rows_and_prefixes(rules, events)
    assert found == 1
    assert together < alone / 2


def test_a_prefix_is_not_looked_for_where_that_does_not_pay() -> None:
    rules = {f"r{at}": ALIKE.format(at) for at in range(1, 8)}
    rare = many_events(["view", "search"] * 2_000 + ["pay"])  # by their times alone few events can be in a match
    assert rows_and_prefixes(rules, rare)[1] == 0
    every = {name: text.replace("+ 0.99", "- 1") for name, text in rules.items()}  # the condition always holds
    assert rows_and_prefixes(every, many_events(["view", "search", "pay"]))[1] == 0


def test_each_rule_shares_the_longest_prefix_that_another_has() -> None:
    three = "PATTERN SEQ(view a, search b, pay c, {} d) WHERE a.v > b.v AND b.v > c.v WITHIN 9"
    two = "PATTERN SEQ(view x, search y, {} d) WHERE x.v > y.v WITHIN 20"
    texts = [three.format("login"), three.format("view"), two.format("login"), two.format("pay"), two.format("fail")]
    other = "PATTERN SEQ(view x, search y) WHERE x.v > y.v + 1 WITHIN 20"
    shared = one_group({f"r{at}": text for at, text in enumerate([*texts, other])}).shared
    assert [sorted(one.rules) for one in shared.prefixes] == [[0, 1], [2, 3, 4]]
    assert [one.prefix.within for one in shared.prefixes] == [9, 20]


def test_without_conditions_between_events_nothing_is_shared() -> None:
    texts = {f"r{at}": f"PATTERN SEQ(view a, search b, pay c) WHERE c.v > 0.{at} WITHIN 9" for at in range(3)}
    assert not one_group(texts).shared.prefixes


def test_a_null_in_a_dictionary_is_null() -> None:
    kind = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int32()), pa.array(["login", None, "pay"]))
    events = pa.table({"k": [1, 1, 1, 1], "ts": [1, 2, 3, 4], "kind": kind, "v": [1.0, 2.0, 3.0, 4.0]})
    define = "DEFINE A AS kind = 'login', B AS kind IS NULL, C AS kind = 'pay'"
    text = f"MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(*) AS n PATTERN (A B{{2}} C) {define})"
    running = LocalRun(one_group({"r": text}))
    (found,) = running.matcher.feed(running.events(events), END_OF_TIME)
    assert found.num_rows == 1
