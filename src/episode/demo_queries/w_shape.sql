-- Two V-shapes in a row, with the height of the peak between them.
SELECT *
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    STRT.ts          AS began,
    LAST(UP2.ts)     AS ended,
    MIN(W.price)     AS low_price,
    LAST(UP1.price)  AS peak_price,
    LAST(UP2.price)  AS end_price,
    COUNT(*)         AS ticks
  PATTERN (STRT DOWN1{8,} UP1{8,} DOWN2{8,} UP2{8,})
  SUBSET W = (DOWN1, DOWN2)
  DEFINE
    DOWN1 AS DOWN1.price < PREV(DOWN1.price),
    UP1   AS UP1.price > PREV(UP1.price),
    DOWN2 AS DOWN2.price < PREV(DOWN2.price),
    UP2   AS UP2.price > PREV(UP2.price)
)
ORDER BY symbol, began
