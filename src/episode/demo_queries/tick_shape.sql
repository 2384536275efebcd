-- A fall, then a rise that ends above the price it all began with.
SELECT symbol, init_price, low_price, max_price,
       round(100 * (max_price / init_price - 1), 2) AS gain_percent,
       began, ended
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    A.price       AS init_price,
    LAST(B.price) AS low_price,
    LAST(D.price) AS max_price,
    A.ts          AS began,
    LAST(D.ts)    AS ended
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  MAXIMAL MATCH
  PATTERN (A B+ C* D+)
  DEFINE
    B AS B.price < PREV(B.price),
    C AS C.price >= PREV(C.price) AND C.price <= A.price,
    D AS D.price > PREV(D.price) AND D.price > A.price
)
ORDER BY gain_percent DESC, symbol, began
