"""docs/scale.md tells the truth: its code runs, and the options it lists are those of the command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from episode.cli import app

PAGE = Path(__file__).parents[3] / "docs" / "scale.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for text in re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL):
        exec(compile(text, str(PAGE), "exec"), {})  # noqa: S102 - the page's own code
    throughput, latency, recovery = map(float, capsys.readouterr().out.split())
    assert throughput == pytest.approx(1e7, rel=0.1)
    assert latency > 0
    assert recovery > 30


def test_every_option_is_listed() -> None:
    listed = set(re.findall(r"`(--[a-z-]+)`", TEXT.split("## The answer")[0]))
    command = typer.main.get_command(app).commands["size"]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert listed == options - {"--help"}
