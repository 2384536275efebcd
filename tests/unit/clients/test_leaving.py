"""Statements that are left to Spark: only if the session asks for it, and only what Spark can do."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from episode.clients.leaving import LEAVE, by_spark
from episode.errors import EpisodeAnalysisError


class Session:
    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.conf = self

    def get(self, name: str, default: str) -> str:
        assert name == LEAVE
        return default if self.value is None else self.value


class Unanalysed:
    @property
    def schema(self) -> Any:
        raise AnalysisException("no column x")


def refuse() -> None:
    raise ParseException("MATCH_RECOGNIZE")


def test_spark_is_not_asked() -> None:
    for value in (None, "false"):
        assert by_spark(Session(value), lambda: pytest.fail("asked")) is None  # type: ignore[arg-type]


def test_what_spark_can_do_is_sparks() -> None:
    assert by_spark(Session("TRUE"), lambda: "frame") == "frame"  # type: ignore[arg-type]


@pytest.mark.parametrize("attempt", [refuse, Unanalysed])
def test_what_spark_cannot_do_is_episodes(attempt: Any) -> None:
    assert by_spark(Session("true"), attempt) is None  # type: ignore[arg-type]


def test_a_wrong_setting() -> None:
    with pytest.raises(EpisodeAnalysisError, match="is yes"):
        by_spark(Session("yes"), refuse)  # type: ignore[arg-type]
