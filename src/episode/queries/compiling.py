"""The kernels of every kind of query, compiled ahead of the first one."""

from __future__ import annotations

from episode.matchers.warm import read_records_once, run_once
from episode.queries.languages import LANGUAGES


def compile_every_kernel() -> None:
    """Run the samples of every language, and read a record of JSON."""
    for language in LANGUAGES.values():
        for spec, events in language.samples():
            run_once(spec, events)
    read_records_once()
