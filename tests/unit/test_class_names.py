"""A class name is defined once in the tree, so that a search for it finds what it means."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import episode


def test_class_names_are_defined_once() -> None:
    trees = (ast.parse(path.read_text()) for path in Path(episode.__file__).parent.rglob("*.py"))
    classes = (node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    counts = Counter(name for name in classes if not name.startswith("_"))
    assert {name for name, count in counts.items() if count > 1} == set()
