"""V-shapes in stock prices, from a DataFrame that is already there.

Run it with: python examples/v_shape.py
"""

import episode

QUERY = """
SELECT symbol, start_price, low_price, end_price, minutes
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    STRT.price       AS start_price,
    LAST(DOWN.price) AS low_price,
    LAST(UP.price)   AS end_price,
    timestampdiff(MINUTE, STRT.ts, LAST(UP.ts)) AS minutes
  PATTERN (STRT DOWN+ UP+)
  DEFINE
    DOWN AS DOWN.price < PREV(DOWN.price),
    UP   AS UP.price > PREV(UP.price)
)
ORDER BY symbol, start_price DESC
"""

TICKS = """
SELECT symbol, timestamp(ts) AS ts, price FROM VALUES
  ('ACME', '2026-03-02 09:30:00', 20.0),
  ('ACME', '2026-03-02 09:31:00', 18.5),
  ('ACME', '2026-03-02 09:33:00', 17.0),
  ('ACME', '2026-03-02 09:36:00', 19.0),
  ('ACME', '2026-03-02 09:40:00', 21.0),
  ('ACME', '2026-03-02 09:41:00', 21.0),
  ('BOLT', '2026-03-02 09:30:00',  7.0),
  ('BOLT', '2026-03-02 09:32:00',  6.0),
  ('BOLT', '2026-03-02 09:35:00',  6.5)
AS ticks(symbol, ts, price)
"""


def main() -> None:
    ticks = episode.sql(TICKS)  # plain Spark SQL works too
    shapes = episode.sql(QUERY, ticks=ticks)
    shapes.show()


if __name__ == "__main__":
    main()
