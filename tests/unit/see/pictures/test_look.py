"""What pictures show: the key and the match that are asked for, never more than a screen holds, and words for it."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError
from episode.lang.events.parser import parse_event_query
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.see.pictures import choosing
from episode.see.pictures.choosing import Wish
from episode.see.pictures.events import look_at_events
from episode.see.pictures.look import Look
from episode.see.pictures.rows import look_at_rows
from episode.see.pictures.situations import look_at_situations
from tests.unit.see.pictures.local_input import local_input

FALL = "PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)"
ROWS = pa.table(
    {
        "k": ["x"] * 8 + ["y"] * 3,
        "ts": [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 9],
        "v": [5, 4, 3, 6, 6, 5, 6, 6, 2, 3, 1],
        "note": list("abcdefghijk"),
    }
)


def fall(table: pa.Table = ROWS, clause: str = FALL, **wish: object) -> Look:
    return look_at_rows(local_input(parse_clause(clause), table), Wish(**wish), "UTC")  # type: ignore[arg-type]


def test_the_longest_match_of_all_keys() -> None:
    look = fall()
    assert look.key == {"k": "y"}  # it lasts from 2 to 9, with two rows
    assert look.title == "y: 1 match of A B+"
    assert look.notes == ("Chosen for the longest match of 2 keys.",)
    assert [(row["x"], row["y"], row["label"]) for row in look.tables["rows"]] == [(2, 3, "A"), (9, 1, "B")]
    assert look.chosen is not None
    assert (look.chosen.first, look.chosen.last, look.chosen.rows) == (2, 9, 2)


def test_one_key_and_its_matches() -> None:
    look = fall(of="x")
    assert look.total == 2
    assert [(match.number, match.first, match.last, match.chosen) for match in look.matches] == [
        (1, 1, 3, True),
        (2, 5, 6, False),
    ]
    assert [row["label"] for row in look.tables["rows"]] == ["A", "B", "B", "A", "B"]
    assert len(look.tables["line"]) == 8
    assert look.series == "v"
    assert "Match 1 lasts from 1 to 3 and has 3 rows" in look.description
    json.dumps(look.to_dict())


def test_other_choices() -> None:
    assert fall(choose="shortest").chosen == fall(of="x", match=2).chosen
    assert fall(choose="rarest key").key == {"k": "y"}
    assert fall(match=2).key == {"k": "x"}
    assert fall(of="x", between=(4, 8)).view == (4, 8)
    chosen = fall(of="x", between=(4, 8)).chosen
    assert chosen is not None
    assert chosen.number == 2
    assert fall(of="x", most=1).notes == ("1 of the 2 matches in this range are drawn.",)
    assert fall(of="x", series="note").categories == tuple("abcdefgh")


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"of": "z"}, "The key z has no rows"),
        ({"of": {"q": 1}}, "partitioned by k"),
        ({"of": "x", "match": 3}, "match=3: the key has 2 matches"),
        ({"match": 7}, "no key has that many matches"),
        ({"choose": "best"}, "choose='best' is unknown"),
        ({"between": 5}, "two times are needed"),
        ({"of": "x", "between": (8, 4)}, "the first is after the last"),
        ({"most": 0}, "most=0: a number from 1 on"),
        ({"series": "w"}, "series='w': a column of numbers or texts is needed"),
        ({"series": 5}, "series=5: the name of a column"),
    ],
)
def test_wishes_that_cannot_be_met(wish: dict[str, object], message: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=message):
        fall(**wish)


def test_no_match_is_a_picture_too() -> None:
    look = fall(clause=FALL.replace("B.v < PREV(B.v)", "B.v > 99"))
    assert look.title == "x: no match of A B+"
    assert look.notes == ("No match in 11 rows of 2 keys; this one has most.",)
    assert look.tables["rows"] == ()
    assert look.chosen is None


def test_a_long_key_is_shown_around_the_match_and_whole_in_small() -> None:
    rng = np.random.default_rng(3)
    count = 50_000
    values = rng.integers(0, 1_000, count)
    values[30_000:30_040] = np.arange(2_000, 1_960, -1)
    table = pa.table({"k": ["x"] * count, "ts": np.arange(count), "v": values})
    look = fall(table)
    assert look.chosen is not None
    assert look.chosen.rows >= 40
    assert look.view[0] < look.chosen.first
    assert look.view[1] > look.chosen.last
    assert look.view[1] - look.view[0] < 300
    assert len(look.tables["overview"]) <= 4 * 760 // 3 + 8
    assert len(look.matches) == 12
    assert any("of the" in note and "matches in this range" in note for note in look.notes)
    whole = fall(table, between=(None, None))
    assert len(whole.tables["line"]) <= 4 * 380 + 8
    assert "50,000 rows are drawn as the extremes of 380 columns." in whole.notes
    assert max(row["y"] for row in whole.tables["line"]) == 2_000


def test_a_match_of_very_many_rows_is_marked_in_part() -> None:
    count = 20_000
    table = pa.table({"k": ["x"] * count, "ts": np.arange(count), "v": np.arange(count, 0, -1)})
    look = fall(table)
    assert look.chosen is not None
    assert look.chosen.rows == count
    assert len(look.tables["rows"]) < 2_000
    assert any("in the matches are marked" in note for note in look.notes)


def test_a_key_that_is_too_long_is_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_ROWS", 4)
    monkeypatch.setattr(
        choosing.KeyChoice, "_first_rows", lambda self, inspected, key, axis: inspected.rows(key).slice(0, 4)
    )
    assert len(fall(of="x").tables["line"]) == 4


LOG = pa.table(
    {
        "ts": [0, 1, 2, 3, 4, 6, 7, 9, 12],
        "type": ["Stop", "Start", "Task", "Task", "Task", "End", "Start", "Task", "End"],
        "seconds": [1, 1, 70, 30, 90, 1, 1, 80, 1],
    }
)
JOB = "PATTERN Start s; !Stop; Task+ t; End e; !Stop x WHERE t.seconds > 60 WITHIN 8"


def job(pattern: str = JOB, **wish: object) -> Look:
    query = parse_event_query(pattern)
    return look_at_events(local_input(query, LOG, time="ts", type_column="type"), Wish(**wish), "UTC")  # type: ignore[arg-type]


def test_events_lie_on_lanes_by_class() -> None:
    look = job(match=1)
    assert look.lanes == ("Start s", "no Stop x", "Task t", "End e")
    assert look.names == ("s", "t", "e")
    tasks = [(row["x"], row["fits"]) for row in look.tables["events"] if row["lane"] == "Task t"]
    assert sorted(tasks) == [(2, True), (3, False), (4, True), (9, True)]
    chosen = [row for row in look.tables["taken"] if row["chosen"]]
    assert [(row["x"], row["variable"]) for row in chosen] == [(1, "s"), (2, "t"), (4, "t"), (6, "e")]
    assert chosen[1]["values"] == "type Task, seconds 70"
    gathered = [(row["x"], row["x2"], row["count"]) for row in look.tables["closures"] if row["chosen"]]
    assert gathered == [(2, 4, 2)]
    assert [row["order"] for row in look.tables["links"] if row["chosen"]] == [0, 1, 2, 3]


def test_negated_stretches_are_those_that_must_be_free() -> None:
    stretches = [(row["x"], row["x2"], row["text"]) for row in job(match=1).tables["stretches"]]
    assert stretches == [(1, 2, "no Stop"), (6, 9, "no Stop")]
    leading = job("PATTERN !Stop; Task t; End e WHERE t.seconds > 60 WITHIN 11", match=1)
    assert [(row["x"], row["x2"]) for row in leading.tables["stretches"]] == [(1, 2)]
    free = job("PATTERN Start s; (!Stop; Task t) | End e", match=1)
    assert [(row["x"], row["x2"]) for row in free.tables["stretches"]] == [(1, 2)]


def test_aggregates_have_no_matches() -> None:
    query = parse_event_query("PATTERN SEQ(Start s, Task+ t[], End e) WITHIN 8 AGGREGATE count(*) AS n")
    with pytest.raises(EpisodeAnalysisError, match="AGGREGATE gives no matches that could be drawn"):
        look_at_events(local_input(query, LOG, time="ts", type_column="type"), Wish(), "UTC")


READINGS = pa.table(
    {
        "ts": [0, 60, 180, 240, 300, 360, 420],
        "temp": [70, 85, 95, 90, 75, 85, 70],
        "door": ["closed", "closed", "open", "closed", "closed", "closed", "open"],
    }
)
HOT = """DEFINE hot AS temp > 80 AT LEAST 120, open AS door = 'open'
    PATTERN hot overlaps open; hot finishes open; hot contains open WITHIN 3600"""


def hot(**given: object) -> Look:
    return look_at_situations(local_input(parse_situation_query(HOT), READINGS, time="ts", **given), Wish(), "UTC")


def test_bars_of_situations_and_the_time_gained() -> None:
    look = hot()
    bars = [(row["lane"], row["x"], row["x2"], row["role"]) for row in look.tables["situations"]]
    assert bars == [
        ("hot", 60, 300, "of the chosen match"),
        ("hot", 360, 420, "of no match"),
        ("open", 180, 240, "of the chosen match"),
        ("open", 420, 420, "of no match"),
    ]
    assert look.tables["situations"][1]["text"] == "60, too short"
    assert look.tables["situations"][3]["open"]
    assert [row["text"] for row in look.tables["relations"]] == ["hot contains open"]
    (detection,) = look.tables["detections"]
    assert (detection["x"], detection["x2"], detection["text"]) == (180, 300, "detected 120 before the end")
    assert look.series == "temp"


def test_situations_that_are_reported_when_complete_gain_nothing() -> None:
    (detection,) = hot(detect="complete").tables["detections"]
    assert detection["text"] == "detected at the end"
