"""Which texts are episode's: the list that the parser in Java is tested with as well."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from episode.errors import EpisodeError
from episode.lang.own_clauses import has_own_clauses
from episode.lang.statement import parse_statement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXTS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parents[2] / "clients" / "texts.toml").read_text())["text"]


@pytest.mark.parametrize("text", TEXTS, ids=[text["why"] for text in TEXTS])
def test_text(text: dict[str, Any]) -> None:
    assert has_own_clauses(text["sql"]) is text["ours"]


@pytest.mark.parametrize("text", [text for text in TEXTS if text["ours"]], ids=lambda text: text["why"])
def test_what_is_ours_is_read_by_episode(text: dict[str, Any]) -> None:
    """It has a pattern or a statement of streams, or an error of episode's."""
    try:
        statement = parse_statement(text["sql"])
    except EpisodeError:
        return
    found = (statement.patterns, statement.tables, statement.whole, statement.streams, statement.windowed)
    assert any(found)


def test_a_text_without_our_words_is_not_cut_into_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.lang.own_clauses.iterate_tokens", None)
    assert not has_own_clauses("SELECT a, sum(b) OVER (ORDER BY ts) FROM events GROUP BY a " * 100)
