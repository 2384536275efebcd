"""Statements in pieces: a replaced piece keeps the lines and, if it can, the length of the original."""

from __future__ import annotations

import pytest

from episode.clients.commands import Piece, _piece, has_patterns
from episode.lang.statement import parse_statement

CLAUSE = "MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))"


@pytest.mark.parametrize(
    ("original", "written"),
    [
        (f"t {CLAUSE}", "{x}"),
        (f"t\n{CLAUSE}\n\n  ", "{x}"),
        ("t\n(\n)", "{x}"),
        ("short", "{x} and much more than was there"),
    ],
)
def test_pieces_keep_lines_and_length(original: str, written: str) -> None:
    piece = _piece(original, written, {"x": "__episode_x"})
    assert piece.original == original
    assert piece.written.startswith("__episode_x")
    assert piece.written.count("\n") == original.count("\n")
    if original != "short":
        assert len(piece.written.rpartition("\n")[2]) == len(original.rpartition("\n")[2])
        assert len(piece.written) == len(original) or len(original) < len("__episode_x")


def test_copied_pieces_are_as_written() -> None:
    assert _piece("a {b} }", "a {{b}} }}", {}) == Piece("a {b} }", "a {b} }")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"EXPLAIN SELECT * FROM t {CLAUSE}", True),
        (f"CREATE VIEW v AS SELECT * FROM t {CLAUSE}", True),
        ("PATTERN A; B WITHIN 10", True),
        ("SHOW STREAMS", True),
        ("SELECT match_recognize FROM t", False),
        ("CREATE VIEW v AS SELECT 1", False),
    ],
)
def test_statements_with_patterns_anywhere(text: str, found: bool) -> None:
    assert has_patterns(parse_statement(text, anywhere=True)) is found
