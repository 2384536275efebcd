"""Where compiled kernels are kept.

numba looks for a place when a kernel's module is loaded: the directory in NUMBA_CACHE_DIR, `__pycache__` beside the
source, or the user's cache directory. A package that is installed read-only, run by a user without a home, has none of
them, and numba then refuses to load any kernel. For this case there is one more place: a directory of the user's own
under the system's temporary files.

numba takes a place only if it can write there. So kernels that were compiled beside the source when a read-only package
was made (an image, a cluster's environment) would not be found: links to them are put where numba looks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

SETTING = "NUMBA_CACHE_DIR"
COMPILED = (".nbi", ".nbc")


def choose(package: Path) -> None:
    """Give numba a place for the kernels of a package, where it would find none by itself; and those that are there.

    By the environment: numba reads it when it is loaded, which nothing may force to happen early, and so do processes
    that this one starts.
    """
    if is_writable(package / "__pycache__"):
        return  # numba finds it, or what NUMBA_CACHE_DIR says
    given = os.environ.get(SETTING)
    place = Path(given) if given else next(filter(is_writable, _of_the_user()), None)
    if place is None:
        place = own_temporary_directory()
        if place is None:
            return  # numba says that it finds no place
        os.environ[SETTING] = str(place)
        numba = sys.modules.get("numba")
        if numba is not None:
            numba.config.CACHE_DIR = str(place)
    with suppress(OSError):
        link_compiled(package, place)


def link_compiled(package: Path, place: Path) -> None:
    """Links to the compiled kernels of a package in a place of numba's, made once each time that they were compiled.

    numba replaces files, and never writes into one: the package's stay as they are. What else is kept beside them
    (which sources they are of) is small, and copied.
    """
    for compiled in package.rglob("__pycache__"):
        if next(compiled.glob("*.nbi"), None) is None:
            continue
        source = compiled.parent
        folder = place / f"{source.name}_{hashlib.sha1(str(source).encode()).hexdigest()}"
        marker = folder / f"episode-linked-{compiled.stat().st_mtime_ns}"
        if marker.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for file in compiled.iterdir():
            if file.suffix in COMPILED:
                (folder / file.name).unlink(missing_ok=True)
                (folder / file.name).symlink_to(file)
            elif file.name.startswith("episode-") and file.suffix != ".lock":
                shutil.copyfile(file, folder / file.name)
        for earlier in folder.glob("episode-linked-*"):
            earlier.unlink()
        marker.touch()


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
