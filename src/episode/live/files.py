"""Parquet files that appear whole or not at all, in a directory of any file system that Arrow knows."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from episode.store.files import space_needed


class FileDirectory:
    """A directory of Parquet files; names of unfinished ones begin with an underscore, which readers leave out."""

    def __init__(self, path: str) -> None:
        self.path = path
        found = FileSystem.from_uri(path) if "://" in path else (LocalFileSystem(), path)
        self.files: FileSystem = found[0]
        self.place: str = found[1]

    def write(self, name: str, table: pa.Table, notes: Mapping[str, str]) -> None:
        """A file, with notes in its metadata. One of the same name is replaced."""
        self.files.create_dir(self.place, recursive=True)
        unfinished = posixpath.join(self.place, f"_{name}-{uuid.uuid4().hex}")
        known = {**(table.schema.metadata or {}), **{key.encode(): value.encode() for key, value in notes.items()}}
        with space_needed(f"{name} in {self.path}"):
            pq.write_table(table.replace_schema_metadata(known), unfinished, filesystem=self.files)
            self._bring_to_disk(unfinished)
            self.files.move(unfinished, posixpath.join(self.place, name))
            self._bring_to_disk(self.place)

    def _bring_to_disk(self, place: str) -> None:
        if isinstance(self.files, LocalFileSystem):
            handle = os.open(place, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def names(self, prefix: str) -> list[str]:
        """The files whose names begin so, in order."""
        found = self.files.get_file_info(FileSelector(self.place, allow_not_found=True))
        names = [str(info.base_name) for info in found if info.type == FileType.File]
        return sorted(name for name in names if name.startswith(prefix))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        for found in self.names(name):
            if found == name:
                self.files.delete_file(posixpath.join(self.place, name))

    def tidy(self, prefix: str) -> None:
        """Remove unfinished files whose names should have begun so: their writer is no more."""
        for name in self.names(f"_{prefix}"):
            self.files.delete_file(posixpath.join(self.place, name))

    def note(self, name: str, key: str) -> str | None:
        """What a file's metadata say."""
        schema = pq.read_schema(posixpath.join(self.place, name), filesystem=self.files)
        found = (schema.metadata or {}).get(key.encode())
        return None if found is None else found.decode()
