"""Stock trades as in ZStream's evaluation (SIGMOD 2009, section 6): seeded, with chosen rates and selectivities.

One trade for each unit of time. Rates: how often each name is traded, relative to the others. Selectivities: prices of
most names are uniform in [100, 200); a name in `below` has prices such that the price of an independent other name is
greater with the given probability. So `below={"Sun": 1 / 32}` makes `IBM.price > Sun.price` hold for one pair in 32.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED = 2009
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("ts", pa.int64()),
    ]
)
TYPES = {"id": "bigint", "name": "string", "price": "double", "volume": "bigint", "ts": "bigint"}


def stocks(
    rows: int, rates: dict[str, float], below: dict[str, float] | None = None, first: int = 0, seed: int = SEED
) -> pa.Table:
    """Trades in order of time; `first` is the time and the number of the first one."""
    random = np.random.default_rng([seed, first])
    names = list(rates)
    weights = np.array([rates[name] for name in names], np.float64)
    code = random.choice(len(names), rows, p=weights / weights.sum())
    place = random.random(rows)
    for number, name in enumerate(names):
        if below and name in below:
            mine = code == number
            place[mine] = _below(below[name], place[mine])
    number = np.arange(first, first + rows)
    columns = [
        pa.array(number),
        pa.array(np.array(names, object)[code], pa.string()),
        pa.array(100.0 + 100.0 * place),
        pa.array(random.integers(1, 1_000, rows)),
        pa.array(number),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _below(share: float, place: np.ndarray) -> np.ndarray:
    """From numbers uniform in [0, 1) to numbers that are less than an independent one of those with chance `share`."""
    if share >= 1:
        return place - 1.0
    width = min(share, 1 - share) * 2
    return (1 - share) - width / 2 + width * place


def concatenated(parts: list[dict[str, dict[str, float]]], rows: int) -> pa.Table:
    """Parts of `rows` trades each, one after the other, each with its own rates and selectivities."""
    return pa.concat_tables(
        [stocks(rows, part["rates"], part.get("below"), first=number * rows) for number, part in enumerate(parts)]
    ).combine_chunks()
