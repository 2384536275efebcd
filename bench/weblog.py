"""A web log after Table 4 of ZStream: a month, 1.5 million accesses, few of them to what Query 8 asks for. Seeded.

The paper's log is not public. Here, as in web logs, few visitors make most accesses (a Zipf distribution of addresses),
and they come in visits: bursts of accesses with minutes between them, whenever the visitor comes back. A few interested
visitors look at publications, projects and courses; the counts of these are exactly those of the paper's Table 4.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

SEED = 22
RECORDS = 1_500_000
COUNTS = {"Publication": 6_775, "Project": 11_610, "Course": 16_083}
"""The paper's Table 4."""
MONTH = 28 * 24 * 3600
"""22 February to 22 March, in seconds."""
VISITORS, INTERESTED = 40_000, 1_500
PER_VISIT, VISIT_LENGTH = 8, 900.0
"""Accesses of a visit, and the mean of the seconds from its begin to each of them."""
OTHERS = ("Home", "Image", "Style", "People", "Search", "Robots")
SCHEMA = pa.schema([("ts", pa.int64()), ("ip", pa.string()), ("kind", pa.string()), ("url", pa.string())])
TYPES = {"ts": "bigint", "ip": "string", "kind": "string", "url": "string"}


def weblog(records: int = RECORDS) -> pa.Table:
    """The log in order of time; fewer records: of the whole month, with fewer of each kind."""
    random = np.random.default_rng(SEED)
    kinds = [*OTHERS, *COUNTS]
    wanted = {kind: round(count * records / RECORDS) for kind, count in COUNTS.items()}
    rest = records - sum(wanted.values())
    visits = _Visits(random, records)
    parts = []
    for number, kind in enumerate(kinds):
        count = wanted.get(kind, rest // len(OTHERS) + (number < rest % len(OTHERS)))
        visitor = _zipf(random, INTERESTED if kind in wanted else VISITORS, count)
        parts.append((np.full(count, number), visitor, visits.times(random, visitor)))
    code, visitor, time = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(time, kind="stable")
    code, visitor, time = code[order], visitor[order], time[order]
    addresses = np.array([f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(VISITORS)], object)
    names = np.array(kinds, object)
    urls = np.array([f"/{kind.lower()}/index.html" for kind in kinds], object)
    columns = [
        pa.array(time),
        *(pa.array(values, pa.string()) for values in (addresses[visitor], names[code], urls[code])),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _zipf(random: np.random.Generator, crowd: int, count: int) -> np.ndarray:
    """Visitors, the first ones most often."""
    weight = 1.0 / np.arange(1, crowd + 1)
    return np.searchsorted(np.cumsum(weight) / weight.sum(), random.random(count)).astype(np.int64)


class _Visits:
    """When visitors come, and how often: the more accesses they make, the more visits."""

    def __init__(self, random: np.random.Generator, records: int) -> None:
        weight = 1.0 / np.arange(1, VISITORS + 1)
        self.count = np.maximum(1, records * weight / weight.sum() / PER_VISIT).astype(np.int64)
        self.first = np.cumsum(self.count) - self.count
        self.begin = random.random(self.count.sum()) * MONTH

    def times(self, random: np.random.Generator, visitor: np.ndarray) -> np.ndarray:
        """Seconds at which visitors access something, in one of their visits each."""
        visit = self.first[visitor] + (random.random(len(visitor)) * self.count[visitor]).astype(np.int64)
        return (self.begin[visit] + random.exponential(VISIT_LENGTH, len(visitor))).astype(np.int64)
