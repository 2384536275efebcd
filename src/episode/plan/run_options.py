"""How a query is run: what callers say of it, checked already, as one value that is handed on whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

STEP_BUDGET = 10_000_000
"""Steps of matching from one start row or event, unless Options(step_budget=…) sets another number."""

MATCHES, COLLAPSED = "matches", "collapsed"
EXACT, DOUBLE = "exact", "double"
AUTO, OFF = "auto", "off"


@dataclass(frozen=True)
class LiveOptions:
    """What is for streams alone.

    gives_up: is an open match given up where a key holds more than max_state_rows, or is that an error?
    skips_keys: is a key whose data raise an error set aside, or does the query stop?
    time_unit: what whole numbers of event time count.
    """

    watermark: str | int | None = None
    end: datetime | str | int | None = None
    event_id: str | None = None
    late_path: str | None = None
    max_state_rows: int | None = None
    gives_up: bool = False
    skips_keys: bool = False
    time_unit: str | None = None


@dataclass(frozen=True)
class RunOptions:
    """Limits and wishes of one planned query.

    eager: are matches of situations reported as soon as they are certain, or when all their situations have ended?
    slices: into how many slices of time a large key is cut; AUTO: by a sample, where that needs no job; OFF: none.
    arguments: the values of the query's parameters.
    closure: how the closures of event patterns are evaluated; 'auto': by cost.
    counters: the name under which the counters of a stream are observed.
    correlated: is the pattern one of two that are correlated? correlation, result_cache, recent_buffer: how they are.
    collapsed: are intermediate matches asked for? exact: are matches counted exactly?
    """

    step_budget: int = STEP_BUDGET
    shards: int | None = None
    shard_bytes: int | None = None
    slices: int | str = AUTO
    match_times: bool = False
    eager: bool = True
    counters: str = "episode"
    closure: str = "auto"
    arguments: Mapping[str, object] = field(default_factory=dict)
    live: LiveOptions = field(default_factory=LiveOptions)
    collapsed: bool = False
    exact: bool = True
    correlated: bool = False
    correlation: str = "auto"
    result_cache: bool = True
    recent_buffer: int | None = None
