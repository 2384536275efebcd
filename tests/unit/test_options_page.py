"""The page of options has every field of the class, with what the class says of it."""

from __future__ import annotations

import runpy
from dataclasses import fields
from pathlib import Path

import episode

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_that_of_the_class(tmp_path: Path) -> None:
    runpy.run_path(str(DOCS / "site" / "options_page.py"))["main"](tmp_path)
    written = (tmp_path / "options.md").read_text(encoding="utf-8")
    assert (DOCS / "options.md").read_text(encoding="utf-8") == written, "run: python docs/site/options_page.py"
    for one in fields(episode.Options):
        assert f"\n### {one.name}\n" in written
