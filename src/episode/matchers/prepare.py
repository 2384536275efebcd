"""From a plan and a batch to lanes of values, values computed row by row, and the bits of row-local conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa

from episode.matchers import codes as oc
from episode.matchers.code.aggregates import AggregateShape, UserFunctions
from episode.matchers.code.rows import compute_lane, set_bits
from episode.matchers.encoding import Lanes, encode, is_float_lane
from episode.plan.compilable import to_float
from episode.plan.expressions import Constant, Current, Expression, LabelAt, Load, Running, is_row_local, parts_of
from episode.plan.measures import DOUBLE_AGGREGATES
from episode.plan.output import Extreme, Labels, RowAggregate, RowArray
from episode.plan.pattern import PatternPlan
from episode.plan.types import decimal_of, has_words, is_ranked_constant, is_wide, is_words

FUNCTIONS = {
    "count": oc.COUNT, "count_if": oc.COUNT_IF, "sum": oc.SUM, "avg": oc.AVG, "min": oc.MIN, "max": oc.MAX,
    "var_samp": oc.VAR_SAMP, "var_pop": oc.VAR_POP, "stddev_samp": oc.STDDEV_SAMP, "stddev_pop": oc.STDDEV_POP,
    "min_by": oc.MIN_BY, "max_by": oc.MAX_BY,
}  # fmt: skip
WIDE_FUNCTIONS = {"sum": oc.SUM_WIDE, "min": oc.MIN_WIDE, "max": oc.MAX_WIDE}


def running_argument(running: Running) -> Expression | None:
    """Return the argument in the lane that the aggregate adds up."""
    if running.argument is not None and running.function in DOUBLE_AGGREGATES and not has_words(running):
        return to_float(running.argument)
    return running.argument


def function_code(running: Running) -> int:
    """Return the opcode of an aggregate, by the lane of its values."""
    if not has_words(running) or running.argument is None:
        return FUNCTIONS[running.function]
    if not is_wide(running.argument):
        return oc.AVG_WHOLE if running.function == "avg" else FUNCTIONS[running.function]
    if running.function != "avg":
        return WIDE_FUNCTIONS[running.function]
    before, after = decimal_of(running.argument.type), decimal_of(running.type)
    assert before is not None
    assert after is not None
    return oc.AVG_WIDE + after[1] - before[1]


def aggregate_of(running: Running) -> AggregateShape:
    """Return a running aggregate as code."""
    argument = running_argument(running)
    floating = argument is not None and is_float_lane(argument.type)
    if running.user is not None:
        return AggregateShape(oc.COUNT, floating, user=cast(UserFunctions, running.user.functions))
    return AggregateShape(function_code(running), floating, has_words(running))


@dataclass(frozen=True)
class Needs:
    """Needs of a plan: columns in lanes and in words, columns that are only tested for null, constants, computed."""

    columns: dict[str, str]
    null_tests: tuple[str, ...]
    constants: tuple[tuple[str, object], ...]
    computed: tuple[Expression, ...]
    words: tuple[str, ...] = ()

    @property
    def room(self) -> tuple[int, int]:
        """Rows of ints and of floats that the computed values take."""
        floats = sum(is_float_lane(expression.type) for expression in self.computed)
        return len(self.computed) - floats + sum(map(is_wide, self.computed)), floats


def loads_in(expression: Expression, columns: dict[str, str], words: dict[str, None]) -> Iterator[Expression]:
    """Record the columns that an expression reads, in lanes or in words; yield all other parts of it."""
    pending = [expression]
    while pending:
        node = pending.pop()
        held: dict[str, Any] = columns
        if is_words(node):
            (node,) = parts_of(node)
            held = words
        if isinstance(node, Load):
            held.update({name: node.type for name in (node.column, node.missing) if name is not None})
        else:
            yield node
        pending += reversed(parts_of(node))


@dataclass
class NeedsCollector:
    """Collects what expressions need of a batch. labels: the values that CLASSIFIER() may have."""

    labels: Sequence[str] = ()
    columns: dict[str, str] = field(default_factory=dict)
    null_tests: dict[str, None] = field(default_factory=dict)
    constants: dict[tuple[str, object], None] = field(default_factory=dict)
    computed: dict[Expression, None] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)

    def read(self, expression: Expression) -> None:
        """Add what an expression reads."""
        for node in loads_in(expression, self.columns, self.words):
            if isinstance(node, Constant) and is_ranked_constant(node):
                self.constants[(node.type, node.value)] = None
            elif isinstance(node, LabelAt):
                self.constants.update({("string", label): None for label in self.labels})
            elif isinstance(node, Running):
                argument = running_argument(node)
                if argument is not None:
                    self.take(argument, node.function == "count")

    def take(self, argument: Expression, only_nulls: bool = False) -> None:
        """Add the argument of an aggregate: a column, or a value that is computed once per row."""
        if isinstance(argument, Load) and argument.at == Current(0):
            if only_nulls:
                self.null_tests[argument.column] = None
            else:
                self.columns[argument.column] = argument.type
            return
        if not is_words(argument) and is_row_local(argument):
            self.computed[argument] = None
        self.read(argument)

    def needs(self) -> Needs:
        """Return what was collected."""
        return Needs(
            self.columns, tuple(self.null_tests), tuple(self.constants), tuple(self.computed), tuple(self.words)
        )


def needs_in(expressions: Iterable[Expression]) -> Needs:
    """Return what expressions need of a batch."""
    found = NeedsCollector()
    for expression in expressions:
        found.read(expression)
    return found.needs()


def needs_of(plan: PatternPlan) -> Needs:
    """Return what a plan needs of a batch; computed once per plan."""
    found = NeedsCollector(plan.labels.names)
    value_only: list[Expression] = []
    for condition in plan.conditions.values():
        for part in (*condition.row_local, *condition.residual):
            found.read(part)
    for atom in plan.measures.atoms:
        if isinstance(atom, RowAggregate) and atom.argument is not None:
            found.take(measure_argument(atom), atom.function == "count")
        elif isinstance(atom, Extreme):
            found.take(atom.by)
            value_only.append(atom.value)
        elif isinstance(atom, RowArray) and atom.value is not None:
            value_only.append(atom.value)
    for value in value_only:
        if isinstance(value, Load) and value.at == Current(0):
            found.null_tests[value.column] = None
        else:
            found.computed[value] = None
            found.read(value)
    return found.needs()


def measure_argument(atom: RowAggregate) -> Expression:
    assert atom.argument is not None
    return to_float(atom.argument) if atom.function in DOUBLE_AGGREGATES else atom.argument


@dataclass(frozen=True)
class Prepared:
    """A batch in the machine's terms. bits uint64: the labels whose row-local conditions hold, for each row."""

    lanes: Lanes
    bits: np.ndarray
    computed: dict[Expression, tuple[bool, int, int]]

    def column(self, argument: Expression) -> tuple[bool, int, int]:
        """Return (is float, row in its lane, or -1 if only nulls are known, row in validity) of an argument."""
        if argument in self.computed:
            return self.computed[argument]
        if is_words(argument):
            (argument,) = parts_of(argument)
            assert isinstance(argument, Load)
            return False, self.lanes.words_at[argument.column], self.lanes.valid_at[argument.column]
        assert isinstance(argument, Load)
        return (
            is_float_lane(argument.type),
            self.lanes.at.get(argument.column, -1),
            self.lanes.valid_at[argument.column],
        )


@dataclass(frozen=True)
class Precomputed:
    """Values of a batch's rows that were computed before a pattern is fed them, shared with other patterns.

    bits uint64: the pattern's labels, variables or symbols that a row qualifies for. lanes, computed: the columns that
    it reads, and what it computes of single rows, if these are in lanes already. Nothing here is written to.
    """

    bits: np.ndarray
    lanes: Lanes | None = None
    computed: dict[Expression, tuple[bool, int, int]] = field(default_factory=dict)


def prepare(
    plan: PatternPlan, needs: Needs, table: pa.Table, key: np.ndarray, known: Precomputed | None = None
) -> Prepared:  # fmt: skip
    """Encode the columns, and evaluate the row-local parts that are not precomputed."""
    if known is not None and known.lanes is not None:
        return Prepared(known.lanes, known.bits, known.computed)
    lanes = encode(table, needs.columns, needs.null_tests, needs.constants, needs.room, needs.words)
    return evaluate(plan, needs, lanes, key, None if known is None else known.bits)


def evaluate(
    plan: PatternPlan, needs: Needs, lanes: Lanes, key: np.ndarray, bits: np.ndarray | None = None
) -> Prepared:  # fmt: skip
    """Evaluate the row-local parts over columns in lanes. bits: those of conditions, if known."""
    prepared = Prepared(lanes, np.full(len(key), np.uint64(2**64 - 1), np.uint64) if bits is None else bits, {})
    for expression in needs.computed:
        prepared.computed[expression] = compute_lane(lanes, key, expression)
    if bits is None:
        conditions = [
            (part, 1 << number)
            for number, label in enumerate(plan.labels.names)
            if label in plan.conditions
            for part in plan.conditions[label].row_local
        ]
        set_bits(lanes, key, conditions, prepared.bits)
    return prepared


def membership(sets: list[frozenset[str] | None], labels: Labels) -> np.ndarray:
    """Return whether the label is in the set (uint8[sets, labels])."""
    return np.array(
        [[members is None or label in members for label in labels.names] or [True] for members in sets], np.uint8
    )
