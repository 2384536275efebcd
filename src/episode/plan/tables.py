"""Several tables as one stream of events."""

from __future__ import annotations

from dataclasses import dataclass, field

CLASS_COLUMN = "__episode_class"
"""Where several tables are one stream: the number of the table that a row is of."""


PARTITION_COLUMN = "__episode_partition"
"""Where rows come partition by partition: the position of a row in its partition."""


@dataclass(frozen=True)
class EventTable:
    """A table whose rows are the events of a class.

    columns: the columns of the stream after its own ones. widened: types of the stream, for its own columns that are
    of a narrower one.
    """

    number: int
    columns: dict[str, str]
    widened: dict[str, str] = field(default_factory=dict)
