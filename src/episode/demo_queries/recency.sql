-- Two patterns at once: the twentieth tick of a fall, and rises of more than 1 % in the half hour before it.
SELECT l.symbol, fell_from, low_price, init_price, max_price,
       round(100 * (max_price / init_price - 1), 2) AS gain_percent,
       match_start AS began, match_end AS ended
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    A.price       AS fell_from,
    LAST(B.price) AS low_price
  AFTER MATCH SKIP TO NEXT ROW
  INCREMENTAL MATCH
  PATTERN (A B{20})
  DEFINE
    A AS A.price >= PREV(A.price),
    B AS B.price < PREV(B.price)
) AS l,
ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    A.price       AS init_price,
    LAST(D.price) AS max_price
  AFTER MATCH SKIP TO NEXT ROW
  MAXIMAL MATCH
  PATTERN (A B+ C* D+)
  DEFINE
    A AS A.price >= PREV(A.price),
    B AS B.price < PREV(B.price),
    C AS C.price >= PREV(C.price) AND C.price <= A.price,
    D AS D.price > PREV(D.price) AND D.price > A.price
) AS a
WHERE l.symbol = a.symbol AND max_price > 1.01 * init_price AND RECENCY = 30 minutes
ORDER BY gain_percent DESC, l.symbol, began, ended
