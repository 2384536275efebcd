"""Two patterns given with their events, and their correlation by recency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

from episode.errors import EpisodeAnalysisError
from episode.lang.correlation.parser import comparisons, equalities
from episode.lang.correlation.syntax import Correlation, Equality
from episode.lang.cursor import Cursor, closest
from episode.lang.lexer import tokenize
from episode.lang.syntax import NOWHERE, Source, Span
from episode.matchers.projection import CopiedColumn, Projection, Projections
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.events.imprecise import duration_of
from episode.plan.options import Options
from episode.plan.output import MATCH_END, MATCH_START
from episode.plan.parameters import check_arguments
from episode.plan.schema import quote
from episode.queries.bound_statement import StatementPattern
from episode.queries.language import ARCHIVE, LIVE, Length
from episode.queries.languages import language_of
from episode.queries.languages.correlation import CORRELATIONS
from episode.queries.match import MatchQuery
from episode.queries.options import check_streams, check_use
from episode.queries.origins import PlacedPattern, QueryOrigin, remember
from episode.queries.planning import plan_pair
from episode.queries.selection import SelectedTable, Selection
from episode.queries.substitution import PAIRS, escape_braces, lateral, tables_text
from episode.queries.tables import held_table, like, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from episode.queries.live_start import Into, LiveSettings
    from episode.queries.local import LocalPlan
    from episode.spark.live import LiveQuery

On = Union[str, Sequence[str], Mapping[str, str]]
"""Columns that are equal: of both by one name, or those of the live pattern with those of the archive pattern."""


@dataclass(frozen=True)
class CorrelateQuery:
    """Two patterns with their events, correlated by recency; nothing is planned yet."""

    live: MatchQuery
    archive: MatchQuery
    recency: Length
    on: On
    where: str | None
    ordered: bool
    options: Options
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, one in ((LIVE, self.live), (ARCHIVE, self.archive)):
            if not isinstance(one, MatchQuery):
                message = f"The {name} side of a correlation is not a pattern with its events."
                hint = "Make it with episode.query(pattern, Events(table, …)), or write the correlation in SQL."
                raise EpisodeAnalysisError(message, hint=hint)
            if one.options != Options():
                message = f"The {name} pattern has options, which are for the whole correlation."
                raise EpisodeAnalysisError(message, hint="Write live.correlate(archive, options=Options(…), …).")

    def query(self) -> Correlation:
        if not isinstance(self.ordered, bool):
            raise EpisodeAnalysisError(f"ordered={self.ordered!r}: True or False is needed.")
        queries = [one.query() for one in (self.live, self.archive)]
        check_use(self.options, [*(language_of(query) for query in queries), CORRELATIONS])
        where = self._where()
        tokens = tokenize(where)
        check_arguments(where, tokens, self.arguments)
        cursor, end = Cursor(where, tokens), len(tokens) - 1
        return Correlation(
            live=queries[0],
            archive=queries[1],
            duration=duration_of("recency", self.recency),
            ordered=self.ordered,
            equalities=(*self._on(), *equalities(cursor, 0, end)),
            comparisons=tuple(comparisons(cursor, 0, end)) if end else (),
            source=Source(str(self.recency)),
            names=(LIVE, ARCHIVE),
        )

    def origin(self) -> QueryOrigin:
        query = self.query()
        session, live = self.live.events_of(query.live)
        _, archive = self.archive.events_of(query.archive)
        run = self.options.run(1, self._all_arguments())
        planned = plan_pair(session, query, live, archive, run)
        check_streams(self.options, [planned])
        return QueryOrigin(self._text(query), session, (PlacedPattern(query, (live, archive), planned, run),))

    def frame(self) -> DataFrame:
        """The pairs: columns of the live match, of the archive match, and when the pair begins and ends."""
        from episode.spark.errors import Copies
        from episode.spark.tables import run_sql

        origin = self.origin()
        pairs = origin.pattern().planned.frame()
        columns = pairs.columns
        self._check_on(columns)
        items = [
            f"{PAIRS}.{escape_braces(quote(name))} AS {escape_braces(quote(new))}" for name, new in _new_names(columns)
        ]
        conditions = [escape_braces(condition) for condition in (*self._on_texts(), self._where()) if condition]
        sides = [lateral(columns, LIVE_PREFIX, f"AS {LIVE}"), lateral(columns, ARCHIVE_PREFIX, f"AS {ARCHIVE}")]
        text = f"SELECT {', '.join(items)} FROM {tables_text('pairs', sides[0], sides[1], conditions)}"
        copies = Copies(self._where(), {(0, len(self._where()))})
        spark = pairs.sparkSession
        found = run_sql(spark, text, {"pairs": pairs}, self.arguments, copies)
        return remember(found, origin)

    def local(self) -> Any:
        from episode.queries.local import refusing

        plan = self._plan_local()
        schema, arguments = plan.rows.schema, plan.placed.run.arguments
        self._check_on(schema.names)
        tables = (SelectedTable((LIVE,), LIVE_PREFIX), SelectedTable((ARCHIVE,), ARCHIVE_PREFIX))
        conditions = [
            Selection(Source(text), (), NOWHERE, tables).condition(Span(0, len(text)), schema.names)
            for text in (*self._on_texts(), self._where())
            if text
        ]
        columns = [(new, CopiedColumn(name)) for name, new in _new_names(schema.names)]
        with refusing():
            rows = Projections((*plan.rows.steps, Projection.compile(columns, schema, conditions, arguments)))
        return like(self.live.events, replace(plan, rows=rows).run())

    @property
    def is_local(self) -> bool:
        return self.live.is_local and self.archive.is_local

    def local_origin(self) -> QueryOrigin:
        placed = self._plan_local().placed
        return QueryOrigin(self._text(placed.query), None, (placed,))

    def _plan_local(self) -> LocalPlan:
        from episode.queries.local import plan_pair_local, refusing

        query = self.query()
        live, archive = (
            StatementPattern(one, Span(0, len(language_of(one).source(one).text)))
            for one in (query.live, query.archive)
        )
        tables = [held_table("events", one.events) for one in (self.live, self.archive)]
        if self.live.events is self.archive.events:
            tables[1] = tables[0]
        given = (self.live.given, self.archive.given)
        with refusing():
            return plan_pair_local(
                query, (live, archive), (tables[0], tables[1]), given, self.options, self._all_arguments()
            )

    def _text(self, query: Correlation) -> str:
        return "\n\n".join(language_of(one).source(one).text for one in (query.live, query.archive))

    def _on_texts(self) -> list[str]:
        return [f"{LIVE}.{quote(one.left[1])} = {ARCHIVE}.{quote(one.right[1])}" for one in self._on()]

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        """Refuse: live tasks read a declared stream, which a statement names."""
        return self.live.start(into, settings)

    def _where(self) -> str:
        return "" if self.where is None else text_of(self.where)

    def _on(self) -> list[Equality]:
        names = [self.on] if isinstance(self.on, str) or not isinstance(self.on, (Sequence, Mapping)) else self.on
        pairs = names.items() if isinstance(names, Mapping) else [(name, name) for name in names]
        found = []
        for one, other in pairs:
            if not isinstance(one, str) or not isinstance(other, str):
                hint = "Write for example on='symbol', on=['a', 'b'] or on={'symbolL': 'symbolA'}."
                raise EpisodeAnalysisError(f"on={self.on!r}: names of columns are needed.", hint=hint)
            found.append(Equality((LIVE, one), (ARCHIVE, other), NOWHERE))
        return found

    def _check_on(self, columns: Sequence[str]) -> None:
        for equality in self._on():
            for path, prefix in ((equality.left, LIVE_PREFIX), (equality.right, ARCHIVE_PREFIX)):
                known = [name.removeprefix(prefix) for name in columns if name.startswith(prefix)]
                if path[1].lower() not in [name.lower() for name in known]:
                    guess = closest(path[1], known)
                    message = f"on={self.on!r}: the {path[0]} pattern has no column {path[1]}."
                    hint = (f"Did you mean {guess}? " if guess else "") + f"Its columns: {', '.join(known)}."
                    raise EpisodeAnalysisError(message, hint=hint)

    def _all_arguments(self) -> dict[str, object]:
        merged: dict[str, object] = {}
        for given in (self.live.arguments, self.archive.arguments, self.arguments):
            for name, value in given.items():
                if name in merged and merged[name] != value:
                    message = f"The parameter :{name} has two values: {merged[name]!r} and {value!r}."
                    raise EpisodeAnalysisError(message, hint="Give one of them another name.")
                merged[name] = value
        return merged


def _new_names(columns: Sequence[str]) -> list[tuple[str, str]]:
    """The columns of the pairs by their own names; where these are not unique, with live_ or archive_ before them."""
    own = {name: name.removeprefix(LIVE_PREFIX).removeprefix(ARCHIVE_PREFIX) for name in columns}
    count: dict[str, int] = {}
    for name in own.values():
        count[name.lower()] = count.get(name.lower(), 0) + 1
    named = []
    for name, new in own.items():
        if count[new.lower()] > 1 and name not in (MATCH_START, MATCH_END):
            new = f"{LIVE if name.startswith(LIVE_PREFIX) else ARCHIVE}_{new}"
        named.append((name, new))
    return named
