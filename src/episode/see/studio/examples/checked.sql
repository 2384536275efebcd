-- The door was opened and closed again while the machine was hot.
FROM readings PARTITION BY machine ORDER BY ts
DEFINE hot  AS temperature > 80,
       open AS door = 'open'
PATTERN open during hot
WITHIN 20 minutes
RETURN first(hot.machine) AS machine, max(open.temperature) AS hottest_while_open, open.start AS opened, open.end AS closed
