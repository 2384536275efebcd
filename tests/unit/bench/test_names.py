"""The names of `make bench NAME=…`: each is an experiment that exists, and the pages name no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from bench.__main__ import EXPERIMENTS

ROOT = Path(__file__).parents[3]
FOLDERS = ("bench", "docs", "src", "tests", "examples", "scripts")
README = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_experiment_exists(name: str) -> None:
    module, *parts = EXPERIMENTS[name][0].split()
    tree = ast.parse((ROOT / "bench" / f"{module}.py").read_text(encoding="utf-8"))
    assert "__main__" in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    known = [
        {key.value for key in node.value.keys if isinstance(key, ast.Constant)}
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "EXPERIMENTS"
        if isinstance(node.value, ast.Dict)
    ]
    assert set(parts) <= set().union(*known)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_page_of_experiments_has_the_name(name: str) -> None:
    module, *parts = EXPERIMENTS[name][0].split()
    rows = [line for line in README.splitlines() if f"`make bench NAME={module if parts else name}`" in line]
    assert len(rows) == 1
    assert all(f"-{part}`" in rows[0] for part in parts)


def test_pages_and_sources_name_experiments_that_exist() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in {".md", ".py", ".xml"}]
    texts = [path.read_text(encoding="utf-8") for path in [*files, *ROOT.glob("*.md")] if "data" not in path.parts]
    found = {name for text in texts for name in re.findall(r"make bench NAME=([a-z-]+)", text)}
    assert found <= set(EXPERIMENTS)
    assert len(found) > 20
    assert not [text[:60] for text in texts if re.search(r"make bench-[a-z]", text)]
