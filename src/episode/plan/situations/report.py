"""What a matcher of a situation pattern did, as data."""

from __future__ import annotations

from dataclasses import dataclass

from episode.plan.report import CarriedReport

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
class SituationReport(CarriedReport):
    """What one matcher did. searches: by symbol, with the last plan. total: searches with all plans. sizes: of the
    buffers of symbols, and selectivities, as the cost model knows them in the end. plans: how many there were. changes:
    the plans taken in place of others, the first ones."""

    searches: tuple[SymbolSearches, ...]
    total: int
    sizes: tuple[float, ...]
    plans: int
    changes: tuple[Orders, ...]
    selectivities: tuple[tuple[float, ...], ...] = ()
