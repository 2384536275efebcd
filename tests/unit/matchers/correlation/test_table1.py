"""Table 1 of the PCQ paper, row for row. (Its live row at 02:07 is misprinted: it is 02:06–02:07, 11, 8.)"""

from __future__ import annotations

import pyarrow as pa
import pytest

from episode.matchers.running import run
from tests.support.correlation import correlation, pairs_of

PRICES = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
INPUT = pa.table({"symbol": ["X"] * 11, "ts": pa.array(range(11), pa.int64()), "price": pa.array(PRICES, pa.float64())})
RESULT = [
    (2, 5, 7.0, 6.0, 6.0, 7.0),
    (2, 7, 11.0, 8.0, 6.0, 7.0),
    (2, 9, 8.0, 3.0, 6.0, 7.0),
    (4, 7, 11.0, 8.0, 7.0, 11.0),
    (4, 9, 8.0, 3.0, 7.0, 11.0),
]
"""(start, end, initial and least price of the fall, initial and greatest price of the tick)"""


def test_the_result_of_the_whole_table() -> None:
    spec = correlation()
    assert sorted(pairs_of(spec, run(spec, INPUT))) == RESULT


@pytest.mark.parametrize("restore", [False, True])
def test_the_result_row_by_row(restore: bool) -> None:
    spec = correlation()
    pieces = [INPUT.slice(at, 1) for at in range(11)]
    assert sorted(pairs_of(spec, run(spec, pieces, restore=restore))) == RESULT
