"""The error tree. Everything episode raises on purpose is an EpisodeError."""

from __future__ import annotations

import sys
import warnings

from episode.words import plural

SHOWN_COLUMNS = 160
"""Characters of a longer line that errors show, around the error's position."""


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
        return _line_and_column(self.source, self.position)

    def __str__(self) -> str:
        parts = [self.message]
        if self.source is not None and self.position is not None:
            parts += place_of(self.source, self.position, self.length)
        if self.hint:
            parts.append(f"  {self.hint}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """Let notebooks show the message alone. `%tb` and the exception itself have the rest."""
        return [f"{type(self).__name__}: {self}"]


def place_of(source: str, position: int, length: int) -> list[str]:
    """Show a place in a text: its line, with carets under it."""
    line_number, column = _line_and_column(source, position)
    line, at = _around(source.split("\n")[line_number - 1], column - 1)
    carets = "^" * max(1, min(length, len(line) - at))
    gutter = f"{line_number:>4} | "
    indent = "".join("\t" if character == "\t" else " " for character in line[:at])
    return [f"  at line {line_number}, column {column}:", f"{gutter}{line}", " " * len(gutter) + indent + carets]


def _line_and_column(source: str, position: int) -> tuple[int, int]:
    """Line and column of a place in a text, from 1."""
    before = source[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def _around(line: str, at: int) -> tuple[str, int]:
    """Cut a long line around a place; returns the part and the place in it."""
    if len(line) <= SHOWN_COLUMNS:
        return line, at
    begin = max(0, min(at - SHOWN_COLUMNS // 2, len(line) - SHOWN_COLUMNS))
    end = begin + SHOWN_COLUMNS
    before, after = "… " if begin else "", " …" if end < len(line) else ""
    return f"{before}{line[begin:end]}{after}", at - begin + len(before)


def _rebuild(cls, message, source, position, length, hint):  # type: ignore[no-untyped-def]
    return cls(message, source=source, position=position, length=length, hint=hint)


class EpisodeWarning(UserWarning):
    """A query that runs, but may not do what was meant: a class without events, a stream with unbounded state."""


def warn(message: str) -> None:
    """Show an EpisodeWarning at the line outside of episode that led to it, so that each line warns once."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "episode":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, EpisodeWarning, stacklevel=level)


EXTRAS = {
    "kafka": ("confluent-kafka",),
    "plot": ("altair", "vl-convert-python"),
    "studio": ("altair", "vl-convert-python", "starlette", "uvicorn"),
}
"""Packages of optional parts, as in pyproject.toml."""


def install(extra: str) -> str:
    """Tell what to install for an optional part, whichever way episode was installed."""
    *others, last = EXTRAS[extra]
    return f"Install {', '.join(others)}{' and ' if others else ''}{last} (episode's extra {extra!r})"


class EpisodeSyntaxError(EpisodeError):
    """The text is not a query of the language."""

    kind = "syntax"


class EpisodeAnalysisError(EpisodeError):
    """The query is well formed but does not make sense for its input (names, types, clauses)."""

    kind = "analysis"


class EpisodeUnsupportedError(EpisodeError):
    """The query means something that episode cannot evaluate; raised at plan time."""

    kind = "unsupported"


class EpisodeDataError(EpisodeError):
    """The data break a rule of the query: null event time, a skip that cannot advance, a step budget."""

    kind = "data"


class EpisodeRulesError(EpisodeAnalysisError):
    """Rules of a set that cannot be used, all of them together. errors: the error of each, by the name of its rule."""

    kind = "rules"

    def __init__(self, errors: dict[str, EpisodeError], rules: int) -> None:
        self.errors = dict(errors)
        self.rules = rules
        count = len(self.errors)
        super().__init__(f"{count} of {rules} {plural(rules, 'rule')} cannot be used.")

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.errors, self.rules)

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"Rule {name}: {error}" for name, error in self.errors.items())])


def kind_of(error: EpisodeError) -> type[EpisodeError]:
    """The class of an error in this tree; an error that Spark raised also has a class of Spark's."""
    return next(one for one in type(error).__mro__ if globals().get(one.__name__) is one)
