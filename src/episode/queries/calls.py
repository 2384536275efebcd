"""Query objects and their methods, for statements, patterns with their events, and correlations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from episode.errors import EpisodeAnalysisError
from episode.plan.options import Options
from episode.queries.bound_statement import BoundStatement, bind_statement
from episode.queries.events import check_statement_tables
from episode.queries.origins import QueryOrigin, origin_of, remember
from episode.queries.tables import Table, checked_tables, is_value, session_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.queries.live_start import Into, LiveSettings
    from episode.queries.statement import StatementQuery
    from episode.spark.live import LiveQuery


class QueryCall(Protocol):
    """A query with its input; nothing is planned before it is asked."""

    def frame(self) -> DataFrame:
        """The result on Spark, lazily."""

    def origin(self) -> QueryOrigin:
        """Its patterns, planned on Spark."""

    def local(self) -> Any:
        """The result in this process."""

    @property
    def is_local(self) -> bool:
        """Whether its tables are in this process, without a session."""

    def local_origin(self) -> QueryOrigin:
        """Its patterns, planned in this process."""

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        """The query in live tasks."""


@dataclass(frozen=True)
class StatementCall:
    """A statement with its tables. function: the public function that was called."""

    text: str
    spark: SparkSession | None
    options: Options
    tables: dict[str, Table]
    arguments: Mapping[str, object]
    function: str = "sql"

    def _bind(self) -> BoundStatement:
        bound = bind_statement(text_of(self.text), self.arguments)
        check_statement_tables(self.function, self.tables, bound.statement.tokens)
        return bound

    def _query(self) -> StatementQuery:
        from episode.queries.statement import StatementQuery

        bound, given = self._bind(), checked_tables(self.tables)
        return StatementQuery(bound, session_of(self.spark, given), self.options, given)

    def frame(self) -> DataFrame:
        query = self._query()
        return remember(query.result(), query.origin)

    def origin(self) -> QueryOrigin:
        query = self._query()
        query.plan()
        return query.origin

    def local(self) -> Any:
        from episode.queries.local import sql_local

        bound = bind_statement(text_of(self.text), self.arguments)
        return sql_local(bound, self.tables, self.options, self.function)

    @property
    def is_local(self) -> bool:
        return self.spark is None and bool(self.tables) and all(map(is_value, self.tables.values()))

    def local_origin(self) -> QueryOrigin:
        from episode.queries.local import statement_patterns

        patterns = statement_patterns(self._bind(), self.tables, self.options)
        return QueryOrigin(self.text, None, patterns, "No pattern in this statement.")

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        from episode.queries.live_start import start_live

        text = text_of(self.text)
        if self.tables:
            name = next(iter(self.tables))
            message = f"The table {name} is given, but a live query reads declared streams."
            raise EpisodeAnalysisError(message, hint=f"Declare it with CREATE STREAM {name}, and leave {name}= out.")
        return start_live(text, session_of(self.spark, {}), into, self.options, self.arguments, settings)


@dataclass(frozen=True)
class ResultCall:
    """The DataFrame that a query returned."""

    result: DataFrame

    def frame(self) -> DataFrame:
        return self.result

    def origin(self) -> QueryOrigin:
        return origin_of(self.result)

    is_local = False

    def local(self) -> Any:
        raise NotImplementedError  # not reached: such a query is not handed to users

    def local_origin(self) -> QueryOrigin:
        raise NotImplementedError  # not reached either

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        raise NotImplementedError  # not reached either
