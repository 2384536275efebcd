"""How errors show their place in the query, and what is left of those that come through Spark."""

from __future__ import annotations

import pickle

import pytest

from episode.errors import SHOWN_COLUMNS, EpisodeDataError, EpisodeError, EpisodeSyntaxError
from episode.spark.errors import both, translate


@pytest.mark.parametrize("position", [0, 5, 79, 80, 81, 2_500, 4_919, 4_920, 4_921, 4_999])
def test_long_lines_are_shown_around_the_place(position: int) -> None:
    source = "SELECT\n" + "x" * position + "!" + "x" * (4_999 - position)
    error = EpisodeSyntaxError("No.", source=source, position=7 + position, hint="Yes.")
    message, place, line, carets, hint = str(error).split("\n")
    assert (message, hint) == ("No.", "  Yes.")
    assert place == f"  at line 2, column {position + 1}:"
    assert line[carets.index("^")] == "!"
    assert carets.strip() == "^"
    assert len(line) <= SHOWN_COLUMNS + len("   2 | …  …")


def test_carets_stay_within_what_is_shown() -> None:
    error = EpisodeSyntaxError("No.", source="x" * 1_000, position=0, length=1_000)
    _, _, line, carets = str(error).split("\n")
    assert len(carets) <= len(line)


def test_short_lines_are_shown_whole() -> None:
    source = "SELECT *\n\tFROM ticks"
    error = EpisodeSyntaxError("No.", source=source, position=source.index("ticks"), length=5)
    assert str(error).split("\n")[2:] == ["   2 | \tFROM ticks", "       \t     ^^^^^"]


def test_an_error_of_a_stream_is_told_without_its_plan() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted.\n"
        "Traceback (most recent call last):\n"
        "episode.errors.EpisodeDataError: The checkpoint belongs to another query.\n  Start anew.\n\n"
        "=== Streaming Query ===\nIdentifier: [id = 1]\nLogical Plan:\n~Project"
    )
    error = translate(RuntimeError(text))
    assert isinstance(error, EpisodeDataError)
    assert str(error) == "The checkpoint belongs to another query.\n  Start anew."


def test_a_notebook_shows_the_message_alone() -> None:
    error = EpisodeSyntaxError("No.", source="SELECT x", position=7, hint="Yes.")
    assert error._render_traceback_() == [
        "EpisodeSyntaxError: No.\n  at line 1, column 8:\n   1 | SELECT x\n              ^\n  Yes."
    ]


class ForeignError(Exception):
    """Stands in for an exception of Spark."""

    def __init__(self, text: str, more: int) -> None:
        super().__init__(text)
        self.more = more


def test_an_error_of_two_classes() -> None:
    ours, foreign = EpisodeDataError("Wrong.", hint="Do this."), ForeignError("long text", 5)
    error = both(ours, foreign)
    assert isinstance(error, EpisodeDataError)
    assert isinstance(error, ForeignError)
    assert (str(error), error.more, error.args) == ("Wrong.\n  Do this.", 5, ("Wrong.",))
    assert error.__cause__ is foreign
    with pytest.raises(EpisodeDataError) as raised:
        raise error from None  # as PySpark does
    assert raised.value.__cause__ is foreign
    assert both(ours, error) is error
    assert both(error, ValueError("outer")).__class__.__mro__[1:3] == (EpisodeDataError, EpisodeError)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied)) == (EpisodeDataError, str(error))
