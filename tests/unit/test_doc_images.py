"""The pictures of the documents are those that their scripts draw, and say what the language says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pyarrow as pa

import episode
from episode.lang.situations.allen import Relation, mirror, relation_of

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_pictures(tmp_path: Path) -> None:
    for script in sorted(IMAGES.glob("draw_*.py")):
        runpy.run_path(str(script))["main"](tmp_path)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in IMAGES.glob("*.svg")}


def test_the_relations_are_those_of_the_language() -> None:
    drawn = runpy.run_path(str(IMAGES / "draw_relations.py"))["RELATIONS"]
    every = {one.name: one for relation in drawn for one in (relation, relation.swapped())}
    assert set(every) == {relation.value for relation in Relation}
    for name, one in every.items():
        a, b = ([int(10 * time) for time in ends] for ends in (one.a, one.b))
        assert relation_of(*a, *b) is Relation(name)
        assert mirror(Relation(name)) is Relation(one.mirror)


def test_the_matches_after_skipping_are_those_of_the_language() -> None:
    drawn = runpy.run_path(str(IMAGES / "draw_rows.py"))
    rows = pa.table({"n": range(len(drawn["W_PRICES"])), "price": drawn["W_PRICES"]})
    for skip in drawn["SKIPS"]:
        found = episode.sql_local(
            f"""
            SELECT first, labels FROM t MATCH_RECOGNIZE (
              ORDER BY n MEASURES FIRST(n) AS first, array_agg(CLASSIFIER()) AS labels AFTER MATCH SKIP {skip}
              PATTERN (STRT DOWN+ UP+) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))
            """,
            t=rows,
        )
        assert [(row["first"], row["labels"]) for row in found.to_pylist()] == drawn["matches"](
            drawn["W_PRICES"], skip
        ), skip


def test_late_events_are_those_at_or_before_the_watermark() -> None:
    drawn = runpy.run_path(str(IMAGES / "draw_watermark.py"))
    assert drawn["watermarks"]() == [None, -1, 7, 11, 15]
