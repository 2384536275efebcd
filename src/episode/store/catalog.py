"""The catalog: a directory with one JSON file for each declared stream, so that every process finds it."""

from __future__ import annotations

import os
import shutil
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from episode.errors import EpisodeAnalysisError
from episode.store import segment
from episode.store.archive import Archive
from episode.store.declaration import Declaration, declare, is_name
from episode.store.files import lock_file, publish_new, seal, translate_method_errors, unseal
from episode.store.log import Log, layout_difference
from episode.store.parquet import file_schema
from episode.store.segment import CorruptSegment, Layout

__all__ = ["Catalog", "Declaration", "catalog_directory", "declare"]

VARIABLE = "EPISODE_CATALOG"
WAREHOUSE = "spark-warehouse"


def catalog_directory(setting: str | None = None, warehouse: str | None = None) -> Path:
    """Return the directory of the catalog: EPISODE_CATALOG, `spark.episode.catalog`, or below the warehouse."""
    place = os.environ.get(VARIABLE) or setting or os.path.join(warehouse or WAREHOUSE, "episode")
    return Path(place.removeprefix("file://").removeprefix("file:")).expanduser().absolute()


@translate_method_errors
class Catalog:
    """The declared streams of a directory. Names are case-insensitive."""

    def __init__(self, directory: str | Path | None = None) -> None:
        self.directory = catalog_directory() if directory is None else Path(directory).expanduser().absolute()

    def create(self, declaration: Declaration, *, if_not_exists: bool = False) -> Declaration:
        """Declare a stream. If its name is taken, raise an error or (if_not_exists) return the existing declaration."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with lock_file(self.directory / ".lock"):
            for name in filter(None, (declaration.name, declaration.archive)):
                found = self.lookup(name)
                if found is None:
                    continue
                if if_not_exists and name == declaration.name and found.name.lower() == name.lower():
                    return found
                taken = f"{name} is the archive of the stream {found.name} already."
                if found.name.lower() == name.lower():
                    taken = f"There is a stream called {name} already."
                hint = f"CREATE STREAM IF NOT EXISTS, or DROP STREAM {found.name} first. Catalog: {self.directory}."
                raise EpisodeAnalysisError(taken, hint=hint)
            if not declaration.location:
                place = self.directory / declaration.name.lower()
                declaration = replace(declaration, location=str(place), managed=True)
            check_stored(declaration)
            if not publish_new(self._path(declaration.name), seal(declaration.as_json())):
                raise EpisodeAnalysisError(f"There is a stream called {declaration.name} already.")
        return declaration

    def drop(self, name: str, *, if_exists: bool = False) -> bool:
        """Forget a stream. Its log and archive go with it, unless it was declared with a LOCATION."""
        with suppress(FileNotFoundError), lock_file(self.directory / ".lock"):
            found = self._read(name)
            if found is not None:
                dropped = self.directory / f".dropped-{uuid.uuid4().hex}"
                if found.managed and found.location:
                    with suppress(FileNotFoundError):  # nothing was appended
                        os.rename(found.location, dropped)  # at once, so that nothing of it is found again
                self._path(found.name).unlink()
                shutil.rmtree(dropped, ignore_errors=True)
                return True
        if not if_exists:
            raise self._missing(name)
        return False

    def names(self) -> list[str]:
        return [declaration.name for declaration in self.declarations()]

    def declarations(self) -> list[Declaration]:
        """All streams, in order of their names."""
        paths = sorted(self.directory.glob("*.json")) if self.directory.is_dir() else []
        return [found for path in paths if (found := self._read(path.stem)) is not None]

    def find(self, name: str) -> Declaration:
        found = self._read(name)
        if found is None:
            raise self._missing(name)
        return found

    def archive_of(self, name: str) -> Declaration | None:
        """Return the stream whose archive has this name, or None."""
        lower = name.lower()
        return next((one for one in self.declarations() if one.archive and one.archive.lower() == lower), None)

    def lookup(self, name: str) -> Declaration | None:
        """Return the stream that has this name or whose archive has it, or None."""
        return self._read(name) or self.archive_of(name)

    def _read(self, name: str) -> Declaration | None:
        if not is_name(name):
            return None
        path = self._path(name)
        try:
            return unseal(path, "The declaration", lambda found: Declaration.of_json(found, str(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _path(self, name: str) -> Path:
        return self.directory / f"{name.lower()}.json"

    def _missing(self, name: str) -> EpisodeAnalysisError:
        names = ", ".join(self.names())
        return EpisodeAnalysisError(
            f"There is no stream {name}.",
            hint=f"Streams: {names}." if names else f"The catalog {self.directory} is empty: CREATE STREAM makes one.",
        )


# Locations that already hold events: a stream that is declared there must have their columns, time, key and lanes.


def check_stored(declaration: Declaration) -> None:
    """An error that names the difference if the events at the location are not of the stream that is declared."""
    log = Log(declaration)
    wrong = _log_difference(log) or _archive_difference(Archive(declaration), log.layout)
    if wrong is not None:
        raise EpisodeAnalysisError(
            f"{declaration.location} holds the events of another stream: {wrong}.",
            hint=f"Choose another LOCATION for {declaration.name}, or declare it as it is stored.",
        )


def _log_difference(log: Log) -> str | None:
    """By the last segment that can be read."""
    for number in reversed(log.numbers()):
        path = log.path(number)
        try:
            footer = segment.read_footer(path)
            schema = segment.read_schema(path, footer.head)
        except (CorruptSegment, FileNotFoundError):
            continue
        layout = None if footer.layout is None else layout_difference(footer.layout, log.layout)
        return segment.difference(schema, log.declaration.schema) or layout
    return None


def _archive_difference(archive: Archive, declared: Layout) -> str | None:
    """By the last file, whose rows are sorted by key and time."""

    def of_file(path: Path) -> str | None:
        with pq.ParquetFile(path) as file:
            stored, metadata = file.schema_arrow, file.metadata
        *key, time = (stored.names[column.column_index] for column in metadata.row_group(0).sorting_columns)
        layout = Layout(time, tuple(key), declared.lanes)  # files have no lanes
        return segment.difference(stored, file_schema(archive.declaration)) or layout_difference(layout, declared)

    files = archive.manifest().files
    return archive.open_file(files[-1], of_file) if files else None
