-- Every falling tick, with the whole fall that ends in it.
SELECT symbol, falls, init_price, min_price,
       round(init_price - min_price, 2) AS lost, fell_at
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    A.price       AS init_price,
    LAST(B.price) AS min_price,
    LAST(B.ts)    AS fell_at,
    COUNT(B.*)    AS falls
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  INCREMENTAL MATCH
  PATTERN (A B+)
  DEFINE
    B AS B.price < PREV(B.price)          -- A matches any row
)
ORDER BY falls DESC, symbol, fell_at
