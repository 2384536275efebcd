"""The import rules of the house: arrows point one way only, and heavy libraries stay in their rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "episode"
MODULES = sorted(SOURCE.rglob("*.py"))

# What the modules of each room may import of episode. A room may always import itself.
PUBLIC = {"episode", "episode.errors"}
EVERYWHERE = {"episode.words"}  # imports nothing itself
SEEN = {"episode.see.inspecting"}  # one pattern and its input, which rooms of see share
ALLOWED = {
    "errors": set(),
    "lang": {"episode.errors"},
    "plan": {"episode.errors", "episode.lang"},
    "native": set(),
    "matchers": {"episode.errors", "episode.plan", "episode.native"},
    "store": {"episode.errors", "episode.plan", "episode.matchers"},
    "live": {"episode.errors", "episode.plan", "episode.matchers", "episode.store"},
    "spark": {"episode.errors", "episode.paths", "episode.plan", "episode.matchers", "episode.store", "episode.live"},
    "queries": {
        "episode.errors",
        "episode.paths",
        "episode.lang",
        "episode.plan",
        "episode.matchers",
        "episode.store",
        "episode.live",
    },
    "queries.languages": {"episode.errors", "episode.lang", "episode.plan", "episode.matchers", "episode.queries"},
    "paths": set(),
    "words": set(),
    "interrupts": set(),
    "see.pictures": {"episode.errors", "episode.lang", "episode.plan", "episode.matchers", "episode.queries"},
    "see.reports": {"episode.errors", "episode.lang", "episode.plan", "episode.matchers", "episode.queries"},
    "see": {"episode.errors", "episode.lang", "episode.plan", "episode.matchers", "episode.queries"},
    "see.reasons": {"episode.errors", "episode.lang", "episode.plan", "episode.matchers", "episode.queries"},
    "sizing": {
        "episode.errors",
        "episode.paths",
        "episode.lang",
        "episode.plan",
        "episode.matchers",
        "episode.queries",
    },
    "api": {"episode.errors", "episode.lang", "episode.plan.options", "episode.queries"},
    "clients": {"episode.errors", "episode.lang", "episode.plan", "episode.queries"},
    "methods": {"episode.errors", "episode.lang", "episode.plan.options", "episode.queries", "episode.clients"},
    "auto": {"episode.methods"},
    "streams": {"episode.errors", "episode.plan", "episode.queries", "episode.store"},
    "samples": set(),
    "see.notebook": {"episode.errors", "episode.lang", "episode.queries", "episode.see.reports", "episode.terminal"},
    "see.studio": {
        "episode.errors",
        "episode.lang",
        "episode.live",
        "episode.samples",
        "episode.queries",
        "episode.terminal",
    },
    "terminal": PUBLIC,
    "demo": PUBLIC | {"episode.terminal", "episode.samples"},
    "demo_live": PUBLIC | {"episode.terminal", "episode.streams"},
    "cli": PUBLIC
    | {
        "episode.clients.jar",
        "episode.paths",
        "episode.streams",
        "episode.see.studio",
        "episode.terminal",
        "episode.demo",
        "episode.demo_live",
        "episode.samples",
    },
}
# Beyond that, inside functions only.
ALLOWED_LAZILY = {
    "queries": {"episode.spark"},
    "queries.languages": {"episode.see"},  # hooks of a language
    "see.studio": {"episode.api", "episode.see.pictures", "episode.spark"},
    "see.reports": {"episode.spark", "episode.see.pictures"},
    "see.notebook": {"episode.api", "episode.spark"},
    "see.pictures": {"episode.spark"},
    "see": {"episode.spark"},
    "sizing": {"episode.spark"},
    "api": {"episode.spark.live", "episode.see"},
    "clients": {"episode.spark"},
    "cli": {"episode.queries", "episode.see.reports", "episode.sizing", "episode.spark"},
    "terminal": {"episode.spark.errors"},
}

# In these packages what languages share stands at the root, and a folder holds what is one language's own.
SHARED = ("lang", "plan", "matchers")
LANGUAGES = ("rows", "events", "situations", "correlation")
# Rooms of no language, which know languages by the protocols alone.
FURTHER_ROOMS = {"matchers": {"code", "rules", "slices"}}
# Root modules that know all languages, because someone has to: (module, why).
COMPOSED = {
    "lang/statement.py": "finds MATCH_RECOGNIZE in a statement",
    "lang/table_patterns.py": "finds the patterns that stand in the place of a table, and says which language they are",
    "matchers/engines.py": "lists the specs of all languages",
}
# What is still to be parted: module, and what it imports of a language. The list only shrinks.
TO_BE_PARTED: set[tuple[str, str]] = set()

FREE = {"__init__"}  # the public names
LAZY_SPARK = {
    "queries",
    "clients",
    "see.reports",
    "see.notebook",
    "api",
    "methods",
    "streams",
    "cli",
    "demo",
    "see.studio",
    "terminal",
}  # may name pyspark, but not load it when they are loaded


@dataclass(frozen=True)
class Import:
    """One imported module, and whether it is imported when its importer is (and not first when a function runs)."""

    module: str
    line: int
    eager: bool


def room_of(path: Path) -> str:
    """The package under episode, or the module for those that stand alone."""
    first, *inner = path.relative_to(SOURCE).parts
    if first == "queries" and inner[0] in {"language.py", "languages"}:
        return "queries.languages"
    return f"see.{inner[0]}" if first == "see" and len(inner) > 1 else first.removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[Import]:
    tree = tree_of(path)
    yield from _imports(tree, eager=True)


def _imports(node: ast.AST, eager: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, eager) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import in line {child.lineno}"
            assert child.module is not None
            yield from (Import(_imported(child.module, alias.name), child.lineno, eager) for alias in child.names)
        elif isinstance(child, ast.Call) and _name(child.func) in {"__import__", "import_module"}:
            raise AssertionError(f"import by name in line {child.lineno}")
        elif isinstance(child, ast.If) and _name(child.test) == "TYPE_CHECKING":
            yield from (node for part in child.body for node in _imports(ast.Module([part], []), eager=False))
            yield from (node for part in child.orelse for node in _imports(ast.Module([part], []), eager=eager))
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, eager and not inside)


def _imported(module: str, name: str) -> str:
    """`from episode import lang` imports episode.lang; `from episode.lang import parse` imports episode.lang."""
    inner = SOURCE.parent.joinpath(*module.split("."), name)
    is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
    return f"{module}.{name}" if is_module else module


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def within(module: str, packages: set[str]) -> bool:
    """Whether a module is one of the packages or lies in one; `episode` stands for its public names alone."""
    return any(module == package or (package != "episode" and module.startswith(package + ".")) for package in packages)


def test_every_room_is_under_a_rule() -> None:
    assert {room_of(path) for path in MODULES} <= set(ALLOWED) | FREE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    room = room_of(path)
    found = [found for found in imports_of(path) if found.module.split(".")[0] == "episode"]
    if room in FREE:
        return
    own = {f"episode.{room}"}
    for imported in found:
        allowed = own | EVERYWHERE | ALLOWED[room] | (SEEN if room.startswith("see.") else set())
        allowed |= set() if imported.eager else ALLOWED_LAZILY.get(room, set())
        assert within(imported.module, allowed), f"{path.name}:{imported.line} imports {imported.module}"


def language_of(parts: tuple[str, ...]) -> str | None:
    """The language that a module of one of the shared packages belongs to; parts: of its path or name under episode."""
    return parts[1] if len(parts) > 1 and parts[0] in SHARED and parts[1] in LANGUAGES else None


def crossings(path: Path) -> Iterator[tuple[str, str]]:
    """What a module imports of languages that it is not one of."""
    inside = path.relative_to(SOURCE)
    for imported in imports_of(path):
        package, *names = imported.module.split(".")
        language = language_of(tuple(names)) if package == "episode" else None
        if language is not None and language != language_of(inside.parts):
            yield inside.as_posix(), imported.module


def test_languages_do_not_import_each_other() -> None:
    shared = [path for path in MODULES if room_of(path) in SHARED]
    found = {one for path in shared for one in crossings(path) if one[0] not in COMPOSED}
    assert found == TO_BE_PARTED


@pytest.mark.parametrize("module", COMPOSED)
def test_what_is_composed_knows_several_languages(module: str) -> None:
    assert list(crossings(SOURCE / module))


@pytest.mark.parametrize("package", SHARED)
def test_every_language_has_its_folder(package: str) -> None:
    folders = {path.name for path in (SOURCE / package).iterdir() if path.is_dir() and (path / "__init__.py").is_file()}
    assert folders == {*LANGUAGES, *FURTHER_ROOMS.get(package, ())}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_stay_in_their_rooms(path: Path) -> None:
    room = room_of(path)
    for imported in imports_of(path):
        library = imported.module.split(".")[0]
        where = f"{path.name}:{imported.line} imports {imported.module}"
        if library == "llvmlite":
            assert path.relative_to(SOURCE).as_posix() == "native/llvm.py", where
        if library in {"pyspark", "py4j"}:
            assert room == "spark" or (room in LAZY_SPARK and not imported.eager), where
        if room == "native":
            assert library not in {"pyarrow", "pandas"}, where


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_is_evaluated_as_python(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Name):
            assert node.id not in {"eval", "exec"}, f"{path.name}:{node.lineno} uses {node.id}"


def test_help_is_quick() -> None:
    """The command line is there without Spark, and without the compiler."""
    heavy = ("pyspark", "llvmlite", "pandas")
    code = f"import sys, episode.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_process_that_hears_of_the_state_of_a_stream_loads_no_matcher() -> None:
    """Spark starts one for each pattern of a stream, and the first micro-batch waits for it."""
    heavy = ("llvmlite", "pandas", "sqlglot", "episode.matchers")
    code = (
        f"import sys, episode.spark.stream.packed_processor; print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- the checks themselves -------------------------------------------------------------------------


def imports_in(code: str) -> list[Import]:
    return list(_imports(ast.parse(code), eager=True))


def test_the_check_sees_lazy_imports() -> None:
    found = imports_in("import a\ndef f():\n    from b.c import d\nclass K:\n    import e\n")
    assert found == [Import("a", 1, True), Import("b.c", 3, False), Import("e", 5, True)]


def test_the_check_sees_modules_imported_from_the_package() -> None:
    assert imports_in("from episode import lang")[0].module == "episode.lang"
    assert imports_in("from episode import sql")[0].module == "episode"
    assert imports_in("from episode.lang.syntax import Label")[0].module == "episode.lang.syntax"


def test_the_check_sees_imports_for_types_only() -> None:
    assert imports_in("if TYPE_CHECKING:\n    import a\nelse:\n    import b") == [
        Import("a", 2, False),
        Import("b", 4, True),
    ]


@pytest.mark.parametrize(
    "code", ["from . import x", "from ..lang import y", "__import__('x')", "importlib.import_module(n)"]
)
def test_the_check_has_no_loopholes(code: str) -> None:
    with pytest.raises(AssertionError):
        imports_in(code)


@pytest.mark.parametrize(
    ("module", "packages", "expected"),
    [
        ("episode.lang.syntax", {"episode.lang"}, True),
        ("episode.language", {"episode.lang"}, False),
        ("episode", {"episode"}, True),
        ("episode.lang", {"episode"}, False),
    ],
)
def test_within(module: str, packages: set[str], expected: bool) -> None:
    assert within(module, packages) == expected
