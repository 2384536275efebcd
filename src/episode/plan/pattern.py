"""Planned patterns of any language: one input, its order, and the report of a matcher."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from episode.lang.syntax import NOWHERE, Source, Span
from episode.plan.expressions import Condition
from episode.plan.options import STEP_BUDGET

if TYPE_CHECKING:
    from episode.plan.event_time import Delays, EventTime
    from episode.plan.output import Labels, MeasurePlan, Output, OutputAtom, Result


# Reports of matchers, as data. Workers write them as JSON; the driver reads them by the types of their
# fields and puts them into words.

R = TypeVar("R", bound="CarriedReport")


class CarriedReport:
    """A dataclass that goes from a worker to the driver of the same version. Its fields are dataclasses, tuples,
    dictionaries, members of enumerations, texts and numbers, or any of these as optional values."""

    def to_json(self) -> str:
        return json.dumps(_plain(self))

    @classmethod
    def from_json(cls: type[R], text: str) -> R:
        return _from_plain(cls, json.loads(text))


def _plain(value: Any) -> Any:
    """Lists, texts and numbers: of a dataclass its name and its fields, of a dictionary its pairs."""
    if _has_fields(value):
        return [type(value).__name__, *(_plain(getattr(value, one.name)) for one in fields(value))]
    if isinstance(value, dict):
        return [[_plain(key), _plain(one)] for key, one in value.items()]
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def _from_plain(kind: Any, value: Any) -> Any:
    """The value of this type that `_plain` has written."""
    of = get_args(kind)
    if _has_fields(kind):
        return kind(*map(_from_plain, _types(kind), value[1:]))
    if get_origin(kind) is dict:
        return {_from_plain(of[0], key): _from_plain(of[1], one) for key, one in value}
    if get_origin(kind) is tuple:
        return tuple(map(_from_plain, repeat(of[0]) if of[-1] is Ellipsis else of, value))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    classes = {one.__name__: one for one in of if _has_fields(one)}
    if isinstance(value, list):  # of a union
        return _from_plain(classes[value[0]], value) if classes else tuple(_from_plain(kind, one) for one in value)
    return value


def _has_fields(value: object) -> bool:
    return is_dataclass(value)


@cache
def _types(kind: Any) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[one.name] for one in fields(kind))


# Planned patterns of any language: one input, its order, its output.
#
# A plan holds no syntax trees: expressions are those of the machine, and of the query only its text and places in it.

Plan = TypeVar("Plan", bound="PatternPlan")


@dataclass(frozen=True)
class OrderColumn:
    """A column that rows are ordered by; span: its place in the query, if written."""

    column: str
    ascending: bool = True
    nulls_first: bool = True
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class PatternPlan:
    """One pattern over one input.

    keys, order: input columns; event time, if there is one, is the first of the order. input_columns: columns to move,
    also derived ones. derived: (sql, name) that Spark adds. within: the longest match in units of event time
    (microseconds, or the integer itself); window: its place in the query. conditions: by label, in languages that
    test rows one by one. step_budget: steps of matching from one start, in languages whose search needs a limit.
    """

    source: Source
    output: Output
    keys: tuple[str, ...]
    order: tuple[OrderColumn, ...]
    input_columns: tuple[str, ...]
    derived: tuple[tuple[str, str], ...]
    types: dict[str, str]
    within: int | None
    window: Span | None = None
    conditions: dict[str, Condition] = field(default_factory=dict)
    step_budget: int = STEP_BUDGET

    @property
    def labels(self) -> Labels:
        return self.output.labels

    @property
    def measures(self) -> MeasurePlan:
        return self.output.measures

    @property
    def named_keys(self) -> tuple[tuple[str, str], ...]:
        """Key columns with their names in the output."""
        return tuple((key, key) for key in self.keys)

    @property
    def result(self) -> Result:
        """The columns of the output: here all measures."""
        from episode.plan.output import Result

        return Result(self.source, self.measures, tuple(self.measures.measures))

    def event_time(self, limited: bool) -> EventTime:
        """Return the column that orders the events of a stream; an error, or a warning, if the pattern cannot run over
        one. limited: is the number of rows that a key may hold limited?"""
        from episode.plan.event_time import EventTime

        return EventTime(self.order[0].column, self.types[self.order[0].column])

    def delays(self) -> Delays:
        """Return how long after their times matches may be reported: for patterns over the matches of a stream."""
        return {}

    @property
    def match_values(self) -> tuple[OutputAtom, ...]:
        """Values that a whole match has beyond those of its rows."""
        return ()

    def narrow(self: Plan) -> Plan:
        """Return the plan with the columns that matching reads, without those that are only returned."""
        return self

    def for_workers(self: Plan) -> Plan:
        """The plan without what only the driver needs, the Spark expressions before and after matching.

        They are large, and the streams of Spark 4.3 fail where what is sent to the workers has more than a megabyte.
        """
        return replace(self, output=self.output.for_workers(), derived=())


__all__ = ["OrderColumn", "PatternPlan", "Source", "Span"]
