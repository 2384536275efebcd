"""requirements-dev.lock has a version of every package that pyproject.toml asks for, and names no host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")
PINS = [Requirement(line) for line in TEXT.splitlines() if not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = [one for extra in PROJECT["optional-dependencies"].values() for one in extra]
ASKED = [one for one in map(Requirement, PROJECT["dependencies"] + EXTRAS) if one.name != PROJECT["name"]]


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("python", ["3.10.0", "3.11.0", "3.13.0"])
def test_one_version_is_right(asked: Requirement, python: str) -> None:
    environment = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    named = [one for one in PINS if canonicalize_name(one.name) == canonicalize_name(asked.name)]
    chosen = [one for one in named if one.marker is None or one.marker.evaluate(environment)]
    assert len(chosen) == 1
    (pin,) = chosen[0].specifier
    assert pin.operator == "=="
    assert asked.specifier.contains(pin.version)


def test_no_host_is_named() -> None:
    assert "://" not in TEXT
    assert "--" not in "".join(line for line in TEXT.splitlines() if not line.startswith("#"))
