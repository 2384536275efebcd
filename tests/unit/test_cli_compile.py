"""`episode compile`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import episode
from episode.cli import app


def test_kernels_of_some_languages_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(episode, "compile_kernels", lambda *names, jobs=None: asked.append((names, jobs)))
    said = CliRunner().invoke(app, ["compile"])
    assert (said.exit_code, said.stdout, said.stderr) == (0, "", "The kernels are compiled.\n")
    assert CliRunner().invoke(app, ["compile", "-l", "rows", "--language", "events", "--jobs", "3"]).exit_code == 0
    assert asked == [((), None), (("rows", "events"), 3)]


def test_an_unknown_language_is_an_error() -> None:
    said = CliRunner().invoke(app, ["compile", "--language", "sql"])
    assert said.exit_code == 2
    assert said.stderr == (
        "error: There are no kernels for 'sql'.\n  There are: rows, events, situations, correlation, packing, json.\n"
    )
