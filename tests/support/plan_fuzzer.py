"""Random queries whose code runs in all ways: `make fuzz-plans`.

If EPISODE_ALL_WAYS names a directory, every call of compiled code over a few rows is also made with checks and
interpreted, and must leave the same result and the same arrays, to the bit. The names of the programs that were called
are kept as files there. `python -m tests.support.plan_fuzzer DIRECTORY` fails if an emitter was never called.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

SETTING = "EPISODE_ALL_WAYS"
MOST_ROWS = 500
"""Elements of the longest array that is read only; longer ones would take the interpreter too long."""
SOURCES = Path(__file__).parents[2] / "src" / "episode"


def install() -> None:
    """Compare all ways from now on, if the setting asks for it."""
    place = os.environ.get(SETTING)
    if not place:
        return
    from episode.native.running import Compiled
    from tests.support.interpreter import Interpreted
    from tests.unit.native.runs import bits

    directory = Path(place)
    directory.mkdir(parents=True, exist_ok=True)
    call = Compiled.__call__

    @lru_cache(maxsize=512)
    def others_of(program: Any) -> tuple[Any, ...]:
        (directory / program.name).touch()
        return Compiled(program, checked=True), Interpreted(program)

    def call_all(self: Compiled, arrays: Sequence[np.ndarray], *scalars: Any) -> int:
        read = (len(array) for array, (_, _, writable) in zip(arrays, self.arrays) if not writable)
        if self.checked or max(read, default=0) > MOST_ROWS:
            return call(self, arrays, *scalars)
        others = others_of(self.source)
        copies = [[array.copy() for array in arrays] for _ in others]
        expected = call(self, arrays, *scalars)
        for other, own in zip(others, copies, strict=True):
            result = call(other, own, *scalars) if isinstance(other, Compiled) else other(own, *scalars)
            where = f"program {self.source.name}, {type(other).__name__}"
            assert result == expected, f"{where}: {result}, not {expected}"
            for (name, _, writable), one, two in zip(self.arrays, own, arrays, strict=True):
                assert not writable or np.array_equal(bits(one), bits(two)), f"{where}: {name} differs"
        return expected

    Compiled.__call__ = call_all  # type: ignore[method-assign]


def names_in_sources() -> set[str]:
    """Names of programs as they are written; {…} of an f-string stands for anything."""
    calls = [one for path in SOURCES.rglob("*.py") for one in ast.walk(ast.parse(path.read_text()))]
    return {
        name
        for one in calls
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in ("Program", "entry_scope")
        for name in _names(one.args[0])
    }


def _names(written: ast.expr) -> list[str]:
    if isinstance(written, ast.IfExp):
        return _names(written.body) + _names(written.orelse)
    return [ast.unparse(written).removeprefix("f")[1:-1]] if isinstance(written, (ast.Constant, ast.JoinedStr)) else []


def never_called(directory: Path) -> list[str]:
    called = [path.name for path in directory.iterdir()]
    patterns = {name: re.compile(re.sub(r"\{[^}]*\}", ".*", name)) for name in names_in_sources()}
    return sorted(name for name, pattern in patterns.items() if not any(map(pattern.fullmatch, called)))


if __name__ == "__main__":
    missing = never_called(Path(sys.argv[1]))
    if missing:
        raise SystemExit(f"emitters that no random query called: {', '.join(missing)}")
    print(f"{len(names_in_sources())} kinds of programs ran in all ways")
