-- The door of a hot machine was opened, and was still open when the machine had cooled.
FROM readings PARTITION BY machine ORDER BY ts
DEFINE hot  AS temperature > 80 AT LEAST 1 minute,
       open AS door = 'open'
PATTERN hot overlaps open
WITHIN 20 minutes
RETURN first(hot.machine) AS machine, max(hot.temperature) AS hottest, hot.start AS hot_since, open.start AS opened
