"""Orders of search for one shard, made anew where buffers or selectivities are no longer what they were made for."""

from __future__ import annotations

import numpy as np

from episode.plan.situations.cost import SearchCosts, best_order, initial_costs, triggers
from episode.plan.situations.plan import Orders as Searched
from episode.plan.situations.plan import SituationPlan, SituationReport, SymbolSearches

SMOOTHING, THRESHOLD = 0.01, 0.2
"""Weight of a new size in a moving average, and by how much what fits must have moved (the paper's section 6.4.2)."""
SHARE_SMOOTHING = 0.05
"""Weight of a new share of a buffer that fits: one comes with each search only, not with each change of a buffer."""

GAIN = 0.1
"""By how much another order must be cheaper to be taken."""
PAUSE, LONGEST_PAUSE = 64, 1024
"""Instants between two looks at whether the plan still fits, and at most: the pause grows while it stays as it is."""
MOST_NOTED = 20


class Orders:
    """orders int64[S, S - 1]: the plan in force. forced: one to keep to. adapts: may it change? pause: instants between
    two looks.

    statistics: arrays of the code. Moving averages of buffer sizes float64[S] and selectivities float64[S, S], those
    that the plan was made for, of how many values each is (the first ones count alike; int64[1], int64[S, S]), and
    counts: partial int64[S, S] records per (pinned symbol, step), searches int64[S]. rates: the weight of a new size,
    that of a new share of a buffer that fits, and by which share they may differ. look_at int64[1]: the plan is looked
    at from this number of sizes on.
    """

    def __init__(self, plan: SituationPlan, forced: tuple[tuple[int, ...], ...] | None = None) -> None:
        self.plan = plan
        symbols = len(plan.symbols)
        self.adapts = forced is None and symbols > 2
        costs = initial_costs(plan.masks)
        chosen = forced or tuple(best_order(plan.masks, costs, symbol) for symbol in range(symbols))
        self.orders: np.ndarray = np.array(chosen, np.int64).reshape(symbols, symbols - 1)
        self.plans = 1
        self.searches = 0
        self.changes: list[Searched] = []
        moments = triggers(plan.masks, plan.at_least, plan.at_most, plan.eager)
        self.searching = [symbol for symbol, moment in enumerate(moments) if any(moment)]
        self.gain, self.pause = GAIN, PAUSE
        self.statistics: dict[str, np.ndarray] = {
            "rates": np.array([SMOOTHING, SHARE_SMOOTHING, THRESHOLD]),
            "size": np.array(costs.sizes), "selectivity": np.array(costs.selectivities),
            "size_then": np.array(costs.sizes), "selectivity_then": np.array(costs.selectivities),
            "sizes_seen": np.zeros(1, np.int64), "shares_seen": np.zeros((symbols, symbols), np.int64),
            "look_at": np.full(1, PAUSE, np.int64), "partial": np.zeros((symbols, symbols), np.int64),
            "searches": np.zeros(symbols, np.int64),
        }  # fmt: skip

    def make_anew(self) -> None:
        """Choose again, by the statistics as they are now."""
        statistics = self.statistics
        statistics["size_then"][:] = statistics["size"]
        statistics["selectivity_then"][:] = statistics["selectivity"]
        costs = self.costs()
        new = self.orders.copy()
        for symbol in self.searching:
            best = best_order(self.plan.masks, costs, symbol)
            if costs.of(symbol, best)[0] < (1 - self.gain) * costs.of(symbol, tuple(new[symbol].tolist()))[0]:
                new[symbol] = best
        if np.array_equal(new, self.orders):
            self.pause = min(2 * self.pause, LONGEST_PAUSE)
        else:
            self.orders, self.pause = new, PAUSE
            self.plans += 1
            self.searches += int(statistics["searches"].sum())
            statistics["searches"][:] = 0
            statistics["partial"][:] = 0
            if len(self.changes) < MOST_NOTED:
                self.changes.append(tuple(self.order_of(symbol) for symbol in self.searching))
        statistics["look_at"][0] = statistics["sizes_seen"][0] + self.pause

    @property
    def paths(self) -> np.ndarray:
        """int64[S * S]: for each symbol, the symbols in the order of a search that a situation of it begins."""
        return np.column_stack([np.arange(len(self.orders)), self.orders]).reshape(-1)

    def costs(self) -> SearchCosts:
        statistics = self.statistics
        return SearchCosts(tuple(statistics["size"].tolist()), tuple(map(tuple, statistics["selectivity"].tolist())))

    def order_of(self, symbol: int) -> tuple[int, ...]:
        """The symbols in the order of a search that a situation of one begins."""
        return (symbol, *self.orders[symbol].tolist())

    def report(self) -> SituationReport:
        statistics, costs = self.statistics, self.costs()
        searches = []
        for symbol in range(len(self.plan.symbols)):
            made = int(statistics["searches"][symbol])
            if made:
                order = self.order_of(symbol)
                _, estimated = costs.of(symbol, order[1:])
                actual = statistics["partial"][symbol][: len(estimated)] / made
                searches.append(SymbolSearches(order, made, tuple(estimated), tuple(actual.tolist())))
        total = self.searches + int(statistics["searches"].sum())
        return SituationReport(
            tuple(searches), total, costs.sizes, self.plans, tuple(self.changes), costs.selectivities
        )
