"""Kernels that are compiled while a status line is on the screen are said there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status

if TYPE_CHECKING:
    from episode.matchers.compile_reports import Report


@contextmanager
def status(console: Console, words: str) -> Iterator[Status]:
    """A status line with these words, which may change; while kernels are compiled it says so, and how many are
    ready."""
    from episode.matchers.compile_reports import in_the_usual_way, reported_by, sentence

    with console.status(words) as line:

        @contextmanager
        def on_the_line(groups: Sequence[str]) -> Iterator[Report]:
            yield lambda ready, total: line.update(f"{sentence(groups)}: {ready} of {total}")
            line.update(words)

        def reporter(groups: Sequence[str]) -> AbstractContextManager[Report]:
            return on_the_line(groups) if console.is_terminal else in_the_usual_way(groups)

        with reported_by(reporter):
            yield line
