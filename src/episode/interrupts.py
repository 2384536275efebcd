"""Ctrl-C while libraries are loaded: it waits until they are whole.

An interrupted import leaves parts of a library behind, and numpy then fails for as long as the process lives. While one
of these libraries is loaded, an interrupt is kept, and raised right after.
"""

from __future__ import annotations

import signal
import sys
from _thread import interrupt_main
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import Thread, current_thread, main_thread
from time import sleep
from types import FrameType, ModuleType
from typing import Any

WHOLE = frozenset({"llvmlite", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "sqlglot"})
"""Libraries that episode loads when they are first needed, and whose modules load one another."""


class _Deferral:
    """Keeps interrupts of the main thread, which alone has them, from `begin` to the matching `end`."""

    def __init__(self) -> None:
        self.depth = 0
        self.pending = False
        self.before: Any = None

    def begin(self) -> None:
        if current_thread() is not main_thread():
            return
        if self.depth == 0:
            handler = signal.getsignal(signal.SIGINT)
            if not callable(handler):  # ignored, or not Python's: as it is
                return
            self.before = handler
            signal.signal(signal.SIGINT, self._keep)
        self.depth += 1

    def end(self) -> bool:
        """Whether there was an interrupt, which the caller must raise."""
        if self.depth == 0 or current_thread() is not main_thread():
            return False
        self.depth -= 1
        if self.depth > 0:
            return False
        pending, self.pending = self.pending, False
        signal.signal(signal.SIGINT, self.before)
        return pending

    def _keep(self, number: int, frame: FrameType | None) -> None:
        self.pending = True


_deferral = _Deferral()


class _WholeLoader(Loader):
    """The loader of a library, without interrupts."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        _deferral.begin()
        try:
            self.loader.exec_module(module)
        finally:
            if _deferral.end():  # raised here, it would undo the import
                Thread(target=_interrupt_after, args=(module.__spec__,), daemon=True).start()


class _WholeImports(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in WHOLE else None
        if spec is None or spec.loader is None:
            return None
        spec.loader = _WholeLoader(spec.loader)
        return spec


def _interrupt_after(spec: Any) -> None:
    while getattr(spec, "_initializing", False):
        sleep(0.001)
    interrupt_main()


def load_libraries_whole() -> None:
    """From now on, load these libraries without interrupts."""
    sys.meta_path.insert(0, _WholeImports())
