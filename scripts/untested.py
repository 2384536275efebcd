"""Modules of src without a test: neither a test file of their name nor a suite in tests/suites.toml covers them.

With the data of `make coverage` (build/coverage.json), also modules that tests without Spark hardly run.
"""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatch
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "episode", ROOT / "tests"
SUITES: dict[str, str] = tomllib.loads((TESTS / "suites.toml").read_text("utf-8"))
COVERAGE = ROOT / "build" / "coverage.json"
LEAST = 50
"""Per cent of a module's lines that tests without Spark should run."""
NEEDS_SPARK = ("api.py", "cli/", "demo", "live/", "methods.py", "queries/", "see/", "spark/", "streams.py", "terminal/")


def modules() -> list[str]:
    found = (path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
    return sorted(path for path in found if not path.endswith("__init__.py"))


def tests_of(module: str) -> list[Path]:
    """Return the test files of a module's own name: test_name.py, or test_name_topic.py."""
    path = Path(module)
    folder = TESTS / "unit" / path.parent
    return [*folder.glob(f"test_{path.stem}.py"), *folder.glob(f"test_{path.stem}_*.py")]


def suite_of(module: str) -> str | None:
    """Return the suite that covers a module: that of the longest pattern which fits."""
    fitting = [pattern for pattern in SUITES if fnmatch(module, pattern)]
    return SUITES[max(fitting, key=len)] if fitting else None


def untested() -> list[str]:
    return [module for module in modules() if not tests_of(module) and suite_of(module) is None]


def hardly_run() -> dict[str, float]:
    """Return per cent by module, of those that tests without Spark run less than they should."""
    if not COVERAGE.exists():
        return {}
    files = json.loads(COVERAGE.read_text("utf-8"))["files"]
    shares = {name.partition("src/episode/")[2]: entry["summary"]["percent_covered"] for name, entry in files.items()}
    return {name: share for name, share in shares.items() if share < LEAST and not name.startswith(NEEDS_SPARK)}


if __name__ == "__main__":
    sys.stdout.writelines(f"{module}\n" for module in untested())
    sys.stdout.writelines(f"{module}: {share:.0f}% of lines\n" for module, share in hardly_run().items())
