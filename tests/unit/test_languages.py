"""Code that is for all languages asks the hooks of a language, never the types of its queries, plans and matchers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from episode.matchers.engines import ENGINES
from episode.queries.languages import LANGUAGES, language_of_plan
from tests.unit.test_imports import LANGUAGES as FOLDERS
from tests.unit.test_imports import MODULES, SHARED, SOURCE, tree_of

# Outside of the shared packages, the modules of one language are named by it.
WORDS = {"row", "rows", "railroad", "event", "events", "aggregated", "situation", "situations", "pairs", "correlation"}


def is_of_one_language(path: Path) -> bool:
    *folders, name = path.relative_to(SOURCE).with_suffix("").parts
    return "languages" in folders or bool({*folders, name.split("_")[0]} & WORDS)


def is_language(module: str) -> bool:
    """Does a module define types of one language?"""
    package, *inner = module.split(".")
    return package == "episode" and (
        inner[:2] == ["queries", "languages"]
        or (inner[:1] in [[one] for one in SHARED] and inner[1:2] in [[one] for one in FOLDERS])
    )


def types_asked_for(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The types of one language that `isinstance` is called with, and where."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if is_language(node.module) or is_language(f"{node.module}.{alias.name}")
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"isinstance", "issubclass"}
        ):
            names = (one.id for one in ast.walk(node.args[1]) if isinstance(one, ast.Name))
            yield from ((name, node.lineno) for name in names if name in imported)


@pytest.mark.parametrize(
    "path", [path for path in MODULES if not is_of_one_language(path)], ids=lambda path: str(path.relative_to(SOURCE))
)
def test_types_of_a_language_are_asked_for_in_its_rooms_alone(path: Path) -> None:
    assert list(types_asked_for(tree_of(path))) == []


def test_every_plan_has_one_language() -> None:
    plans = [plan for language in LANGUAGES.values() for plan in language.plans]
    assert len(plans) == len(set(plans))
    assert set(plans) == set(ENGINES)
    for language in LANGUAGES.values():
        for plan in language.plans:
            assert language_of_plan(object.__new__(plan)) is language


# ---- the check itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "from episode.lang.rows.syntax import MatchRecognize\nisinstance(x, MatchRecognize)",
        "from episode.plan.events.plan import EventPlan as Plan\nisinstance(x, (int, Plan))",
        "from episode.lang.events import syntax\nisinstance(x, syntax.Closure)",
        "def f():\n    from episode.queries.languages.rows import RowPatterns\n    issubclass(x, RowPatterns)",
    ],
)
def test_the_check_sees_types(code: str) -> None:
    assert len(list(types_asked_for(ast.parse(code)))) == 1


def test_the_check_leaves_shared_types_alone() -> None:
    code = "from episode.plan.pattern import PatternPlan\nisinstance(x, PatternPlan)"
    assert list(types_asked_for(ast.parse(code))) == []
