"""What SECURITY.md says of the source itself: who pickles, who evaluates text, who hands text to Spark."""

from __future__ import annotations

import ast
import base64
import os
import pickle
import re
from pathlib import Path

import pytest

from episode.errors import EpisodeAnalysisError
from episode.spark.stores.reading import EnvelopeOptions

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "episode"
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
LOADERS = frozenset(("pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "yaml"))
"""Modules that can run what they read."""


def trees() -> list[tuple[str, ast.Module]]:
    files = sorted(SOURCE.rglob("*.py"))
    return [(file.relative_to(SOURCE).as_posix(), ast.parse(file.read_text(encoding="utf-8"))) for file in files]


def imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.ImportFrom):
            found |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    return found


def calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def test_the_page_lists_every_file_that_pickles() -> None:
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", PAGE, re.MULTILINE)
    assert [name for name, tree in trees() if imported(tree) & LOADERS] == sorted(listed)


def test_nothing_else_loads_programs() -> None:
    """np.load and pandas can unpickle; Arrow's extension types of Python can, too."""
    for name, tree in trees():
        found = {called(node) for node in calls(tree)}
        assert not found & {"read_pickle", "load_module", "register_extension_type"}, name
        loads = [node for node in calls(tree) if called(node) == "load" and isinstance(node.func, ast.Attribute)]
        assert not [node for node in loads if ast.unparse(node.func) in ("np.load", "numpy.load")], name


def test_no_text_is_evaluated_as_python() -> None:
    assert "nothing of it is given to `eval` or `exec`" in PAGE
    for name, tree in trees():
        own = {node.func.id for node in calls(tree) if isinstance(node.func, ast.Name)}
        assert not own & {"eval", "exec", "compile", "__import__"}, name


def test_texts_of_queries_reach_spark_in_one_place() -> None:
    """Elsewhere only constants are parsed, so nothing gets around the judgement of confined texts."""
    for name, tree in trees():
        if not name.startswith("spark/") or name in ("spark/confinement.py", "spark/confinement.py"):
            continue
        for node in calls(tree):
            function = ast.unparse(node.func)
            parses = function.endswith((".expr", ".selectExpr", "spark.sql", "sparkSession.sql", ".parseExpression"))
            if not parses or not node.args:
                continue
            argument = ast.unparse(node.args[0])
            constant = isinstance(node.args[0], ast.Constant) or argument.startswith("f'timestamp_micros(")
            assert constant or "check_expression(" in argument, f"{name}: {ast.unparse(node)}"


class Hostile:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(MADE),)


MADE = Path("made-by-a-pickle")


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(pickle.dumps(Hostile())).decode(),
        "",
        "[",
        "[" * 100_000,
        "[[], null, null]",
        '[[], "{}", null]',
        '[[], "{\\"kind\\": \\"system\\"}", null]',
        '[[], "{\\"kind\\": \\"InputOrder\\", \\"keys\\": [], \\"order\\": []}", null]',
        '[[], "{\\"kind\\": \\"Packing\\", \\"nothing\\": 1}", null]',
        '[[["a"]], "{}", 1]',
    ],
)
def test_options_of_a_reader_are_not_unpickled(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "**Nothing that a statement, an option or a file can hold is unpickled.**" in PAGE
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EpisodeAnalysisError, match="set by episode itself"):
        EnvelopeOptions.read(text)
    assert list(tmp_path.iterdir()) == []
