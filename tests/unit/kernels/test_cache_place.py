"""Where kernels are kept that can be kept neither beside their source nor in a home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from episode.kernels import cache_place

KERNEL = "from numba import njit\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"
PROGRAM = """
import sys
from pathlib import Path
from episode.kernels import cache_place
cache_place.choose(Path(sys.argv[1]))
sys.path.insert(0, sys.argv[1])
import kernel
assert kernel.twice(21) == 42
print(sum(kernel.twice.stats.cache_hits.values()))
"""


def test_a_read_only_package_of_a_user_without_a_home(tmp_path: Path) -> None:
    """Nothing can be written beside the source, nor in a home; the second process finds what the first compiled."""
    package, temporary = tmp_path / "package", tmp_path / "tmp"
    package.mkdir()
    temporary.mkdir()
    (package / "kernel.py").write_text(KERNEL)
    (package / "__pycache__").write_text("not a directory")
    without_home = {
        name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    }
    without_home |= {"HOME": "/dev/null", "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    hits = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(package)], env=without_home, check=True, capture_output=True, text=True
        ).stdout.strip()
        for _ in range(2)
    ]
    assert hits == ["0", "1"]
    kept = temporary / f"episode-kernels-{os.getuid()}"
    assert list(kept.rglob("*.nbi"))
    assert kept.stat().st_mode & 0o777 == 0o700


def test_kernels_of_a_read_only_package_are_found(tmp_path: Path) -> None:
    """Compiled when the package was made, they are linked to where numba looks, and not compiled again."""
    package, place = tmp_path / "package", tmp_path / "place"
    package.mkdir()
    (package / "kernel.py").write_text(KERNEL)
    others = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    command = [sys.executable, "-c", PROGRAM, str(package)]
    made = subprocess.run(command, env=others, check=True, capture_output=True, text=True)
    cache_place.link_compiled(package, place)
    used = subprocess.run(
        command, env={**others, "NUMBA_CACHE_DIR": str(place)}, check=True, capture_output=True, text=True
    )
    assert (made.stdout.strip(), used.stdout.strip()) == ("0", "1")
    links = [path for path in place.rglob("*.nb*") if path.is_symlink()]
    assert {path.resolve().parent for path in links} == {package / "__pycache__"}
    before = [path.lstat().st_mtime_ns for path in links]
    cache_place.link_compiled(package, place)
    assert [path.lstat().st_mtime_ns for path in links] == before


def test_other_places_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache_place.SETTING, raising=False)
    cache_place.choose(tmp_path)
    assert cache_place.SETTING not in os.environ
    monkeypatch.setattr(cache_place, "is_writable", lambda directory: False)
    monkeypatch.setenv(cache_place.SETTING, "/elsewhere")
    cache_place.choose(tmp_path)
    assert os.environ[cache_place.SETTING] == "/elsewhere"


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_directory_that_others_may_write_to_is_not_trusted(tmp_path: Path, mode: int) -> None:
    place = cache_place.own_temporary_directory(tmp_path)
    assert place is not None
    place.chmod(mode)
    assert cache_place.own_temporary_directory(tmp_path) is None


def test_a_link_to_another_directory_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / f"episode-kernels-{os.getuid()}").symlink_to(tmp_path)
    assert cache_place.own_temporary_directory(tmp_path) is None
