"""`spark.sql` of a class that stands for Spark's: what reaches Spark, and what reaches episode."""

from __future__ import annotations

from typing import Any

import pytest

from episode.clients import session_sql
from episode.clients.session_sql import install_sql, uninstall_sql
from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError

OURS = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))"


class Frame:
    def __init__(self, session: Any) -> None:
        self.session = session

    @property
    def sparkSession(self) -> Any:
        return self.session

    def mapInArrow(self) -> None: ...


class Conf:
    def get(self, name: str, default: str) -> str:
        return default


class Session:
    conf = Conf()

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
        """As Spark's."""
        return "spark", sqlQuery, args, kwargs


class Call:
    """What became of a statement."""

    def __init__(self, text: str, spark: Any, options: Any, tables: Any, arguments: Any, function: str) -> None:
        self.text, self.spark, self.tables, self.arguments = text, spark, tables, arguments

    def frame(self) -> Any:
        return self


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = type("Derived", (type("Spark", (Session,), {"sql": Session.sql}),), {})
    monkeypatch.setattr(session_sql, "StatementCall", Call)
    install_sql(made)
    install_sql(made)
    return made()


def test_other_statements_are_sparks(spark: Any) -> None:
    assert spark.sql("SELECT 1") == ("spark", "SELECT 1", None, {})
    assert spark.sql("SELECT {x} -- ?", ["a"], x=1) == ("spark", "SELECT {x} -- ?", ["a"], {"x": 1})
    assert spark.sql(sqlQuery="SELECT 1", args={"a": 1})[2] == {"a": 1}
    assert type(spark).sql.__doc__ == "As Spark's."


def test_it_is_taken_back(spark: Any) -> None:
    uninstall_sql(type(spark))
    uninstall_sql(type(spark))
    assert spark.sql(OURS)[0] == "spark"
    assert "sql" not in vars(type(spark))  # the class that has it, not the derived one


def test_named_parameters(spark: Any) -> None:
    found = spark.sql(OURS.replace("ts", "ts + :a"), {"a": 5, "unused": 1})
    assert (found.spark, found.arguments) == (spark, {"a": 5})


def test_positional_parameters(spark: Any) -> None:
    found = spark.sql("SELECT ? FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A?))", args=[5])
    assert found.text == "SELECT :_1 FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A?))"
    assert found.arguments == {"_1": 5}


def test_a_parameter_without_a_list(spark: Any) -> None:
    with pytest.raises(EpisodeAnalysisError, match="has no value"):
        spark.sql(OURS.replace("ts", "ts + ?"), {"a": 5})
    with pytest.raises(EpisodeAnalysisError, match="args is a str"):
        spark.sql(OURS, "a")


def test_tables_and_values_by_keyword(spark: Any) -> None:
    frame, other = Frame(spark), Frame(spark)
    text = "SELECT {n:.1f}, {{x}} FROM {t} MATCH_RECOGNIZE (PATTERN (A{2} {- B{,3} -} C{1,2}?)), {u}, {t}, {v}"
    found = spark.sql(text, n=1.25, t=frame, u=other, unused=1)
    assert found.text == (
        "SELECT 1.2, {x} FROM `t` MATCH_RECOGNIZE (PATTERN (A{2} {- B{,3} -} C{1,2}?)), `u_`, `t`, {v}"
    ).replace("`u_`", "`u`")
    assert found.tables == {"t": frame, "u": other}


def test_a_name_of_the_text_is_not_taken_for_a_table(spark: Any) -> None:
    frame = Frame(spark)
    found = spark.sql("SELECT * FROM {t} MATCH_RECOGNIZE (ORDER BY ts PATTERN (A)) JOIN T", t=frame)
    assert found.tables == {"t_": frame}
    assert "FROM `t_` MATCH" in found.text


def test_an_error_shows_the_text_as_written(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Call) -> None:
        raise EpisodeSyntaxError("no", source=self.text, position=self.text.index("PATTERN"))

    monkeypatch.setattr(Call, "frame", fail)
    text = "SELECT ?, ? FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A))"
    with pytest.raises(EpisodeSyntaxError) as error:
        spark.sql(text, [1, 2])
    assert (error.value.source, error.value.position) == (text, text.index("PATTERN"))


def test_statements_that_episode_runs_are_sparks(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that looks like one of ours, but is not, must not come back for ever."""
    monkeypatch.setattr(Call, "frame", lambda self: self.spark.sql(self.text))
    assert spark.sql(OURS)[0] == "spark"
    assert spark.sql(OURS)[0] == "spark"
