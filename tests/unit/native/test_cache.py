"""Object code on disk: found again, replaced if damaged, loaded only from a directory of the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from episode.native import cache, running
from episode.native.builder import Program
from episode.native.ir import F64
from episode.native.running import Compiled, compile_program


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.SETTING, str(tmp_path / "code"))
    return tmp_path / "code"


class Compiler:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, program: str) -> bytes:
        self.calls += 1
        return f"code of {program}".encode()


def test_code_is_compiled_once(place: Path) -> None:
    compiler = Compiler()
    for _ in range(3):
        assert cache.object_code("p", "machine", compiler) == b"code of p"
    assert compiler.calls == 1
    cache.object_code("p", "another machine", compiler)
    cache.object_code("q", "machine", compiler)
    assert compiler.calls == 3
    assert len(list(place.iterdir())) == 3


@pytest.mark.parametrize("damage", [lambda code: b"", lambda code: code[:-1], lambda code: code[:-1] + b"X"])
def test_damaged_code_is_compiled_again(place: Path, damage) -> None:
    compiler = Compiler()
    cache.object_code("p", "machine", compiler)
    (file,) = place.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert cache.object_code("p", "machine", compiler) == b"code of p"
    assert cache.object_code("p", "machine", compiler) == b"code of p"
    assert compiler.calls == 2


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_directory_that_others_can_write_to_is_not_used(place: Path, mode: int) -> None:
    compiler = Compiler()
    place.mkdir()
    os.chmod(place, mode)
    for _ in range(2):
        assert cache.object_code("p", "machine", compiler) == b"code of p"
    assert compiler.calls == 2
    assert not list(place.iterdir())


def test_a_link_is_not_used(place: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "elsewhere")
    assert cache.directory() is None


def test_a_new_directory_belongs_to_the_user_alone(place: Path) -> None:
    assert cache.directory() == place
    assert place.stat().st_mode & 0o777 == 0o700


def test_nothing_is_kept_on_disk_if_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SETTING, "")
    assert cache.directory() is None


def test_a_full_disk_does_not_matter(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    assert cache.object_code("p", "machine", Compiler()) == b"code of p"
    assert not list(place.iterdir())


def program(limit: float) -> Program:
    made = Program("sum")
    f = made.function("run")
    values = f.array("values", F64)
    count = f.variable("count", 0)
    with f.loop(0, values.length) as row:
        with f.when(values[row] > limit):
            count.set(count + 1)
    f.give(count)
    return made


def test_programs_are_loaded_from_the_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from episode.native import llvm

    first = Compiled(program(0.25), checked=False)
    monkeypatch.setattr(llvm, "compile_quickly", lambda text: pytest.fail("compiled again"))
    second = Compiled(program(0.25), checked=False)
    values = np.array([0.0, 0.5, 1.0])
    assert first([values]) == second([values]) == 2


def test_equal_programs_are_one_in_memory(place: Path) -> None:
    assert compile_program(program(0.125)) is compile_program(program(0.125))
    assert compile_program(program(0.125)) is not compile_program(program(0.126))


def test_code_that_reads_much_is_compiled_with_care(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "THOROUGH_FROM", 8)
    values = np.array([0.0, 0.5, 1.0])
    made = Compiled(program(0.375), checked=False)
    seen = [(made([values]), made.thorough) for _ in range(4)]
    assert seen == [(2, False), (2, False), (2, True), (2, True)]
    # The next process finds it on the disk.
    assert Compiled(program(0.375), checked=False).thorough


def test_old_files_are_removed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 6)
    place.mkdir(mode=0o700, parents=True)
    for number in range(8):
        (place / f"file{number}").write_bytes(b"x")
        os.utime(place / f"file{number}", (number, number))
    cache._remove_oldest.cache_clear()
    cache.object_code("program", "identity", lambda text: b"code")
    assert [file.name for file in sorted(place.iterdir()) if file.name.startswith("file")] == ["file6", "file7"]
