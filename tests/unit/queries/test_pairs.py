"""Which columns of pairs a statement can ask for."""

from __future__ import annotations

import pytest

from episode.lang.lexer import tokenize
from episode.queries.substitution import mentioned_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a.x, `Y z` FROM", {"select", "a", "x", "y z", "from"}),
        ("SELECT COUNT(*), x * 2, (x) * y FROM", {"select", "count", "x", "y", "from"}),
        ('SELECT "quoted" FROM', {"select", "quoted", "from"}),
    ],
)
def test_names_outside_the_patterns_are_all_that_can_be_asked_for(text: str, names: set[str]) -> None:
    assert mentioned_names(tokenize(text)) == names


@pytest.mark.parametrize(
    "text",
    ["SELECT * FROM", "SELECT l.* FROM", "SELECT x, * FROM", "SELECT DISTINCT * FROM", "SELECT to_json(struct(*)) FROM",
     "SELECT x FROM y NATURAL JOIN", "SELECT x FROM y PIVOT"],
)  # fmt: skip
def test_a_star_means_any_column(text: str) -> None:
    assert mentioned_names(tokenize(text)) is None
