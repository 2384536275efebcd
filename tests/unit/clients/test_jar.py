"""The jar that is in the package is the one of the sources."""

from __future__ import annotations

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from zipfile import ZipFile

from episode.clients.jar import EXTENSION, JAR

SCRIPT = Path(__file__).parents[3] / "scripts" / "jar"
_LOADER = SourceFileLoader("jar_script", str(SCRIPT))
_SPEC = importlib.util.spec_from_loader("jar_script", _LOADER)
assert _SPEC is not None
script = importlib.util.module_from_spec(_SPEC)
_LOADER.exec_module(script)


def test_the_jar_is_that_of_the_sources() -> None:
    with ZipFile(JAR) as jar:
        assert jar.read("META-INF/MANIFEST.MF").decode() == script.manifest(), "run: make jar"


def test_the_extension_is_in_the_jar() -> None:
    with ZipFile(JAR) as jar:
        assert f"{EXTENSION.replace('.', '/')}.class" in jar.namelist()
        assert all(entry.date_time == script.FIRST for entry in jar.infolist())
