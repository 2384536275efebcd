"""An archive of the Java classes that Spark loads, for sessions that episode starts.

A good part of the time until Spark is there, and its first query done, Java reads classes from Spark's jars and
checks them. Java can keep them as they are in memory, in a file that is mapped (class data sharing). `make` writes it:
it runs small queries in a session of its own, whose Java writes it as it ends. Java looks for itself whether the file
is of its own version and of these jars; where it is not, or is damaged, Java goes on without it, and says nothing.

The file is beside the package, or in the user's cache directory. A session that
somebody else starts is not changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pyspark

_TRAINING = "episode.spark.class_training"
_TIMEOUT = 300
_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def options() -> list[str]:
    """Java's options with which it uses the archive; none if there is no archive for it."""
    found = find()
    return [] if found is None else [f"-XX:SharedArchiveFile={found}", *_QUIET]


def find() -> Path | None:
    """The archive for the Java and the Spark that would be started."""
    name = _name()
    if name is None:
        return None
    return next((place / name for place in _places() if (place / name).is_file() and " " not in str(place)), None)


def make() -> Path | None:
    """Write the archive, if it is not there; None where that fails: it is not needed, only fast."""
    found, name = find(), _name()
    if found is not None or name is None:
        return found
    place = next(filter(_is_writable, _places()), None)
    if place is None or " " in str(place):
        return None
    for earlier in place.glob("episode-*.jsa"):
        with suppress(OSError):  # in use, where files that are in use do not go
            earlier.unlink()
    with tempfile.TemporaryDirectory(dir=place, prefix="episode-classes-") as directory:
        written = Path(directory) / name
        command = [sys.executable, "-m", _TRAINING, str(written)]
        try:
            done = subprocess.run(
                command,
                timeout=_TIMEOUT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={**os.environ, "PYTHONSAFEPATH": "1"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0 or not written.is_file():
            return None
        os.replace(written, place / name)
    return place / name


def _name() -> str | None:
    """Of the archive, by all that it depends on; None where there is no Java."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        return None
    java = os.path.realpath(java)
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        of_java = os.stat(java).st_mtime_ns
        of_jars = sorted((entry.name, entry.stat().st_size) for entry in os.scandir(jars))
    except OSError:
        return None
    depends = f"{java} {of_java} {jars} {pyspark.__version__} {of_jars}"
    return f"episode-{hashlib.sha256(depends.encode()).hexdigest()[:16]}.jsa"


def _places() -> list[Path]:
    """Beside the package, and in the user's cache directory."""
    beside = Path(__file__).parent / "__pycache__"
    try:
        home = Path.home()
    except RuntimeError:
        return [beside]
    cache = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return [beside, Path(os.environ.get("XDG_CACHE_HOME") or cache) / "episode"]


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False
