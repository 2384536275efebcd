{{ config(materialized='incremental', incremental_strategy='append', file_format='parquet') }}

-- Each time that a price falls, until it is back. A dip is over with its last row, so later ticks cannot change it: a
-- run reads the ticks after the last dip of each symbol, and adds the dips that have ended since.
SELECT *
FROM (
  SELECT t.*
  FROM {{ ref('ticks') }} t
  {% if is_incremental() %}
  LEFT JOIN (SELECT symbol, max(recovered_at) AS seen FROM {{ this }} GROUP BY symbol) s ON s.symbol = t.symbol
  WHERE s.seen IS NULL OR t.ts > s.seen
  {% endif %}
) MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES FIRST(fallen.ts) AS fell_at, back.ts AS recovered_at, min(price) AS low
  PATTERN (top fallen+ back)
  DEFINE fallen AS price < top.price, back AS price >= top.price
)
