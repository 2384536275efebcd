"""Errors that episode raised in a Spark task, recovered from the exception that Spark makes of them."""

from __future__ import annotations

import re

import episode.errors as tree
from episode.errors import EpisodeError

_RAISED = re.compile(r"^(?:episode\.errors\.)(Episode\w*Error): ", re.MULTILINE)
_AFTER = re.compile(
    r"^(?:\s+at [\w.$/]+\(|Driver stacktrace:|JVM stacktrace:|=== Streaming Query ===|Caused by: |\s*SQLSTATE: \w+)",
    re.MULTILINE,
)


def translate(error: BaseException) -> EpisodeError | None:
    """Our error after a Spark exception, with its full text as the message; None if there is none.

    A worker's exception reaches the driver as text: a Python traceback that ends with the exception's name and message.
    """
    if isinstance(error, EpisodeError):
        return error
    text = str(error)
    raised = None
    for raised in _RAISED.finditer(text):  # noqa: B007 - the last one is the outermost
        pass
    if raised is None:
        cause = error.__cause__ or getattr(error, "_cause", None)  # the latter is PySpark's, of a Java exception
        return translate(cause) if isinstance(cause, BaseException) else None
    kind = getattr(tree, raised.group(1), EpisodeError)
    message = text[raised.end() :]
    after = _AFTER.search(message)
    return kind((message[: after.start()] if after else message).rstrip())
