"""`episode run --report`: what is refused before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from episode.cli import app


@pytest.mark.parametrize(
    ("further", "words"),
    [
        (["--follow"], "--follow does not end"),
        (["--live"], "--live does not end"),
        ([], "There is no directory"),
    ],
)
def test_what_has_no_report(tmp_path: Path, further: list[str], words: str) -> None:
    query = tmp_path / "q.sql"
    query.write_text("SELECT 1")
    target = tmp_path / "r.html" if further else tmp_path / "missing" / "r.html"
    done = CliRunner().invoke(app, ["run", str(query), "--report", str(target), *further])
    assert done.exit_code == 2
    assert words in " ".join(done.output.replace("│", " ").split())
