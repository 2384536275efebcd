"""The boundary of a store: whatever the file system or Arrow refuses is an EpisodeError here, which names the path."""

from __future__ import annotations

import errno
import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError

Owner = TypeVar("Owner", bound=type)
Called = TypeVar("Called", bound=Callable[..., Any])
_ERRORS = (OSError, UnicodeError, pa.ArrowException)
_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


def in_words(owner: Owner) -> Owner:
    """A class whose public methods raise EpisodeErrors instead of the system's and Arrow's."""
    for name, member in list(vars(owner).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(owner, name, guarded(member))
    return owner


def guarded(function: Called) -> Called:
    """A function that raises EpisodeErrors instead of the system's and Arrow's."""

    @wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except _ERRORS as error:
            raise _worded(error) from error

    @wraps(function)
    def generated(*given: Any, **named: Any) -> Iterator[Any]:
        try:
            yield from function(*given, **named)
        except _ERRORS as error:
            raise _worded(error) from error

    return generated if inspect.isgeneratorfunction(function) else called  # type: ignore[return-value]


def _worded(error: Exception) -> EpisodeError:
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
