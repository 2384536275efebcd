"""`spark.sql` in Python: statements with episode's clauses are episode's, and all others Spark's, untouched.

`install_sql` replaces the method in the classes of sessions, classic and Connect. Parameters and the tables that are
given by keyword are as `spark.sql` has them: `{t}` in the text is the DataFrame, the column or the value of t=….
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from string import Formatter
from typing import TYPE_CHECKING, Any

from episode.clients.jar import EXTENSION
from episode.clients.leaving import by_spark
from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.lexer import parameters_in, tokenize
from episode.lang.own_clauses import has_own_clauses
from episode.lang.positional import NamedParameters, name_parameters, positional_parameters
from episode.lang.syntax import Source
from episode.plan.options import Options
from episode.plan.schema import quote
from episode.queries.calls import StatementCall
from episode.queries.tables import is_spark_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELD = re.compile(
    r"\{\{|\}\}|\{(?P<path>(?P<name>[^\W\d]\w*)(?:\.\w+|\[[^\[\]{}]*\])*)(?:!(?P<conversion>[rsa]))?(?::(?P<spec>[^{}]*))?\}"
)
"""A field of Python's formats, and doubled braces. Braces of patterns are neither: `A{2}`, `{- B -}`."""
_planning: ContextVar[bool] = ContextVar("episode_planning", default=False)
"""Is this thread inside a statement of episode's? What it runs then is Spark's."""


def install_sql(*classes: type) -> None:
    """Have `sql` of these classes of sessions take episode's statements. Again does no harm."""
    for owner in map(_owner, classes):
        if not hasattr(vars(owner)["sql"], "_sparks"):
            owner.sql = _extend(vars(owner)["sql"])  # type: ignore[attr-defined]


def uninstall_sql(*classes: type) -> None:
    """Give these classes of sessions Spark's `sql` back."""
    for owner in map(_owner, classes):
        owner.sql = getattr(vars(owner)["sql"], "_sparks", vars(owner)["sql"])  # type: ignore[attr-defined]


def _owner(session: type) -> type:
    """The class that has the method: a session may be of a class derived from Spark's."""
    return next(one for one in session.__mro__ if "sql" in vars(one))


def _extend(sparks: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @wraps(sparks)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - as Spark
        if _planning.get() or not isinstance(sqlQuery, str) or not has_own_clauses(sqlQuery):
            return sparks(self, sqlQuery, args, **kwargs)
        token = _planning.set(True)
        try:
            left = by_spark(self, lambda: sparks(self, sqlQuery, args, **kwargs))
            return session_sql(self, sqlQuery, args, kwargs) if left is None else left
        except EpisodeUnsupportedError:  # a permanent view, EXPLAIN: the parser of the JVM may take them
            if EXTENSION not in (self.conf.get("spark.sql.extensions", None) or ""):
                raise
            return sparks(self, sqlQuery, args, **kwargs)
        finally:
            _planning.reset(token)

    sql._sparks = sparks  # type: ignore[attr-defined]
    return sql


def session_sql(spark: SparkSession, text: str, args: Any, fields: Mapping[str, Any]) -> DataFrame:
    """The result of a statement with episode's clauses. args: a dict or a list, as `spark.sql` has it."""
    formatter = _Formatter(spark, text, fields)
    written = formatter.format(text, **fields) if fields else text
    named = _name_values(spark, written, args)
    try:
        return StatementCall(named.text, spark, Options(), formatter.tables, named.arguments, "spark.sql").frame()
    except EpisodeError as error:
        named.place_in_written(error)
        raise


def _name_values(spark: SparkSession, text: str, args: Any) -> NamedParameters:
    """The text and its arguments by name. Of a dict, values that the text does not name are left out, as in Spark."""
    if isinstance(args, (list, tuple)):
        return name_parameters(text, [_plain(spark, value) for value in args])
    if args is not None and not isinstance(args, Mapping):
        message = f"args is a {type(args).__name__}."
        raise EpisodeAnalysisError(message, hint="Write {'x': 5} for :x, or [5] for ?.")
    asked = positional_parameters(text)
    if asked:
        message, hint = "This parameter has no value.", "Give the values of ? in a list: args=[5]."
        raise Source(text).error(EpisodeAnalysisError, message, asked[0].span, hint)
    used = {name for name, _ in parameters_in(tokenize(text))}
    arguments = {name: _plain(spark, value) for name, value in (args or {}).items() if name in used}
    return NamedParameters(text, text, arguments, ())


def _plain(spark: SparkSession, value: object) -> object:
    """The value of a literal: `lit(5)`, `lit(5).cast('long')`. Spark evaluates it without a job."""
    from pyspark.sql import Column

    return spark.sql("SELECT 1").select(value).collect()[0][0] if isinstance(value, Column) else value


class _Formatter(Formatter):
    """Spark's formatter of texts, but a DataFrame becomes the name of a given table, and braces of patterns stay."""

    def __init__(self, spark: SparkSession, text: str, fields: Mapping[str, Any]) -> None:
        self.tables: dict[str, DataFrame] = {}
        self._spark, self._text, self._fields = spark, text, fields

    def parse(self, text: str) -> Iterator[tuple[str, str | None, str | None, str | None]]:
        at = 0
        for found in _FIELD.finditer(text):
            if found["name"] is None:
                yield text[at : found.start() + 1], None, None, None
            elif found["name"] in self._fields:
                yield text[at : found.start()], found["path"], found["spec"] or "", found["conversion"]
            else:
                continue
            at = found.end()
        yield text[at:], None, None, None

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        value, first = super().get_field(field_name, args, kwargs)
        return (self._table(value, str(first)) if is_spark_frame(value) else self._by_spark(value)), first

    def _table(self, frame: DataFrame, name: str) -> str:
        """A name that is nowhere else in the text."""
        known = next((name for name, table in self.tables.items() if table is frame), None)
        while known is None and re.search(rf"(?<![\w{{]){name}(?!\w)", self._text, re.IGNORECASE):
            name += "_"
        self.tables[known or name] = frame
        return quote(known or name)

    def _by_spark(self, value: object) -> object:
        """A column (`{df[x]}`) and a text as SQL; other values are what they are."""
        from pyspark.sql import Column

        if not isinstance(value, (Column, str)):
            return value
        if hasattr(self._spark, "_jsparkSession"):
            from pyspark.sql.sql_formatter import SQLStringFormatter
        else:
            from pyspark.sql.connect.sql_formatter import SQLStringFormatter
        return SQLStringFormatter(self._spark).format("{value}", value=value)
