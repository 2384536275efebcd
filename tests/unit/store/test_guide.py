"""The guide to live and archive is true: its code runs, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import zip_longest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "live-and-archive.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path))
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    compared = 0
    for (kind, text), following in zip_longest(blocks, blocks[1:]):
        if kind != "python" or "spark" in text:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(PAGE), "exec"), names)  # noqa: S102 - the page's own code
        if following is not None and following[0] == "text":
            assert printed.getvalue() == following[1]
            compared += 1
    assert compared >= 4
