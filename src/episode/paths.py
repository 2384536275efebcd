"""Paths of tables: local or not, and the format of the files, by their suffix."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

KINDS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
COMPRESSIONS = {".gz", ".bz2", ".lz4", ".snappy", ".zst", ".zstd"}


def is_local(path: str) -> bool:
    """Whether it is a path of this machine, and not of another file system."""
    return "://" not in path or path.startswith("file://")


def local(path: str) -> str:
    return path.removeprefix("file://")


def is_there(path: str) -> bool:
    """Whether there is anything at a local path, which may be a pattern of paths."""
    return Path(local(path)).exists() or bool(glob.glob(local(path)))


def kind_of(path: str) -> str:
    """The format of a path, by its suffix: csv, json, or else parquet."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return KINDS.get(suffixes[-1], "parquet") if suffixes else "parquet"


def kind_of_files(path: str) -> str:
    """The format of the files at a path: by its own suffix, or else by that of a file in a local directory."""
    own = kind_of(path)
    if own != "parquet" or not is_local(path):
        return own
    first = first_file(path)
    return own if first is None else kind_of(first.name)


def first_file(path: str) -> Path | None:
    """One of the files at a local path that Spark would read: not hidden, nor below a directory that is."""
    return next(files_of(path), None)


def files_of(path: str) -> Iterator[Path]:
    """The files at a local path that Spark would read."""
    roots = [local(path)] if Path(local(path)).exists() else sorted(glob.glob(local(path)))
    return (file for root in roots for file in _files(Path(root)))


def _files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith((".", "_")))
