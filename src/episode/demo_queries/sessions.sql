-- Clicks of one user with no pause of more than half an hour between them.
SELECT *
FROM clicks MATCH_RECOGNIZE (
  PARTITION BY user_id
  ORDER BY ts
  MEASURES
    MATCH_NUMBER()  AS session,
    FIRST(ts)       AS began,
    LAST(ts)        AS ended,
    COUNT(*)        AS clicks,
    concat(FIRST(action), ' … ', LAST(action)) AS path
  PATTERN (A B*)
  DEFINE
    B AS B.ts <= PREV(B.ts) + INTERVAL 30 MINUTES
)
ORDER BY clicks DESC, user_id
