"""Every module has a test file of its name, or a suite that exists and covers it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("untested", ROOT / "scripts" / "untested.py")
assert _SPEC is not None
assert _SPEC.loader is not None
untested = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(untested)


def test_every_module_is_tested_somewhere() -> None:
    assert untested.untested() == []


@pytest.mark.parametrize("pattern", untested.SUITES)
def test_suites_exist_and_are_needed(pattern: str) -> None:
    assert (ROOT / untested.SUITES[pattern]).is_file()
    assert any(untested.suite_of(module) == untested.SUITES[pattern] for module in untested.modules())


@pytest.mark.parametrize(
    "test", sorted((ROOT / "tests" / "unit").glob("*/**/test_*.py")), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_tests_are_in_a_room_of_the_source(test: Path) -> None:
    room = test.parent.relative_to(ROOT / "tests" / "unit")
    assert (untested.SOURCE / room).is_dir() or room.parts[0] in {"bench", "reference"}
