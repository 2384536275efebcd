"""What pages and messages say about installing works: the package is not in an index, so a source is named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from episode.errors import EXTRAS, install

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.py"), *ROOT.glob("examples/**/*.*"), *ROOT.glob("src/**/*.py"),
    *ROOT.glob("src/**/*.js"), *ROOT.glob("src/**/*.html"), *ROOT.glob("bench/*.md"),
]  # fmt: skip
BY_NAME = re.compile(r"pip install[^\n`#]*[\s'\"]episode(?![-/\w@ ]*[@/.])|['\"`]episode\[")
"""`pip install episode`, `'episode[plot]'`; but not a wheel, a path or `episode @ git+…`."""


def test_no_install_line_relies_on_an_index() -> None:
    texts = {page: page.read_text(encoding="utf-8", errors="replace") for page in PAGES}
    found = {str(page.relative_to(ROOT)): BY_NAME.findall(text) for page, text in texts.items()}
    assert {page: lines for page, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("pip install episode", True),
        ("pip install 'episode[plot]'", True),
        ("needs `episode[plot]`", True),
        ("`pip install '.[plot]'` in a clone of episode", False),
        ("pip install .   # in a clone of episode", False),
        ("python -m pip install --upgrade episode", True),
        ("pip install '.[plot]'", False),
        ("pip install -e '.[plot]'", False),
        ("bin/pip install episode-0.1.0-py3-none-any.whl", False),
        ("pip install 'episode @ git+https://example.org/episode'", False),
        ("pip install /tmp/episode-0.1.0-py3-none-any.whl", False),
    ],
)
def test_what_relies_on_an_index(line: str, wrong: bool) -> None:
    assert bool(BY_NAME.search(line)) is wrong


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")
@pytest.mark.parametrize("extra", EXTRAS)
def test_messages_name_the_packages_of_an_extra(extra: str) -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

    def packages(name: str) -> list[str]:
        found = []
        for one in extras[name]:
            own = re.fullmatch(r"episode\[(\w+)\]", one)
            found += packages(own.group(1)) if own else [re.split(r"[<>=!~ ]", one)[0]]
        return found

    assert list(EXTRAS[extra]) == packages(extra)
    assert all(package in install(extra) for package in EXTRAS[extra])
