-- At least eight falls in a row, then at least eight rises in a row.
SELECT *
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    STRT.ts          AS began,
    LAST(UP.ts)      AS ended,
    STRT.price       AS init_price,
    LAST(DOWN.price) AS low_price,
    LAST(UP.price)   AS end_price,
    COUNT(*)         AS ticks
  PATTERN (STRT DOWN{8,} UP{8,})
  DEFINE
    DOWN AS DOWN.price < PREV(DOWN.price),
    UP   AS UP.price > PREV(UP.price)
)
ORDER BY symbol, began
