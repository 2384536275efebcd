"""Errors on their way to the JVM: their place counts in UTF-16, lines from 1, all else from 0."""

from __future__ import annotations

from episode.clients.planner import _refuse
from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeSyntaxError


class Refused:
    def refuse(self, *answer: object) -> None:
        self.answer = answer


def refusal(error: EpisodeError) -> tuple[object, ...]:
    statement = Refused()
    _refuse(statement, error)
    return statement.answer


def test_places_count_in_utf_16() -> None:
    text = "SELECT '𝒳'\nFROM 𝒳t b"
    error = EpisodeSyntaxError("Why.", source=text, position=text.index("b"), hint="So.")
    assert refusal(error) == ("syntax", "Why.\n  So.", 2, 9, 21, 21)
    error = EpisodeSyntaxError("Why.", source=text, position=text.index("𝒳t"), length=2)
    assert refusal(error) == ("syntax", "Why.", 2, 5, 17, 19)


def test_errors_of_analysis_show_their_place_themselves() -> None:
    error = EpisodeAnalysisError("No column x.", source="SELECT x", position=7)
    kind, message, *place = refusal(error)
    assert (kind, place) == ("analysis", [1, 7, 7, 7])
    assert str(message).endswith("^")


def test_errors_without_a_place() -> None:
    assert refusal(EpisodeAnalysisError("No.", hint="Yes.")) == ("analysis", "No.\n  Yes.", 0, 0, 0, 0)
