"""The pages for contributors tell the truth: the map, the lists of modules, the numbers of decisions."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.unit.test_imports import ALLOWED, ALLOWED_LAZILY, LANGUAGES, SOURCE

DEV = Path(__file__).parents[2] / "docs" / "dev"
MAP = (DEV / "map.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in MAP.splitlines() if line.startswith("| [`")]
_SPEC = importlib.util.spec_from_file_location("room_pages", DEV.parent / "site" / "room_pages.py")
assert _SPEC is not None
assert _SPEC.loader is not None
room_pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(room_pages)
NUMBER = re.compile(r"^## (\d+)\. ", re.MULTILINE)


def decisions() -> list[int]:
    pages = sorted((DEV / "decisions").glob("*.md"))
    return [int(number) for page in pages for number in NUMBER.findall(page.read_text(encoding="utf-8"))]


def test_the_map_fits_a_screen_or_two() -> None:
    assert len(MAP.splitlines()) <= 90


def test_the_map_has_every_package() -> None:
    packages = {re.findall(r"`(\w+)`", row[0])[0] for row in ROWS}
    assert packages == {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()} - {"terminal"}


@pytest.mark.parametrize("row", [row for row in ROWS if "see the test" not in row[2]], ids=lambda row: row[0])
def test_the_map_has_the_import_rule(row: list[str]) -> None:
    package = re.findall(r"`(\w+)`", row[0])[0]
    lazy = {f"episode.{name}" for name in re.findall(r"\*`(\w+)`\*", row[2])}
    eager = {f"episode.{name}" for name in re.findall(r"`(\w+)`", row[2])} - lazy
    assert eager == ALLOWED[package]
    assert lazy == ALLOWED_LAZILY.get(package, set())


def test_the_map_names_files_that_exist() -> None:
    for name in re.findall(r"`([\w/<>]+\.py)`", MAP):
        for language in LANGUAGES[:3]:
            path = SOURCE / name.replace("<language>", language)
            assert path.is_file() or (path.parents[2] / name).is_file(), name


@pytest.mark.parametrize("page", sorted((DEV / "rooms").glob("*.md")), ids=lambda page: page.stem)
def test_lists_of_modules_are_those_of_the_source(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == room_pages.with_lists(text), "run: python docs/site/room_pages.py"


def test_every_module_is_on_a_page() -> None:
    modules = {path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    assert modules == room_pages.modules_on()


def test_decisions_are_numbered_once_and_listed() -> None:
    numbers = decisions()
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    index = (DEV / "decisions" / "README.md").read_text(encoding="utf-8")
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", index, flags=re.MULTILINE)] == sorted(numbers)


def test_decisions_that_code_refers_to_exist() -> None:
    texts = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    references = [found for text in texts for found in re.findall(r"[Dd]ecisions? ([\d and,]+\d|\d)", text)]
    numbers = {int(number) for found in references for number in re.findall(r"\d+", found)}
    assert len(numbers) >= 60
    assert numbers <= set(decisions())
