"""Which lane of an arena holds what of a query's rows, and the way of prepared rows into it and out of it.

Rows of later feeds are compared with those of earlier ones, so the lanes must not depend on a feed: ranks of strings,
which do, have no place in an arena, and every column that may be null has its own row of validity.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from episode.matchers.encoding import Lanes, is_float_lane
from episode.matchers.prepare import Needs, Prepared, needs_of
from episode.plan.expressions import Current, Expression, Load, walk
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.types import lane_of
from episode.plan.wide import is_wide


def is_lasting(plan: RowPatternPlan, needs: Needs) -> bool:
    """Can prepared rows of this plan be kept and used with those of later feeds?

    Not where strings (binaries, wide decimals) are compared between rows or aggregated: they have the ranks of a feed.
    Conditions of single rows may read them, as long as such a condition need not be evaluated again for a held row.
    """
    unlocal = {label: replace(condition, row_local=()) for label, condition in plan.conditions.items()}
    between = needs_of(replace(plan, conditions=unlocal))
    if between.constants or any(lane_of(type_) == "code" for type_ in between.columns.values()):
        return False
    if any(lane_of(expression.type) == "code" and not is_wide(expression) for expression in needs.computed):
        return False
    codes = {name for name, type_ in needs.columns.items() if lane_of(type_) == "code"}
    if not codes:
        return True
    parts = [part for condition in plan.conditions.values() for part in condition.row_local]
    elsewhere = any(
        isinstance(node, Load) and node.at != Current(0) and {node.column, node.missing} & codes
        for part in (*parts, *needs.computed)
        for node in walk(part)
    )
    return plan.lookahead == 0 and not elsewhere


@dataclass
class RowLayout:
    """Rows of the lanes of an arena, by column and by computed expression.

    ints, floats, valids: how many rows the lanes have. seen: columns in which there was a null so far.
    """

    ints: int = 0
    floats: int = 0
    valids: int = 0
    at: dict[str, int] = field(default_factory=dict)
    floating: dict[str, bool] = field(default_factory=dict)
    words_at: dict[str, int] = field(default_factory=dict)
    valid_at: dict[str, int] = field(default_factory=dict)
    computed: dict[Expression, tuple[bool, int, int]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    @staticmethod
    def of(needs: Needs) -> RowLayout:
        layout = RowLayout()
        for name, type_ in needs.columns.items():
            lane = lane_of(type_)
            if lane != "code":
                layout.floating[name] = lane == "float"
                layout.at[name] = layout._next(lane == "float")
        for name in needs.words:
            layout.words_at[name] = layout._next(False)
            layout._next(False)
        for name in dict.fromkeys((*layout.at, *layout.words_at, *needs.null_tests)):
            layout.valid_at[name] = layout._next_valid()
        for expression in needs.computed:
            floating = is_float_lane(expression.type)
            layout.computed[expression] = floating, layout._next(floating), layout._next_valid()
            if is_wide(expression):
                layout._next(False)
        return layout

    def _next(self, floating: bool) -> int:
        if floating:
            self.floats += 1
            return self.floats - 1
        self.ints += 1
        return self.ints - 1

    def _next_valid(self) -> int:
        self.valids += 1
        return self.valids - 1

    def prepared(self, ints: np.ndarray, floats: np.ndarray, valid: np.ndarray, bits: np.ndarray) -> Prepared:
        """Lanes of this layout, as rows that were prepared."""
        checks = {name: row if name in self.seen else -1 for name, row in self.valid_at.items()}
        lanes = Lanes(ints, floats, valid, self.at, checks, self.words_at)
        return Prepared(lanes, bits, self.computed)

    def empty(self) -> Prepared:
        """No rows."""
        ints, floats = np.zeros((self.ints, 0), np.int64), np.zeros((self.floats, 0), np.float64)
        return self.prepared(ints, floats, np.zeros((self.valids, 0), np.uint8), np.zeros(0, np.uint64))

    def put(
        self, prepared: Prepared, rows: np.ndarray, ints: np.ndarray, floats: np.ndarray, valid: np.ndarray,
        to: np.ndarray,
    ) -> None:  # fmt: skip
        """Put rows of a prepared batch into the lanes, at the places `to`."""
        lanes = prepared.lanes
        for name, row in self.at.items():
            if self.floating[name]:
                floats[row, to] = lanes.floats[lanes.at[name]][rows]
            else:
                ints[row, to] = lanes.ints[lanes.at[name]][rows]
        for name, row in self.words_at.items():
            ints[row, to] = lanes.ints[lanes.words_at[name]][rows]
            ints[row + 1, to] = lanes.ints[lanes.words_at[name] + 1][rows]
        for name, row in self.valid_at.items():
            check = lanes.valid_at[name]
            if check < 0:
                valid[row, to] = 1
            else:
                valid[row, to] = lanes.valid[check][rows]
                self.seen.add(name)
        for expression, (floating, row, check) in self.computed.items():
            _, from_row, from_check = prepared.computed[expression]
            if floating:
                floats[row, to] = lanes.floats[from_row][rows]
            else:
                ints[row, to] = lanes.ints[from_row][rows]
            if is_wide(expression):
                ints[row + 1, to] = lanes.ints[from_row + 1][rows]
            valid[check, to] = lanes.valid[from_check][rows]

    def with_context(
        self, lanes: Lanes, at: np.ndarray, ints: np.ndarray, floats: np.ndarray, valid: np.ndarray,
        context: np.ndarray, context_at: np.ndarray,
    ) -> Lanes:  # fmt: skip
        """The lanes of new rows, spread to the places `at`, with rows of the arena at the places between."""
        count = len(at) + len(context_at)
        wide_ints = np.zeros((len(lanes.ints), count), np.int64)
        wide_floats = np.zeros((len(lanes.floats), count), np.float64)
        wide_ints[:, at] = lanes.ints
        wide_floats[:, at] = lanes.floats
        checks: dict[str, int] = {}
        masks: list[np.ndarray] = []
        for name, row in self.at.items():
            if self.floating[name]:
                wide_floats[lanes.at[name], context_at] = floats[row, context]
            else:
                wide_ints[lanes.at[name], context_at] = ints[row, context]
        for name, row in self.words_at.items():
            wide_ints[lanes.words_at[name], context_at] = ints[row, context]
            wide_ints[lanes.words_at[name] + 1, context_at] = ints[row + 1, context]
        for name, check in lanes.valid_at.items():
            known = self.valid_at.get(name, -1)
            if check < 0 and name not in self.seen:
                checks[name] = -1
                continue
            mask = np.ones(count, np.uint8)
            if check >= 0:
                mask[at] = lanes.valid[check]
            if known >= 0:
                mask[context_at] = valid[known, context]
            checks[name] = len(masks)
            masks.append(mask)
        free = len(lanes.valid) - lanes.valid_rows
        wide_valid = np.ones((len(masks) + free, count), np.uint8)
        for number, mask in enumerate(masks):
            wide_valid[number] = mask
        return Lanes(
            wide_ints, wide_floats, wide_valid, lanes.at, checks, lanes.words_at, lanes.ranks,
            lanes.int_rows, lanes.float_rows, len(masks),
        )  # fmt: skip
