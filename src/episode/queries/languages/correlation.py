"""Correlation by recency: two patterns, of any languages, whose matches are joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from episode.lang.correlation.syntax import Correlation, Recency
from episode.lang.statement import Statement
from episode.plan.correlation.explain import correlation_section
from episode.plan.correlation.inputs import joint_input
from episode.plan.correlation.pairs import PairPlan, PairSide, PairTest, equal_keys, pair_tests
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from episode.plan.event_time import in_units_of_time
from episode.plan.options import RunOptions
from episode.plan.parameters import bound_duration
from episode.plan.sections import Section
from episode.queries.language import ARCHIVE, LIVE, Given, Input, Language

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.see.inspecting import Inspected
    from episode.see.pictures.choosing import Wish
    from episode.see.pictures.look import Look

AUTO = "auto"


class Correlations(Language[Correlation]):
    syntax = Correlation
    plans = (PairPlan,)
    name = "pattern correlation"
    called = "the correlation"
    options = frozenset({"correlation", "result_cache", "recent_buffer"})

    def bind(self, query: Correlation, events: Input, given: Given, run: RunOptions) -> PairPlan:  # type: ignore[override]
        """Both patterns over one input."""
        return self.correlate(query, (events, events), (given, given), run, one_table=True)

    def correlate(
        self,
        query: Correlation,
        events: tuple[Input, Input],
        given: tuple[Given, Given],
        run: RunOptions,
        one_table: bool,
    ) -> PairPlan:
        """The live and the archive pattern over their inputs. one_table: which are the same rows."""
        from episode.queries.languages import language_of

        sides = []
        for role, pattern, own, said in zip((LIVE, ARCHIVE), (query.live, query.archive), events, given, strict=True):
            language = language_of(pattern)
            language.check_correlated(pattern, role)
            plan = language.bind(pattern, own, said, replace(run, correlated=True, detect=said.detect or run.detect))
            sides.append(PairSide.of(plan, language.times))
        live, archive = sides
        duration = bound_duration(query.duration, run.arguments, query.source)
        equal = equal_keys(query, (live, archive))
        inputs = joint_input(live.plan, archive.plan, tuple(equal.values()), one_table, query.source, duration.span)
        time = live.plan.order[0].column
        recency = in_units_of_time(
            duration,
            query.source,
            time,
            live.plan.types[time],
            what="RECENCY",
            plain="Write for example RECENCY = 200, in the unit of that column.",
            with_unit=f"Write for example RECENCY = {duration.amount} seconds.",
        )
        strategy = None if run.tuning.correlation == AUTO else CorrelationStrategy(run.tuning.correlation)
        chosen = CorrelationPlan(strategy, run.tuning.result_cache, run.tuning.recent_buffer, query.ordered)
        conditions = tuple(pair_tests(query, (live.pair_columns, archive.pair_columns), equal))
        return PairPlan(live, archive, inputs, recency, duration, query.source, chosen, conditions)

    def spec(self, plan: PairPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        from episode.matchers.correlation.spec import correlation_spec

        return correlation_spec(plan, schema, limit)

    def section(
        self, plan: PairPlan, reports: Sequence[str] | None = None, query: Correlation | None = None
    ) -> Section:
        from episode.queries.languages import language_of_plan

        written = plan.source.text_at(plan.duration.span) or str(plan.recency)
        inside = [one.text for one in plan.conditions if isinstance(one, PairTest)]
        after = [one for one in plan.conditions if isinstance(one, str)]
        own = correlation_section(plan.plan, plan.inputs, written, inside, after, reports)
        sides = ((LIVE, plan.live, query and query.live), (ARCHIVE, plan.archive, query and query.archive))
        parts = ((role, language_of_plan(side).section(side, query=asked)) for role, side, asked in sides)
        return replace(own, parts=tuple(parts))

    def sides(self, query: Correlation) -> tuple[tuple[str | None, Any], ...]:
        return (LIVE, query.live), (ARCHIVE, query.archive)

    def look(self, sides: tuple[Inspected, ...], wish: Wish, zone: str) -> Look:
        from episode.see.pictures.pairs import look_at_pairs

        live, archive = sides
        return look_at_pairs(live, archive, wish, zone)


CORRELATIONS = Correlations()


def correlation_of(statement: Statement, recency: Recency) -> tuple[Correlation, bool]:
    """Return two patterns of a statement, and whether the live one comes first. The match mode of a row pattern
    sets its role; if neither has a role, the first is live."""
    from episode.queries.languages import language_of

    queries = [statement.pattern_at(table.span).query for table in recency.tables]
    first, second = (language_of(query).role(query) for query in queries)
    live_first = first in (second, LIVE) or second == ARCHIVE
    order = (0, 1) if live_first else (1, 0)
    tables = [recency.tables[at] for at in order]
    correlation = Correlation(
        live=queries[order[0]],
        archive=queries[order[1]],
        duration=recency.duration,
        ordered=recency.ordered,
        equalities=recency.equalities,
        comparisons=recency.comparisons,
        source=recency.source,
        names=(tables[0].alias, tables[1].alias),
        columns=(tables[0].columns, tables[1].columns),
    )
    return correlation, live_first
