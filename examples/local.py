"""Patterns without Spark: prices that fall and recover in a pandas frame, and in an Arrow table.

Run it with: python examples/local.py
"""

import pandas as pd
import pyarrow as pa

import episode

V_SHAPE = """
SELECT symbol, low, recovered - low AS gain
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY minute
  MEASURES
    LAST(DOWN.price) AS low,
    LAST(UP.price)   AS recovered
  PATTERN (STRT DOWN+ UP+)
  DEFINE
    DOWN AS DOWN.price < PREV(DOWN.price),
    UP   AS UP.price > PREV(UP.price)
)
"""
REBOUND = "PATTERN A; B WHERE B.price > A.price + 3 WITHIN 2 RETURN A.minute AS since, B.price - A.price AS gain"


def main() -> None:
    ticks = pd.DataFrame({"symbol": ["ACME"] * 5, "minute": [0, 1, 2, 3, 4], "price": [20.0, 18.0, 17.0, 19.0, 21.0]})
    print(episode.sql_local(V_SHAPE, ticks=ticks).to_string(index=False))
    print(episode.match_local(pa.Table.from_pandas(ticks), REBOUND, time="minute", key="symbol").to_pylist())


if __name__ == "__main__":
    main()
