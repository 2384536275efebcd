"""Positional parameters become named ones; quantifiers stay."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError
from episode.lang.positional import name_parameters, positional_parameters


def test_parameters_have_numbers() -> None:
    named = name_parameters("SELECT ? FROM t WHERE x > ? AND s <> '?' -- ?", [5, "a"])
    assert named.text == "SELECT :_1 FROM t WHERE x > :_2 AND s <> '?' -- ?"
    assert named.arguments == {"_1": 5, "_2": "a"}


def test_quantifiers_are_none() -> None:
    text = "FROM t MATCH_RECOGNIZE (PATTERN (A? (B C??)? D{2}?) WITHIN ? DEFINE A AS x > ?) WHERE pattern LIKE ?"
    assert [text[: one.start].count("?") for one in positional_parameters(text)] == [5, 6, 7]


def test_a_text_without_parameters_stays() -> None:
    assert name_parameters("SELECT 1", []).text == "SELECT 1"


@pytest.mark.parametrize(("values", "column"), [([1], 15), ([1, 2, 3], 16)])
def test_every_parameter_has_one_value(values: list[int], column: int) -> None:
    with pytest.raises(EpisodeAnalysisError, match="2 parameters") as error:
        name_parameters("SELECT ? FROM ?", values)
    assert error.value.line_and_column == (1, column)


@pytest.mark.parametrize("word", ["SELECT", "FROM", "t", "WHERE", "x"])
def test_errors_show_the_text_as_written(word: str) -> None:
    written = "SELECT ?, ? FROM t WHERE ? x"
    named = name_parameters(written, [1, 2, 3])
    error = EpisodeSyntaxError("no", source=named.text, position=named.text.index(word))
    named.place_in_written(error)
    assert (error.source, error.position) == (written, written.index(word))


def test_an_error_at_a_parameter_is_at_its_question_mark() -> None:
    named = name_parameters("a ? b ? c", [1, 2])
    for place in range(named.text.index(":_2"), named.text.index(" c")):
        error = EpisodeSyntaxError("no", source=named.text, position=place)
        named.place_in_written(error)
        assert error.position == 6
