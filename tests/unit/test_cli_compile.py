"""`episode compile`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import episode
from episode.cli import app
from episode.spark import class_archive


def test_kernels_of_some_languages_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(episode, "compile_kernels", lambda *names, jobs=None: asked.append((names, jobs)))
    said = CliRunner().invoke(app, ["compile", "--no-classes"])
    assert (said.exit_code, said.stdout, said.stderr) == (0, "", "The kernels are compiled.\n")
    given = ["compile", "-l", "rows", "--language", "events", "--jobs", "3", "--no-classes"]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert asked == [((), None), (("rows", "events"), 3)]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Path("/cache/episode-1.jsa"), "The Java classes of Spark are archived: /cache/episode-1.jsa."),
        (None, "The Java classes of Spark could not be archived; all works without that, only later."),
    ],
)
def test_classes_are_archived(monkeypatch: pytest.MonkeyPatch, made: Path | None, said: str) -> None:
    monkeypatch.setattr(episode, "compile_kernels", lambda *names, jobs=None: None)
    monkeypatch.setattr(class_archive, "make", lambda: made)
    result = CliRunner().invoke(app, ["compile"])
    assert result.exit_code == 0
    assert " ".join(result.stderr.split()).endswith(said)


def test_an_unknown_language_is_an_error() -> None:
    said = CliRunner().invoke(app, ["compile", "--language", "sql"])
    assert said.exit_code == 2
    assert said.stderr == (
        "error: There are no kernels for 'sql'.\n"
        "  There are: rows, events, situations, correlation, packing, slices, json, rules.\n"
    )
