"""The error tree. Everything episode raises on purpose is an EpisodeError."""

from __future__ import annotations

SHOWN_COLUMNS = 160
"""Of a longer line, errors show this much around the place they complain of."""


class EpisodeError(Exception):
    """Root of all errors that episode raises.

    Errors that belong to a place in the query carry it: `str(error)` shows the line with a caret.
    """

    kind = "error"

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        position: int | None = None,
        length: int = 1,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.source = source
        self.position = position
        self.length = max(1, length)
        self.hint = hint
        super().__init__(message)

    def __reduce__(self):  # type: ignore[no-untyped-def]
        state = (self.message, self.source, self.position, self.length, self.hint)
        return (_rebuild, (type(self), *state))

    @property
    def line_and_column(self) -> tuple[int, int] | None:
        """1-based line and column of the offending place, if there is one."""
        if self.source is None or self.position is None:
            return None
        before = self.source[: self.position]
        return before.count("\n") + 1, self.position - (before.rfind("\n") + 1) + 1

    def __str__(self) -> str:
        parts = [self.message]
        place = self.line_and_column
        if place is not None and self.source is not None:
            line_number, column = place
            line, at = _around(self.source.split("\n")[line_number - 1], column - 1)
            carets = "^" * max(1, min(self.length, len(line) - at))
            gutter = f"{line_number:>4} | "
            parts.append(f"  at line {line_number}, column {column}:")
            parts.append(f"{gutter}{line}")
            indent = "".join("\t" if character == "\t" else " " for character in line[:at])
            parts.append(" " * len(gutter) + indent + carets)
        if self.hint:
            parts.append(f"  {self.hint}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """What notebooks show: the message alone. `%tb` and the exception itself have the rest."""
        return [f"{type(self).__name__}: {self}"]


def _around(line: str, at: int) -> tuple[str, int]:
    """The part of a long line that is worth showing, and where the place is in it."""
    if len(line) <= SHOWN_COLUMNS:
        return line, at
    begin = max(0, min(at - SHOWN_COLUMNS // 2, len(line) - SHOWN_COLUMNS))
    end = begin + SHOWN_COLUMNS
    before, after = "… " if begin else "", " …" if end < len(line) else ""
    return f"{before}{line[begin:end]}{after}", at - begin + len(before)


def _rebuild(cls, message, source, position, length, hint):  # type: ignore[no-untyped-def]
    return cls(message, source=source, position=position, length=length, hint=hint)


class EpisodeWarning(UserWarning):
    """A query that runs but may not do so for ever, such as a stream whose state nothing bounds."""


class EpisodeSyntaxError(EpisodeError):
    """The text is not a query of the language."""

    kind = "syntax"


class EpisodeAnalysisError(EpisodeError):
    """The query is well formed but does not make sense for its input (names, types, clauses)."""

    kind = "analysis"


class EpisodeUnsupportedError(EpisodeError):
    """The query means something that episode cannot evaluate; said at plan time."""

    kind = "unsupported"


class EpisodeDataError(EpisodeError):
    """The data break a rule of the query: null event time, a skip that cannot advance, a step budget."""

    kind = "data"


def kind_of(error: EpisodeError) -> type[EpisodeError]:
    """The class of an error in this tree; one that Spark raised is of a class of Spark's, too."""
    return next(one for one in type(error).__mro__ if globals().get(one.__name__) is one)
