"""Files that appear whole or not at all: written aside, flushed to the disk, and put in place by one step."""

from __future__ import annotations

import errno
import fcntl
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from episode.errors import EpisodeDataError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def aside(directory: Path, suffix: str) -> Path:
    """A path that nobody else writes to."""
    return directory / f"{os.getpid()}-{uuid.uuid4().hex}{suffix}"


def sync_directory(directory: Path) -> None:
    """Names in the directory are on the disk after this."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def data_files(root: Path, suffixes: Sequence[str] = (".parquet",)) -> list[Path]:
    """The files below a directory with these suffixes, in order of their paths, without hidden ones; a path may be a
    file itself."""
    if root.is_file():
        return [root]
    found = (path for path in root.rglob("*") if path.suffix in suffixes and path.is_file())
    return sorted(
        path for path in found if not any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    )


def publish_new(path: Path, data: bytes) -> bool:
    """A new file with this content, or False where there is one of the name already."""
    temporary = aside(path.parent, ".tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    sync_directory(path.parent)
    return True


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process, and one thread of it, is inside at a time; a killed one is outside at once."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


@contextmanager
def space_needed(what: str) -> Iterator[None]:
    """A full disk is an error in words; what: what could not be stored."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise EpisodeDataError(
                f"There is no space for {what}: {error.strerror or error}.",
                hint="Nothing of it is stored, and what was stored before can be read. Make space and try again.",
            ) from error
        raise
