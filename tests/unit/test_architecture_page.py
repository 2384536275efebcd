"""docs/architecture.md tells the truth: its table of packages is the import rule, and the files it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.test_imports import ALLOWED, ALLOWED_LAZILY, SOURCE

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
LANGUAGES = ("rows", "events", "situations")
ROOM_NAMES = {*LANGUAGES, "correlation"}
ROOMS = ("lang", "plan", "matchers")


def tables() -> list[list[list[str]]]:
    """The tables of the page, as rows of cells without their headings."""
    found = re.findall(r"(?:^\|.*\|\n)+", PAGE, flags=re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]] for table in found
    ]


def test_the_table_of_packages_is_the_import_rule() -> None:
    packages = {row[0].strip("`"): row[2] for row in tables()[0]}
    assert set(packages) == {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} - {"terminal"}
    for package, cell in packages.items():
        lazy = {f"episode.{name}" for name in re.findall(r"\*`(\w+)`\*", cell)}
        eager = {f"episode.{name}" for name in re.findall(r"`(\w+)`", cell)} - lazy
        assert eager == ALLOWED[package] - {"episode"}  # the public interface
        assert lazy == ALLOWED_LAZILY.get(package, set())


@pytest.mark.parametrize("row", tables()[1], ids=lambda row: row[0])
def test_every_language_has_the_same_files(row: list[str]) -> None:
    for language in LANGUAGES:
        assert (SOURCE / row[0].strip("`").replace("<language>", language)).is_file()


def test_every_room_has_every_language() -> None:
    for room in ROOMS:
        inside = {path.name for path in (SOURCE / room).iterdir() if (path / "__init__.py").exists()}
        further = {"matchers": {"rules"}}.get(room, set())
        assert inside == ROOM_NAMES | further


@pytest.mark.parametrize("row", tables()[2], ids=lambda row: row[0])
def test_what_is_shared_is_there(row: list[str]) -> None:
    for name in re.findall(r"`([\w/]+\.py)`", row[0]):
        assert (SOURCE / name).is_file()
