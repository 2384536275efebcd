-- Every tick of one stock, with the fall that begins there: a row pattern in a window.
SELECT symbol, ts, price, low OVER w AS low_price, falls OVER w AS falls
FROM ticks
WHERE symbol = 'ACME'
WINDOW w AS (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES LAST(DOWN.price) AS low, COUNT(DOWN.*) AS falls
  ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (STRT DOWN{4,})
  DEFINE DOWN AS DOWN.price < PREV(DOWN.price)
)
ORDER BY ts
