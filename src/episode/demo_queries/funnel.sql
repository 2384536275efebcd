-- View, cart, checkout and purchase in this order, within half an hour,
-- with anything in between.
SELECT *
FROM clicks MATCH_RECOGNIZE (
  PARTITION BY user_id
  ORDER BY ts
  MEASURES
    SEEN.url        AS product,
    SEEN.ts         AS began,
    BOUGHT.ts       AS bought,
    round((unix_millis(BOUGHT.ts) - unix_millis(SEEN.ts)) / 60000, 1)
                    AS minutes,
    COUNT(OTHER.*)  AS detours
  PATTERN (SEEN OTHER*? CARTED OTHER*? PAYING OTHER*? BOUGHT)
  WITHIN 30 MINUTES
  DEFINE
    SEEN   AS SEEN.action = 'view',
    CARTED AS CARTED.action = 'cart',
    PAYING AS PAYING.action = 'checkout',
    BOUGHT AS BOUGHT.action = 'purchase'  -- OTHER matches any row
)
ORDER BY minutes, user_id, began
