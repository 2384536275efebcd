"""The tick query without episode: what one writes with plain PySpark, and its matchers in plain Python.

`by_conditions` is the straightforward one: the pattern's conditions as functions, the labels tried one after the other.
`by_hand` is the same query unrolled by hand over a list of prices, as fast as plain Python gets here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

SCHEMA = "symbol int, init_price double, max_price double"
Match = tuple[int, float, float]


class Tick(NamedTuple):
    key: int
    ts: Any
    price: float


def is_b(rows: list[Tick], at: int, start: int) -> bool:
    return rows[at].price < rows[at - 1].price


def is_c(rows: list[Tick], at: int, start: int) -> bool:
    return rows[at].price >= rows[at - 1].price and rows[at].price <= rows[start].price


def is_d(rows: list[Tick], at: int, start: int) -> bool:
    return rows[at].price > rows[at - 1].price and rows[at].price > rows[start].price


PATTERN = ((is_b, 1), (is_c, 0), (is_d, 1))
"""After A, which is any row: condition and least number of rows. No row fits two of them, so greed is always right."""


def by_conditions(rows: list[Tick]) -> Iterator[Match]:
    """Matches from every start row."""
    for start in range(len(rows)):
        at = start + 1
        for fits, least in PATTERN:
            begin = at
            while at < len(rows) and fits(rows, at, start):
                at += 1
            if at - begin < least:
                break
        else:
            yield rows[start].key, rows[start].price, rows[at - 1].price


def by_hand(key: int, price: list[float]) -> Iterator[Match]:
    """The same matches."""
    n = len(price)
    for start in range(n - 2):
        initial = price[start]
        at = start + 1
        if price[at] >= initial:
            continue
        at += 1
        while at < n and price[at] < price[at - 1]:
            at += 1
        while at < n and price[at - 1] <= price[at] <= initial:
            at += 1
        if at == n or price[at] <= initial:
            continue
        at += 1
        while at < n and price[at] > price[at - 1]:
            at += 1
        yield key, initial, price[at - 1]


def frame_by_conditions(ticks):
    """`groupBy.applyInPandas` with the straightforward matcher."""
    return ticks.groupBy("key").applyInPandas(
        _apply(lambda pdf: by_conditions([*pdf.itertuples(False, "Tick")])), SCHEMA
    )


def frame_by_hand(ticks):
    """`groupBy.applyInPandas` with the matcher unrolled by hand."""
    return ticks.groupBy("key").applyInPandas(
        _apply(lambda pdf: by_hand(int(pdf["key"].iloc[0]), pdf["price"].tolist())), SCHEMA
    )


def _apply(match: Callable[[Any], Iterator[Match]]) -> Callable[[Any], Any]:
    def one_key(pdf):
        import pandas

        return pandas.DataFrame(list(match(pdf.sort_values("ts"))), columns=["symbol", "init_price", "max_price"])

    return one_key
