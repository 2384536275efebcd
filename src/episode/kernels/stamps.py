"""What is compiled already, written down beside numba's cache, so that looking costs a millisecond.

A group is a set of kernels that queries need together: those of a language, or those that move events. A stamp says
that a group has been compiled from these sources, by this version of numba, for this processor.

numba itself looks only at the file that a kernel is in, and would go on using a kernel after one that it calls has
changed in another file. So the sources of a cache are written down, too, and a cache of other sources is emptied.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core.codegen import get_host_cpu_features
from numba.core.dispatcher import Dispatcher

from episode.kernels import hashing

_KERNELS = Path(__file__).parent
_SOURCES = "episode-sources"
_COMPILED = (".nbi", ".nbc")
_NO_KERNELS = {"__init__.py", "call_graph.py", "compiling.py", "locking.py", "recording.py", "stamps.py"}
"""Files beside the kernels that no kernel is made of."""


def directory() -> Path | None:
    """Where numba keeps the kernels of all languages; None where it keeps none, or the sources cannot be looked at (in
    a zip file)."""
    kernel: Any = hashing.combine_int64
    path = kernel.stats.cache_path if isinstance(kernel, Dispatcher) and _KERNELS.is_dir() else None
    return None if path is None else Path(path)


def is_ready(group: str) -> bool:
    """Whether all of a group is compiled, or cannot be kept anyway."""
    if group not in _ready and (place := directory()) is not None:
        if not (place / _stamp(group)).exists():
            return False
        _ready.add(group)
    return True


def mark_ready(groups: Iterable[str]) -> None:
    place = directory()
    if place is not None:
        for group in groups:
            (place / _stamp(group)).touch()


def give_up(groups: Iterable[str]) -> None:
    """They cannot be compiled ahead: this process does not try again."""
    _ready.update(groups)


_ready: set[str] = set()
"""Groups that this process has found ready: stamps do not go."""


def _stamp(group: str) -> str:
    return f"episode-{group}-{_digest(group)}.stamp"


@cache
def _digest(group: str) -> str:
    """Everything on which the compiled kernels of a group depend. The name of a group begins with its language."""
    name, features = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    name = llvm.get_host_cpu_name() if name is None else name
    features = get_host_cpu_features() if features is None else features
    language = _KERNELS / group.partition("-")[0]
    sources = f"{_sources(language)} {_samples()}"
    machine = f"{sys.implementation.cache_tag} {numba.__version__} {name} {features} {sources}"
    return hashlib.sha256(machine.encode()).hexdigest()[:16]


@cache
def _sources(folder: Path) -> str:
    """The sources that kernels of a folder are made of: its own, and those of the root, which all use."""
    shared = [path for path in _KERNELS.glob("*.py") if path.name not in _NO_KERNELS]
    return _hashed([*shared, *(folder.glob("*.py") if folder != _KERNELS else ())])


@cache
def _samples() -> str:
    """The queries by which it was found out what to compile."""
    package = _KERNELS.parent
    return _hashed([package / "matchers" / "warm.py", *(package / "queries" / "languages").glob("*.py")])


def _hashed(paths: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.name.encode() + b"\n" + path.read_bytes())
    return found.hexdigest()


def empty_stale_caches() -> None:
    """Remove compiled kernels of other sources, wherever kernels are that this process has loaded."""
    for folder, place in _caches():
        noted = place / _SOURCES
        if not noted.exists() or noted.read_text() != _sources(folder):
            for path in place.iterdir():
                if path.suffix in _COMPILED:
                    path.unlink(missing_ok=True)
            noted.write_text(_sources(folder))


def _caches() -> Iterator[tuple[Path, Path]]:
    """Folders of kernels, and where their kernels are kept."""
    found: dict[Path, Path] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}."):
            for kernel in vars(module).values():
                if isinstance(kernel, Dispatcher) and kernel.stats.cache_path is not None:
                    found[Path(kernel.py_func.__code__.co_filename).parent] = Path(kernel.stats.cache_path)
    yield from found.items()


def lock_path() -> str | None:
    """Who holds this lock compiles."""
    place = directory()
    return None if place is None else os.path.join(place, "episode-compiling.lock")
