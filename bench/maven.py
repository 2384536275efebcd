"""Java programs of the comparisons: their jars taken from Maven Central once, and a Java that runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.harness import ROOT, say

HOMES = ("/usr/lib/jvm/*", "/usr/java/*", "/opt/java/*", "/opt/jdk*")


def taken_once(place: Path, wanted: str, commands: Iterable[list[str]], folder: Path) -> None:
    """Run Maven in a folder, unless `place` holds what was `wanted` already."""
    mark = place / ".taken"
    if mark.exists() and mark.read_text() == wanted:
        return
    if shutil.which("mvn") is None:
        raise SystemExit(
            "Maven (mvn) was not found; Debian and Ubuntu: apt-get install maven, macOS: brew install maven"
        )
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for command in commands:
        say(f"Maven: into {place.relative_to(ROOT)} (once)")
        done = subprocess.run(["mvn", "--batch-mode", "--quiet", *command], cwd=folder, check=False)
        if done.returncode:
            raise SystemExit("Maven could not take what is needed; its messages are above.")
    mark.write_text(wanted)


def java_home(least: int, variable: str) -> Path:
    """The home of the oldest Java found that is not older than `least`; the variable, if set, decides."""
    named = os.environ.get(variable)
    places = [Path(named)] if named else [one for pattern in HOMES for one in Path("/").glob(pattern.lstrip("/"))]
    found = sorted({(number, one.resolve()) for one in places if (number := _major(one)) >= least})
    if not found:
        raise SystemExit(
            f"A Java of version {least} or newer is needed; {variable}=/path/to/its/home says where it is."
        )
    return found[0][1]


def _major(home: Path) -> int:
    release = home / "release"
    if not (home / "bin" / "java").exists() or not release.exists():
        return 0
    said = re.search(r'JAVA_VERSION="(\d+)', release.read_text())
    return int(said.group(1)) if said else 0
