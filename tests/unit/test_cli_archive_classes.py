"""`episode archive-classes`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from episode.cli import app
from episode.spark import class_archive


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Path("/cache/episode-1.jsa"), "The Java classes of Spark are archived: /cache/episode-1.jsa."),
        (None, "The Java classes of Spark could not be archived; all works without that, only later."),
    ],
)
def test_classes_are_archived(monkeypatch: pytest.MonkeyPatch, made: Path | None, said: str) -> None:
    monkeypatch.setattr(class_archive, "make", lambda: made)
    result = CliRunner().invoke(app, ["archive-classes"])
    assert result.exit_code == 0
    assert " ".join(result.stderr.split()).endswith(said)
