"""What a matcher of a situation pattern did, as data: counted by workers, carried as JSON, put into words on the
driver."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

Orders = tuple[tuple[int, ...], ...]
"""Symbols in the order of their search, for each symbol whose situations begin one: that symbol first."""


@dataclass(frozen=True)
class SymbolSearches:
    """Searches that situations of one symbol have begun, with the last plan.

    order: of symbols, itself first. estimated, actual: records after each step, by the cost model and on average.
    """

    order: tuple[int, ...]
    searches: int
    estimated: tuple[float, ...]
    actual: tuple[float, ...]


@dataclass(frozen=True)
class SituationReport:
    """What one matcher did. searches: by symbol, with the last plan. total: searches with all plans. sizes: of the
    buffers of symbols, and selectivities, as the cost model knows them in the end. plans: how many there were. changes:
    the plans taken in place of others, the first ones."""

    searches: tuple[SymbolSearches, ...]
    total: int
    sizes: tuple[float, ...]
    plans: int
    changes: tuple[Orders, ...]
    selectivities: tuple[tuple[float, ...], ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> SituationReport:
        read = json.loads(text)
        searches = tuple(
            SymbolSearches(tuple(one["order"]), one["searches"], tuple(one["estimated"]), tuple(one["actual"]))
            for one in read["searches"]
        )
        changes = tuple(tuple(tuple(order) for order in orders) for orders in read["changes"])
        selectivities = tuple(map(tuple, read["selectivities"]))
        return SituationReport(searches, read["total"], tuple(read["sizes"]), read["plans"], changes, selectivities)
