"""The archive of Java's classes: for which Java and which Spark it is, where it is kept, and when it is used."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from episode.spark import class_archive
from episode.spark.session import JAVA_OPTIONS, java_settings


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that is only a file, and a directory for archives."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    archives = tmp_path / "archives"
    monkeypatch.setattr(class_archive, "_places", lambda: [archives])
    return archives


def writes(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    Path(command[-1]).write_bytes(b"classes")
    return subprocess.CompletedProcess(command, 0)


def fails(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    Path(command[-1]).write_bytes(b"half of the classes")
    return subprocess.CompletedProcess(command, 1)


def test_an_archive_is_made_once_and_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_archive.options() == []
    monkeypatch.setattr(subprocess, "run", writes)
    made = class_archive.make()
    assert made is not None
    assert made.read_bytes() == b"classes"
    assert f"-XX:SharedArchiveFile={made}" in class_archive.options()
    assert f"-XX:SharedArchiveFile={made} " in java_settings()[JAVA_OPTIONS]
    monkeypatch.setattr(subprocess, "run", fails)
    assert class_archive.make() == made
    assert [path.name for path in place.iterdir()] == [made.name]


def test_an_archive_of_another_java_is_not_used_and_goes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", writes)
    first = class_archive.make()
    other = place.parent / "other" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(place.parent / "other"))
    assert class_archive.find() is None
    second = class_archive.make()
    assert first is not None
    assert second is not None
    assert first != second
    assert not first.exists()


def test_an_archive_that_is_not_finished_is_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", fails)
    assert class_archive.make() is None
    assert list(place.iterdir()) == []
    assert class_archive.options() == []


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR"])
def test_a_spark_with_settings_of_its_own_is_left_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(subprocess, "run", writes)
    class_archive.make()
    monkeypatch.setenv(name, "/opt/spark")
    assert JAVA_OPTIONS not in java_settings()


def test_without_java_there_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(place / "nowhere"))
    assert class_archive.make() is None
