"""Waiting for files to appear in a directory without polling: by Linux's inotify, if available.

It is only a hint: callers must re-check after it returns, and poll now and then, because directories of other machines
report nothing.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
import weakref
from pathlib import Path
from typing import Any

_IN_MOVED_TO = 0x80
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def _libc() -> Any:
    """The C library; None if it lacks inotify."""
    try:
        found = ctypes.CDLL(None, use_errno=True)
        return found if hasattr(found, "inotify_init1") else None
    except OSError:
        return None


class DirectoryWatch:
    """Watches directories, also those that do not exist yet. proven: whether it has ever reported a file."""

    def __init__(self, directories: list[Path]) -> None:
        self.proven = False
        self._missing = [os.fsencode(directory) for directory in directories]
        self._libc = _libc()
        self._handle = -1 if self._libc is None else self._libc.inotify_init1(_FLAGS)
        self._poll = select.poll()
        if self._handle >= 0:
            self._poll.register(self._handle, select.POLLIN)
            self._closing = weakref.finalize(self, os.close, self._handle)  # a user has few of them

    def wait(self, seconds: float) -> None:
        """Return when a file has appeared since the last call, or after `seconds`."""
        if self._handle < 0:
            time.sleep(seconds)
            return
        if self._missing:
            self._missing = [one for one in self._missing if not self._add_watch(one)]
        if self._poll.poll(seconds * 1000):
            self.proven = True
            self._forget_events()

    def _add_watch(self, directory: bytes) -> bool:
        assert self._libc is not None
        return bool(self._libc.inotify_add_watch(self._handle, directory, _IN_MOVED_TO) >= 0)

    def _forget_events(self) -> None:
        try:
            os.read(self._handle, 1 << 16)
        except BlockingIOError:
            return

    def close(self) -> None:
        if self._handle >= 0:
            self._closing()
            self._handle = -1
