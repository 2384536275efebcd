"""Programs in all ways, and batches of events for emitters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from episode.matchers.events.prepare import EventArrays, event_needs, prepare_events
from episode.matchers.events.spec import EventPatternSpec
from episode.native.builder import Program
from episode.native.running import Compiled
from tests.reference.event_patterns import Event
from tests.support.events import table_of
from tests.support.interpreter import Interpreted

WAYS: dict[str, Callable[[Program], Any]] = {
    "compiled": lambda program: Compiled(program, checked=False),
    "checked": lambda program: Compiled(program, checked=True),
    "interpreted": Interpreted,
}


def arrays_of(spec: EventPatternSpec, events: list[Event]) -> EventArrays:
    """The events of one partition, each at its place in the list."""
    table = table_of(events)
    return prepare_events(spec.plan, event_needs(spec.plan), table, np.zeros(len(events), np.int64))
