"""What episode logs goes through `logging`, under the name episode, and nowhere else."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import episode

SOURCE = Path(episode.__file__).parent


def test_a_program_that_wants_no_log_gets_none() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("episode").handlers)


def test_loggers_are_named_after_episode_and_nothing_is_printed() -> None:
    loggers = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called == "logging.getLogger" and isinstance(node.args[0], ast.Constant):
                loggers.add(node.args[0].value)
            assert called != "print", f"{file}:{node.lineno}"
    assert {"episode.spark", "episode.live"} <= loggers
    assert all(name.partition(".")[0] == "episode" for name in loggers)
