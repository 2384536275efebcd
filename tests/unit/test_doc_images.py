"""The pictures of the documents are those that their script draws."""

from __future__ import annotations

import runpy
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def test_trees(tmp_path: Path) -> None:
    runpy.run_path(str(IMAGES / "draw_trees.py"))["main"](tmp_path)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in IMAGES.glob("*.svg")}
