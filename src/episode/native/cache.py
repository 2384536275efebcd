"""Object code that is kept: in memory for this process, and on disk for the next one.

The name of a file is the hash of the program and of everything else that its code depends on; its content begins with a
hash of the rest. Files that are damaged are compiled again and replaced. Code is loaded only from a directory that
belongs to the user and that nobody else can write to; without one, nothing is kept on disk.

See decision 190.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

SETTING = "EPISODE_CODE_CACHE"
"""The environment variable that names another directory; empty: nothing is kept on disk."""
_DIGEST = hashlib.sha256
_SIZE = _DIGEST().digest_size


MOST_FILES = 4_000
"""If there are more, those that were written first are removed."""


def find_code(program: str, identity: str) -> bytes | None:
    """The code of a program, if it is on the disk. identity: everything else that the code depends on."""
    place = directory()
    return None if place is None else _read(place / _name(program, identity))


def object_code(program: str, identity: str, compile_: Callable[[str], bytes]) -> bytes:
    """The code of a program, from the disk or compiled now."""
    kept = find_code(program, identity)
    if kept is not None:
        return kept
    code = compile_(program)
    place = directory()
    if place is not None:
        with suppress(OSError):  # a full disk, for example: the code is there all the same
            _write(place / _name(program, identity), code)
            _remove_oldest(str(place))
    return code


def _name(program: str, identity: str) -> str:
    return _DIGEST(f"{identity}\n{program}".encode()).hexdigest()


@cache
def _remove_oldest(place: str) -> None:
    """Once in a process: remove files if there are too many."""
    files = list(Path(place).iterdir())
    if len(files) > MOST_FILES:
        files.sort(key=lambda file: file.stat().st_mtime)
        for file in files[: -MOST_FILES // 2]:
            file.unlink(missing_ok=True)


def directory() -> Path | None:
    """The directory for code, if there is one that only this user can write to."""
    given = os.environ.get(SETTING)
    if given == "":
        return None
    for place in [Path(given)] if given else _usual_places():
        with suppress(OSError, RuntimeError):
            place.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
            if _belongs_to_user(place):
                return place
    return None


def _usual_places() -> list[Path]:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    places = [Path(tempfile.gettempdir()) / f"episode-code-{user}"]
    with suppress(RuntimeError):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        places.insert(0, Path(home) / "episode" / "code")
    return places


def _belongs_to_user(place: Path) -> bool:
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:_SIZE], content[_SIZE:]
    return code if _DIGEST(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Whole or not at all: others may read it at the same time."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_DIGEST(code).digest() + code)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
