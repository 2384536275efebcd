"""The pictures of the documents are those that their scripts draw, and say what the language says."""

from __future__ import annotations

import runpy
from pathlib import Path

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
