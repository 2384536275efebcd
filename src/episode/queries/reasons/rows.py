"""Reasons that a row pattern has no match: the attempts that begin at a place, and what ended each of them.

The matches of the key are those of the matcher itself, run in this process. Attempts that found none are made again,
step by step, with the same conditions (`matchers.rows.exploring`); the findings are about these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.lang.rows.syntax import MatchRecognize
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import EventBatch
from episode.plan.expressions import Load
from episode.plan.rows.conjuncts import Conjunct, plan_conjuncts
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import END
from episode.plan.types import is_event_time
from episode.queries.inspecting import Inspected
from episode.queries.languages.rows import BoundRowPattern
from episode.queries.reasons.finding import Expectation, Finding
from episode.queries.reasons.row_attempts import RowAttempt, RowAttempts
from episode.queries.reasons.row_words import RowWords
from episode.queries.reasons.times import later

MOST_STARTS = 5_000
"""Start rows that are tried."""
MOST_STEPS = 80_000
"""Steps of all attempts together."""


def reasons(inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
    """Find out how far the attempts that begin at the asked place came, and what ended them."""
    bound, clause = inspected.bound, inspected.placed.query
    assert isinstance(bound, BoundRowPattern)
    conjuncts = plan_conjuncts(clause, bound.schema, bound.plan)
    between = (None, _read_until(bound.plan, asked))
    table = inspected.rows(asked.key, between, reported_columns(conjuncts, bound.schema.columns))
    zone = inspected.events.frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return reasons_over(clause, bound, conjuncts, table, asked, zone, live=inspected.live)


def reported_columns(conjuncts: dict[str, tuple[Conjunct, ...]], columns: Collection[str]) -> list[str]:
    """Return the columns of the input whose values are reported, though the matcher may not need them."""
    read = [one.value for parts in conjuncts.values() for part in parts for one in part.values]
    names = dict.fromkeys(one.column for one in read if isinstance(one, Load))
    return [name for name in names if name in columns]


def _read_until(plan: RowPatternPlan, asked: Expectation) -> Any:
    """Return the last time whose rows can matter: twice the window, to see matches that are a little too long."""
    anchored = any(instruction.operation == END for instruction in plan.program.instructions)
    if plan.within is None or asked.last is None or anchored or plan.lookahead or not plan.order[0].ascending:
        return None
    return later(asked.last, 2 * plan.within) if is_event_time(plan.types[plan.order[0].column]) else None


def reasons_over(
    clause: MatchRecognize,
    bound: BoundRowPattern,
    conjuncts: dict[str, tuple[Conjunct, ...]],
    table: pa.Table,
    asked: Expectation,
    zone: str | None = None,
    *,
    live: bool = False,
    most_starts: int = MOST_STARTS,
    most_steps: int = MOST_STEPS,
) -> tuple[Finding, ...]:
    """Answer over the rows of one key. zone: of the clock that times are shown by. live: may further rows come?
    most_starts, most_steps: of the attempts; the answer tells if they are not enough."""
    spec = bound.spec(table.schema)
    events = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
    words = RowWords(clause, bound.plan, events, asked, zone, live)
    if len(events) == 0:
        return (words.no_rows(),)
    starts, notes = _starts(bound.plan, events, asked, words)
    attempts = RowAttempts.of(spec, bound.plan, events, conjuncts)
    return (*notes, *_findings(attempts, starts, words, most_starts, most_steps))


def _starts(
    plan: RowPatternPlan, events: EventBatch, asked: Expectation, words: RowWords
) -> tuple[np.ndarray, list[Finding]]:
    """Return the rows at the asked place; if a single time has none, the nearest one, with a finding."""
    if not plan.order or (asked.first is None and asked.last is None):
        return np.arange(len(events)), []
    column = events.table.column(plan.order[0].column)

    def holds(compare: Any, value: Any) -> np.ndarray:
        found: np.ndarray = (
            compare(column, pa.scalar(value, column.type)).fill_null(False).to_numpy(zero_copy_only=False)
        )
        return found

    inside = np.ones(len(events), np.bool_)
    for value, compare in ((asked.first, pc.greater_equal), (asked.last, pc.less_equal)):
        if value is not None:
            inside &= holds(compare, value)
    found = np.flatnonzero(inside)
    if len(found):
        return found, []
    place = asked.first if asked.first is not None else asked.last
    before, after = (np.flatnonzero(holds(compare, place)) for compare in (pc.less, pc.greater))
    if not plan.order[0].ascending:
        before, after = before[:1], after[-1:]
    near = [*(int(row) for row in before[-1:]), *(int(row) for row in after[:1])]
    alone = asked.first is not None and asked.first == asked.last
    nearest = words.nearest(near, place) if alone else None
    return np.array([] if nearest is None else [nearest], np.int64), [words.no_rows_at(near, nearest)]


def _findings(
    attempts: RowAttempts, starts: np.ndarray, words: RowWords, most_starts: int, most_steps: int
) -> Iterator[Finding]:
    chosen = attempts.by_promise(starts)[:most_starts]
    made: list[RowAttempt] = []
    left = most_steps
    for at, start in enumerate(chosen):
        attempt = attempts.attempt(int(start), max(left // (len(chosen) - at), left // 4))
        left = max(0, left - attempt.steps)
        made.append(attempt)
    yield from words.findings(made, attempts.exploration)
    unseen = len(starts) - len(chosen)
    partly = sum(not attempt.complete for attempt in made)
    if unseen or partly:
        yield words.limit(len(starts), unseen, partly, most_starts, most_steps)
