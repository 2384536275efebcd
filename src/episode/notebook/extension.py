"""What `%load_ext episode` does: the magic, and how results of episode show themselves."""

from __future__ import annotations

from typing import Any

from episode.notebook.magic import EpisodeMagics
from episode.notebook.showing import html_of

_FRAMES = (("pyspark.sql.classic.dataframe", "DataFrame"), ("pyspark.sql.connect.dataframe", "DataFrame"))


def load(shell: Any) -> None:
    """Into a shell of IPython."""
    shell.register_magics(EpisodeMagics)
    formatter = shell.display_formatter.formatters["text/html"]
    for module, name in _FRAMES:
        formatter.for_type_by_name(module, name, html_of)


def unload(shell: Any) -> None:
    """Out of it again: DataFrames show themselves as Spark's do."""
    formatter = shell.display_formatter.formatters["text/html"]
    for module, name in _FRAMES:
        for found in [key for key in formatter.type_printers if (key.__module__, key.__name__) == (module, name)]:
            formatter.pop(found)
        formatter.deferred_printers.pop((module, name), None)
    for kind in ("cell", "line"):
        shell.magics_manager.magics[kind].pop("episode", None)
