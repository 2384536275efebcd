"""A lock of one machine: a file that one process at a time has locked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Wait for the lock at a path, and hold it while the body runs. It goes with its process, whatever becomes of that.

    Where files cannot be locked there (some network file systems, Windows), nobody waits.
    """
    if fcntl is None:
        yield
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(file)
