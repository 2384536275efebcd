"""episode: complex event processing on Apache Spark.

Public names are loaded when they are first used: Spark's workers, which need the matchers alone, load no parsers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from episode.errors import (
    EpisodeAnalysisError,
    EpisodeDataError,
    EpisodeError,
    EpisodeRulesError,
    EpisodeSyntaxError,
    EpisodeUnsupportedError,
    EpisodeWarning,
)
from episode.interrupts import load_libraries_whole

if TYPE_CHECKING:
    from episode import streams
    from episode.api import (
        Query,
        aggregate,
        expand,
        explain,
        match,
        match_all,
        match_all_local,
        match_local,
        plot,
        query,
        report,
        sql,
        sql_local,
        start,
        start_rules,
        why_not,
    )
    from episode.methods import install, matching, uninstall
    from episode.native.traced import greatest, least, where
    from episode.plan.options import Options, StreamOptions, Tuning
    from episode.queries.events import Events

__version__ = "0.1.0"

logging.getLogger("episode").addHandler(logging.NullHandler())  # silent, unless a program wants to hear it
load_libraries_whole()

__all__ = [
    "EpisodeAnalysisError",
    "EpisodeDataError",
    "EpisodeError",
    "EpisodeRulesError",
    "EpisodeSyntaxError",
    "EpisodeUnsupportedError",
    "EpisodeWarning",
    "Events",
    "Options",
    "Query",
    "StreamOptions",
    "Tuning",
    "__version__",
    "aggregate",
    "expand",
    "explain",
    "greatest",
    "install",
    "least",
    "match",
    "match_all",
    "match_all_local",
    "match_local",
    "matching",
    "plot",
    "query",
    "report",
    "sql",
    "sql_local",
    "start",
    "start_rules",
    "streams",
    "uninstall",
    "where",
    "why_not",
]

_LATER = frozenset(__all__).difference(globals())


def __getattr__(name: str) -> object:
    """Load a public name when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "streams":
        import episode.streams as found
    elif name in ("install", "matching", "uninstall"):
        from episode import methods

        found = getattr(methods, name)
    elif name in ("Options", "StreamOptions", "Tuning"):
        from episode.plan import options

        found = getattr(options, name)
    elif name in ("greatest", "least", "where"):
        from episode.native import traced

        found = getattr(traced, name)
    else:
        from episode import api

        found = getattr(api, name)
    globals()[name] = found
    return found


def load_ipython_extension(shell: object) -> None:
    """`%load_ext episode`: the cell magic %%episode, and results that show themselves."""
    from episode.see.notebook.magic import load

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """`%unload_ext episode`."""
    from episode.see.notebook.magic import unload

    unload(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
