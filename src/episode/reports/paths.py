"""Where reports are written."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from episode.errors import EpisodeAnalysisError


def checked_path(path: str | PathLike[str]) -> Path:
    """Where a file can be written; said before the work begins, not after it."""
    if not isinstance(path, (str, PathLike)):
        raise EpisodeAnalysisError(
            f"path={path!r}: the path of a file is needed.", hint="Write for example 'out.html'."
        )
    target = Path(path)
    if target.is_dir():
        raise EpisodeAnalysisError(f"{target} is a directory.", hint=f"Write for example {target / 'report.html'}.")
    if not target.parent.is_dir():
        raise EpisodeAnalysisError(f"There is no directory {target.parent}.", hint="Make it, or choose another path.")
    return target
