"""Orders of search for one shard, made anew where buffers or selectivities are no longer what they were made for."""

from __future__ import annotations

import json

import numpy as np

from episode.kernels.situations import Statistics
from episode.plan.situation_cost import Costs, best_order, initial_costs
from episode.plan.situation_pattern import SituationPlan

SMOOTHING, THRESHOLD = 0.01, 0.2
"""Weight of a new value in a moving average, and by how much one must have moved (the paper's section 6.4.2)."""

MOST_NOTED = 20


class Orders:
    """orders int64[S, S - 1]: the plan in force. forced: one to keep to."""

    def __init__(self, plan: SituationPlan, forced: tuple[tuple[int, ...], ...] | None = None) -> None:
        self.plan = plan
        self.forced = forced is not None
        symbols = len(plan.symbols)
        costs = initial_costs(plan.masks)
        chosen = forced or tuple(best_order(plan.masks, costs, symbol) for symbol in range(symbols))
        self.initial = chosen
        self.orders: np.ndarray = np.array(chosen, np.int64).reshape(symbols, symbols - 1)
        self.plans = 1
        self.changes: list[str] = []
        self.statistics = Statistics(
            SMOOTHING,
            0.0 if self.forced or symbols < 3 else THRESHOLD,
            np.array(costs.sizes),
            np.array(costs.selectivities),
            np.array(costs.sizes),
            np.array(costs.selectivities),
            np.zeros(1, np.int64),
            np.zeros((symbols, symbols), np.int64),
            np.zeros((symbols, symbols), np.int64),
            np.zeros(symbols, np.int64),
        )

    def make_anew(self) -> None:
        """Choose again, by the statistics as they are now."""
        statistics = self.statistics
        statistics.size_then[:] = statistics.size
        statistics.selectivity_then[:] = statistics.selectivity
        costs = self.costs()
        chosen = [best_order(self.plan.masks, costs, symbol) for symbol in range(len(self.plan.symbols))]
        new = np.array(chosen, np.int64).reshape(self.orders.shape)
        if not np.array_equal(new, self.orders):
            self.orders = new
            self.plans += 1
            if len(self.changes) < MOST_NOTED:
                self.changes.append(self.words())

    def costs(self) -> Costs:
        """What the model knows now."""
        statistics = self.statistics
        return Costs(tuple(statistics.size.tolist()), tuple(map(tuple, statistics.selectivity.tolist())))

    def words(self) -> str:
        """The orders of all symbols whose situations trigger a search."""
        return "; ".join(self.order_of(symbol) for symbol in range(len(self.plan.symbols)))

    def order_of(self, symbol: int) -> str:
        return " -> ".join(self.plan.symbols[at] for at in (symbol, *self.orders[symbol].tolist()))

    def report(self) -> str:
        """JSON: for explain."""
        statistics, costs = self.statistics, self.costs()
        searches = []
        for symbol, name in enumerate(self.plan.symbols):
            made = int(statistics.searches[symbol])
            if made:
                _, estimated = costs.of(symbol, tuple(self.orders[symbol].tolist()))
                partial = statistics.partial[symbol][: len(estimated)] / made
                searches.append(
                    {
                        "symbol": name,
                        "order": self.order_of(symbol),
                        "searches": made,
                        "estimated": [round(value, 3) for value in estimated],
                        "actual": [round(float(value), 3) for value in partial],
                    }
                )
        sizes = {name: round(float(size), 2) for name, size in zip(self.plan.symbols, statistics.size, strict=True)}
        return json.dumps({"searches": searches, "sizes": sizes, "plans": self.plans, "changes": self.changes})
