"""Links between the documents lead somewhere, in the repository as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("examples/*.md")])
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosts of repositories make them."""
    found: dict[str, int] = {}
    anchors = set()
    for title in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title.strip()).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = found.get(anchor, 0)
        found[anchor] = number + 1
        anchors.add(f"{anchor}-{number}" if number else anchor)
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    wrong = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            wrong.append(link)
    assert not wrong
