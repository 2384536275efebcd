"""What all planned patterns have in common, whatever the language: one input, its order, what comes out.

A plan holds no syntax trees: expressions are those of the machine, and of the query only its text and places in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from episode.lang.source import Source
from episode.lang.syntax import NOWHERE, Span
from episode.plan.expressions import Condition
from episode.plan.labels import Labels
from episode.plan.output import MeasurePlan, Output

Plan = TypeVar("Plan", bound="PatternPlan")


@dataclass(frozen=True)
class OrderColumn:
    """A column that rows are ordered by; span: where the query says so, if it does."""

    column: str
    ascending: bool = True
    nulls_first: bool = True
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class PatternPlan:
    """One pattern over one input.

    keys, order: input columns; where there is event time, it is the first of the order. input_columns: columns to move,
    derived ones too. derived: (sql, name) that Spark adds. within: the longest match in units of event time
    (microseconds, or the integer itself); window: where the query says so. conditions: by label, in languages that
    test rows one by one.
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

    def for_workers(self: Plan) -> Plan:
        """The plan without what only the driver needs, the Spark expressions before and after matching.

        They are large, and the streams of Spark 4.3 fail where what is sent to the workers has more than a megabyte.
        """
        return replace(self, output=self.output.for_workers(), derived=())


__all__ = ["OrderColumn", "PatternPlan", "Source", "Span"]
