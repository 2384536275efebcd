"""Plans as `explain(format="svg")` draws them: of a row pattern, an event pattern that was run, and situations."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from episode.lang.events.parser import parse_event_query
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.matchers.running import LocalRun
from episode.plan.options import RunOptions
from episode.plan.schema import InputSchema
from episode.queries.explaining import ExplainedPattern
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.see.pictures.plans.formats import render

W_SHAPE = """
    PARTITION BY symbol ORDER BY ts
    MEASURES STRT.ts AS started, LAST(UP2.price) AS price
    PATTERN (STRT (DOWN1+ UP1+) DOWN2+ UP2+)
    DEFINE DOWN1 AS price < PREV(price), UP1 AS price > PREV(price),
           DOWN2 AS price < PREV(price) AND price > LAST(DOWN1.price), UP2 AS price > PREV(price)
"""
FRAUD = """
    PATTERN Login; Change; !Confirm; Transfer; Logout
    WHERE Login.host = Transfer.host AND Transfer.amount > 900 AND Change.amount < Transfer.amount
    WITHIN 120
"""
DRIVING = """
    DEFINE A AS accel > 8, B AS speed > 70 AT LEAST 4, C AS accel < -9
    PATTERN A meets B; A overlaps B; A starts B; A during B AND A before C
      AND B before C; B meets C; B overlaps C; B finishes C; B contains C
    WITHIN 300
"""
KINDS = {"Login": 4, "Change": 6, "Confirm": 2, "Transfer": 5, "Logout": 4, "Click": 30}


def explained(query: Any, types: dict[str, str], given: Given, events: pa.Table | None = None) -> ExplainedPattern:
    """A pattern over events of these types, and what its matcher did with some of them."""
    language = language_of(query)
    plan = language.bind(query, Input(InputSchema(types)), given, RunOptions())
    reports = None
    if events is not None:
        run = LocalRun(language.spec(plan, events.schema))
        run.feed(events)
        run.finish()
        reports = [run.matcher.report().to_json()]  # type: ignore[attr-defined]
    return ExplainedPattern(language.section(plan, reports, query))


def clicks() -> pa.Table:
    """What users of a bank do, at random."""
    chance = random.Random(7)
    kinds = chance.choices(list(KINDS), list(KINDS.values()), k=4000)
    return pa.table(
        {
            "ts": pa.array(range(4000), pa.int64()),
            "kind": kinds,
            "host": [f"h{chance.randrange(9)}" for _ in kinds],
            "amount": pa.array([chance.randrange(1000) for _ in kinds], pa.int32()),
        }
    )


def main(directory: Path) -> None:
    prices = {"symbol": "string", "ts": "timestamp", "price": "double"}
    drives = {"car": "int", "ts": "bigint", "speed": "double", "accel": "double"}
    bank = {"ts": "bigint", "kind": "string", "host": "string", "amount": "int"}
    pictures = {
        "plan-rows": explained(parse_clause(W_SHAPE), prices, Given()),
        "plan-events": explained(parse_event_query(FRAUD), bank, Given(time="ts", type_column="kind"), clicks()),
        "plan-situations": explained(parse_situation_query(DRIVING), drives, Given(time="ts", key=("car",))),
    }
    for name, pattern in pictures.items():
        (directory / f"{name}.svg").write_text(render([pattern], "", "svg") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(__file__).parent)
