"""Files that appear whole or not at all, and errors of the file system that name the path."""

from __future__ import annotations

import errno
import fcntl
import inspect
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError

# Errors of the file system and of Arrow leave a store as EpisodeErrors that name the path.

Owner = TypeVar("Owner", bound=type)
Called = TypeVar("Called", bound=Callable[..., Any])
_ERRORS = (OSError, UnicodeError, pa.ArrowException)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


def translate_method_errors(owner: Owner) -> Owner:
    """Decorate a class so that its public methods raise EpisodeErrors instead of errors of the system and of Arrow."""
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(owner, name, translate_errors(member))
    return owner


def translate_errors(function: Called) -> Called:
    """Decorate a function so that it raises EpisodeErrors instead of errors of the system and of Arrow."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except _ERRORS as error:
            raise _episode_error(error) from error

    @wraps(function)
    def generate(*given: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from function(*given, **named)
        except _ERRORS as error:
            raise _episode_error(error) from error

    return generate if inspect.isgeneratorfunction(function) else call  # type: ignore[return-value]


def _episode_error(error: Exception) -> EpisodeError:
    if isinstance(error, UnicodeError):
        return EpisodeAnalysisError(
            f"A text is not Unicode: {error}.", hint="It has half of a surrogate pair. Replace that character."
        )
    if not isinstance(error, OSError):
        return EpisodeDataError(f"Arrow refuses this: {error}.")
    place = f"{error.filename}: " if error.filename else ""
    hint = (
        "Nothing was changed. Make the directory writable; reading needs no permission to write."
        if error.errno in _NOT_WRITABLE
        else None
    )
    return EpisodeDataError(f"{place}{error.strerror or error}.", hint=hint)


CHECKSUM = "checksum"
Decoded = TypeVar("Decoded")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def temporary_path(directory: Path, suffix: str) -> Path:
    """Return a path that no other process or thread writes to."""
    return directory / f"{os.getpid()}-{uuid.uuid4().hex}{suffix}"


def sync_path(path: str | Path) -> None:
    """Bring a file, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes, temporary: Path | None = None, *, sync: bool = True) -> None:
    """Write a file that appears whole or stays as it was. temporary: the place in which it is written first. sync: its
    content is on the disk before it appears; its name is not, until `sync_path` of its directory."""
    temporary = temporary or temporary_path(path.parent, ".tmp")
    with open(temporary, "xb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.replace(temporary, path)


def data_files(root: Path, suffixes: Sequence[str] = (".parquet",)) -> list[Path]:
    """Return the files below a directory, or itself if it is a file, with these suffixes, sorted; no hidden ones."""
    if root.is_file():
        return [root]
    found = (path for path in root.rglob("*") if path.suffix in suffixes and path.is_file())
    return sorted(
        path for path in found if not any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    )


def publish_new(path: Path, data: bytes) -> bool:
    """Create a file with this content; return False if a file of the name exists."""
    temporary = temporary_path(path.parent, ".tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_path(path.parent)
    return True


def seal(found: Mapping[str, Any]) -> bytes:
    """Return a JSON object as bytes, with a checksum of itself."""
    checksum = zlib.crc32(json.dumps(found).encode())
    return json.dumps({**found, CHECKSUM: checksum}, indent=2, ensure_ascii=False).encode("utf-8", "surrogatepass")


def unseal(path: Path, what: str, make: Callable[[dict[str, Any]], Decoded]) -> Decoded:
    """Decode a sealed JSON object with `make`; raise an error that names the file if it is corrupt.

    Files of earlier versions have no checksum. Raises FileNotFoundError if the file does not exist.
    """
    data = path.read_bytes()
    try:
        found = json.loads(data)
        checksum = found.pop(CHECKSUM, None)
        if checksum is not None and checksum != zlib.crc32(json.dumps(found).encode()):
            raise ValueError("its checksum is wrong")
        return make(found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "Restore the file. If you have changed it yourself, remove the line of its checksum."
        raise EpisodeDataError(f"{what} {path} is corrupt: {error}.", hint=hint) from None


class Mark(NamedTuple):
    """Numbers given under a lock: the last one, and the last one whose name is on the disk."""

    last: int = 0
    durable: int = 0


def read_mark(path: Path) -> Mark:
    """Return the mark in a file; 0 if it has none, or if it is being written."""
    try:
        last, durable, checksum = path.read_bytes().split()
        found = Mark(int(last), int(durable))
        return found if int(checksum) == zlib.crc32(repr(found).encode()) else Mark()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return Mark()


def write_mark(path: Path, mark: Mark) -> None:
    """Write a mark to a file. If that fails (a full disk), numbers are looked up as if there were no mark."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        text = f"{mark.last:020d} {mark.durable:020d} {zlib.crc32(repr(mark).encode()):010d}"
        try:
            os.pwrite(handle, text.encode(), 0)
        finally:
            os.close(handle)


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold a lock that one thread of one process has at a time; the system releases it if the process is killed."""
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
    """Turn a full disk into an EpisodeDataError. what: the data that could not be stored."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise EpisodeDataError(
                f"There is no space for {what}: {error.strerror or error}.",
                hint="Nothing of it is stored, and what was stored before can be read. Make space and try again.",
            ) from error
        raise
