"""How far visitors of a web shop get: view, cart, purchase, all within the hour.

Run it with: python examples/funnel.py
"""

import tempfile

import episode
from episode import samples

QUERY = """
SELECT reached, count(*) AS visits, round(avg(minutes), 1) AS average_minutes
FROM clicks MATCH_RECOGNIZE (
  PARTITION BY user_id
  ORDER BY ts
  MEASURES
    CASE WHEN BOUGHT.ts IS NOT NULL THEN '3 purchase'
         WHEN CARTED.ts IS NOT NULL THEN '2 cart'
         ELSE '1 view' END                                       AS reached,
    (unix_micros(LAST(ts)) - unix_micros(FIRST(ts))) / 60000000  AS minutes
  PATTERN (SEEN (OTHER*? CARTED (OTHER*? BOUGHT)?)?)
  WITHIN 1 HOUR
  DEFINE
    SEEN   AS SEEN.action = 'view',
    CARTED AS CARTED.action = 'cart',
    BOUGHT AS BOUGHT.action = 'purchase'
)
GROUP BY reached
ORDER BY reached
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = samples.write(folder)
        episode.sql(QUERY, clicks=str(files.clicks_path)).show()


if __name__ == "__main__":
    main()
