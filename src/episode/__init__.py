"""episode: complex event processing on Apache Spark."""

from __future__ import annotations

import logging

from episode import streams
from episode.api import (
    Options,
    aggregate,
    compile_kernels,
    correlate,
    expand,
    explain,
    explain_correlate,
    explain_match,
    match,
    match_local,
    pattern,
    sql,
    sql_local,
    start,
)
from episode.errors import (
    EpisodeAnalysisError,
    EpisodeDataError,
    EpisodeError,
    EpisodeSyntaxError,
    EpisodeUnsupportedError,
    EpisodeWarning,
)
from episode.methods import install, matching

__version__ = "0.1.0"

logging.getLogger("episode").addHandler(logging.NullHandler())  # silent, unless a program wants to hear it

__all__ = [
    "EpisodeAnalysisError",
    "EpisodeDataError",
    "EpisodeError",
    "EpisodeSyntaxError",
    "EpisodeUnsupportedError",
    "EpisodeWarning",
    "Options",
    "__version__",
    "aggregate",
    "compile_kernels",
    "correlate",
    "expand",
    "explain",
    "explain_correlate",
    "explain_match",
    "install",
    "match",
    "match_local",
    "matching",
    "pattern",
    "sql",
    "sql_local",
    "start",
    "streams",
]
