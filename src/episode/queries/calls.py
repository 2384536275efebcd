"""What a query object can be asked, whatever it is made of: a statement, a pattern with its events, a correlation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from episode.errors import EpisodeAnalysisError
from episode.queries.bound_statement import bind_statement
from episode.queries.keywords import check_statement_tables
from episode.queries.options import Options
from episode.queries.origins import Origin, origin_of, remember
from episode.queries.statement import StatementQuery
from episode.queries.tables import Table, checked_tables, session_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.queries.live_start import Into, LiveSettings
    from episode.spark.live import LiveQuery


class QueryCall(Protocol):
    """A query with its input; nothing is planned before it is asked."""

    def frame(self) -> DataFrame:
        """The result on Spark, lazily."""
        ...

    def origin(self) -> Origin:
        """Its patterns, planned on Spark."""
        ...

    def local(self) -> Any:
        """The result in this process."""
        ...

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        """The query in live tasks."""
        ...


@dataclass(frozen=True)
class StatementCall:
    """A statement with its tables. function: the public function that was called."""

    text: str
    spark: SparkSession | None
    options: Options
    tables: dict[str, Table]
    arguments: Mapping[str, object]
    function: str = "sql"

    def _query(self) -> StatementQuery:
        bound = bind_statement(text_of(self.text), self.arguments)
        check_statement_tables(self.function, self.tables, bound.statement.tokens)
        given = checked_tables(self.tables)
        return StatementQuery(bound, session_of(self.spark, given), self.options, given)

    def frame(self) -> DataFrame:
        query = self._query()
        return remember(query.result(), query.origin)

    def origin(self) -> Origin:
        query = self._query()
        query.plan()
        return query.origin

    def local(self) -> Any:
        from episode.queries.local import sql_local

        return sql_local(text_of(self.text), self.tables, self.options, self.arguments)

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        from episode.queries.live_start import start_live

        text = text_of(self.text)
        if self.tables:
            name = next(iter(self.tables))
            raise EpisodeAnalysisError(
                f"The table {name} is given, but a live query reads declared streams.",
                hint=f"Declare it with CREATE STREAM {name}, and leave {name}= out.",
            )
        return start_live(text, session_of(self.spark, {}), into, self.options, self.arguments, settings)


@dataclass(frozen=True)
class ResultCall:
    """The DataFrame that a query returned."""

    result: DataFrame

    def frame(self) -> DataFrame:
        return self.result

    def origin(self) -> Origin:
        return origin_of(self.result)

    def local(self) -> Any:
        raise NotImplementedError  # not reached: such a query is not handed to users

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        raise NotImplementedError
