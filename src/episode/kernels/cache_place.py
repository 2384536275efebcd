"""Where compiled kernels are kept.

numba looks for a place when a kernel's module is loaded: the directory in NUMBA_CACHE_DIR, `__pycache__` beside the
source, or the user's cache directory. A package that is installed read-only, run by a user without a home, has none of
them, and numba then refuses to load any kernel. For this case there is one more place: a directory of the user's own
under the system's temporary files.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

SETTING = "NUMBA_CACHE_DIR"


def choose(package: Path) -> None:
    """Give numba a place for the kernels of a package, where it would find none by itself.

    By the environment: numba reads it when it is loaded, which nothing may force to happen early, and so do processes
    that this one starts.
    """
    if os.environ.get(SETTING) or is_writable(package / "__pycache__") or any(map(is_writable, _of_the_user())):
        return
    place = own_temporary_directory()
    if place is None:
        return  # numba says that it finds no place
    os.environ[SETTING] = str(place)
    numba = sys.modules.get("numba")
    if numba is not None:
        numba.config.CACHE_DIR = str(place)


def is_writable(directory: Path) -> bool:
    """Can files be put there? As numba tries it: by doing so."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _of_the_user() -> list[Path]:
    """The cache directory that numba has for a user, where the user has a home."""
    try:
        home = Path.home()
    except RuntimeError:
        return []
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return [Path(local, "numba", "Cache")] if local else []
    if sys.platform == "darwin":
        return [home / "Library" / "Caches" / "numba"]
    return [Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "numba"]


def own_temporary_directory(under: Path | None = None) -> Path | None:
    """A directory that belongs to this user, and that nobody else may write to: what is in it will be run."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    place = (under or Path(tempfile.gettempdir())) / f"episode-kernels-{user}"
    try:
        place.mkdir(mode=stat.S_IRWXU, exist_ok=True)
        found = place.lstat()
    except OSError:
        return None
    others = stat.S_IWGRP | stat.S_IWOTH
    is_own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & others)
    return place if stat.S_ISDIR(found.st_mode) and is_own and is_writable(place) else None
