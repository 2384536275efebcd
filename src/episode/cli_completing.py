"""What a shell offers where an argument is completed. Quick, and silent whatever happens: no Spark, no messages."""

from __future__ import annotations

from pathlib import Path

QUERIES = (".sql",)


def queries(incomplete: str) -> list[str]:
    """Files with a query, and directories."""
    return [path for path in _paths(incomplete) if path.endswith(("/", *QUERIES))]


def tables(incomplete: str) -> list[str]:
    """NAME=PATH: the name is the user's own; the path is completed."""
    name, equals, path = incomplete.partition("=")
    return [f"{name}={found}" for found in _paths(path)] if equals else []


def streams(incomplete: str) -> list[str]:
    """Declared streams."""
    try:
        from episode import streams as declared

        return [name for name in declared.names() if name.lower().startswith(incomplete.lower())]
    except Exception:  # noqa: BLE001 - a catalog that cannot be read offers nothing
        return []


def masters(incomplete: str) -> list[str]:
    """How masters begin."""
    return [one for one in ("local[*]", "spark://", "sc://", "yarn", "k8s://") if one.startswith(incomplete)]


def _paths(incomplete: str) -> list[str]:
    """Files and directories whose path begins so; directories end with a slash."""
    directory, _, begin = incomplete.rpartition("/")
    root = Path(f"{directory}/") if incomplete.startswith("/") or directory else Path()
    try:
        found = sorted(path for path in root.iterdir() if path.name.startswith(begin))
    except OSError:
        return []
    prefix = f"{directory}/" if "/" in incomplete else ""
    shown = [path for path in found if begin.startswith(".") or not path.name.startswith(".")]
    return [f"{prefix}{path.name}/" if path.is_dir() else f"{prefix}{path.name}" for path in shown]
