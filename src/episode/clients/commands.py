"""A command around matched queries: CREATE VIEW, CREATE TABLE AS, INSERT, EXPLAIN, CACHE TABLE, or a query.

The patterns of a statement are planned here, and names of relations replace them in its text. Whoever can give
Spark the relations (the JVM's parser as plans, a classic session as temporary views) has Spark run the text, so that
every command means what it means in Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

from episode.lang.lexer import parameters_in
from episode.lang.statement import Statement, parse_statement
from episode.plan.options import Options
from episode.queries.bound_statement import bind_parsed
from episode.queries.statement import StatementQuery
from episode.queries.tables import session_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RELATION = "__episode"
"""The beginning of the names of relations."""


@dataclass(frozen=True)
class Piece:
    """A piece of a statement. original: as the user wrote it. written: as Spark is to parse it."""

    original: str
    written: str


@dataclass(frozen=True)
class Command:
    """A statement whose patterns are planned. relations: their DataFrames, by the names in the written pieces."""

    pieces: tuple[Piece, ...]
    relations: Mapping[str, DataFrame]

    @property
    def text(self) -> str:
        """The statement for Spark's parser."""
        return "".join(piece.written for piece in self.pieces)


def has_patterns(statement: Statement) -> bool:
    """Is anything in a statement for episode to evaluate?"""
    patterns = (statement.whole, statement.streams, *statement.patterns, *statement.tables, *statement.windowed)
    return any(one is not None for one in patterns)


def plan_command(text: str, spark: SparkSession, arguments: Mapping[str, object]) -> Command | None:
    """Plan the patterns of a statement; None for a statement without any.

    arguments: values of named parameters, of which only those are bound that the text names.
    """
    statement = parse_statement(text, anywhere=True)
    if not has_patterns(statement):
        return None
    named = {name for name, _ in parameters_in(statement.tokens)}
    bound = bind_parsed(statement, {name: value for name, value in arguments.items() if name in named})
    query = StatementQuery(bound, session_of(spark, {}), Options(), {})
    parts = query.parts()
    prefix = RELATION
    while prefix in text:
        prefix += "_"
    names = {reference: f"{prefix}{reference}" for reference in query.frames}
    pieces = tuple(_piece(text[span.start : span.end], written, names) for span, written in parts)
    used = {name for _, written in parts for _, name, _, _ in Formatter().parse(written) if name is not None}
    return Command(pieces, {names[one]: query.frames[one] for one in used})


def _piece(original: str, written: str, names: Mapping[str, str]) -> Piece:
    """A piece that is as long as the original if possible, and has as many lines: what follows keeps its place."""
    text = written.format_map(names)
    if text == original:
        return Piece(original, original)
    lines, last = original.count("\n"), len(original) - (original.rfind("\n") + 1)
    if lines:
        text += " " * max(0, len(original) - len(text) - lines - last) + "\n" * lines + " " * last
    else:
        text += " " * max(0, len(original) - len(text))
    return Piece(original, text)
