SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS first_v, LAST(B.v) AS last_v ONE
ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+) DEFINE B AS B.v < PREV(B.v))
;
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts DESC NULLS LAST MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS c,
FINAL LAST(v, 1) AS l, RUNNING sum(U.v) AS so_far ALL ROWS PER MATCH SHOW EMPTY MATCHES AFTER MATCH SKIP TO
NEXT ROW PATTERN ((A | B)* C??) SUBSET U = (A, B) DEFINE A AS A.v > 1, B AS B.f <= 2.5, C AS C.s = 'a')
;
SELECT x.c FROM t AS x MATCH_RECOGNIZE (PARTITION BY x.k, s ORDER BY x.ts, f MEASURES count(*) AS c,
count(A.*) AS d, avg(A.f) AS e ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (^ A{2,3} B? $) WITHIN 6 units
DEFINE A AS A.v IS NOT NULL)
;
WITH w AS (SELECT * FROM t) SELECT * FROM w MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(A.v) + NEXT(B.v, 2) AS
n MAXIMAL MATCH PATTERN (PERMUTE(A, B, C)) DEFINE A AS v BETWEEN 0 AND 3, B AS v IN (1, 2, 3), C AS v > A.v OR
ts < 4) AS m
;
SELECT * FROM (SELECT k, ts, v, f, s FROM t WHERE v > 0) MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES
array_agg(A.v) AS a, max_by(A.v, A.f) AS b, min(A.s) AS c, stddev(A.f) AS d AFTER MATCH SKIP TO LAST A PATTERN
(B A+) DEFINE A AS sum(A.v) < 10 AND count(*) <= 3)
;
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES PREV(LAST(A.v, 1), 2) AS p, PREV(CLASSIFIER()) AS q
INCREMENTAL MATCH PATTERN (A+ {- B* -} C) DEFINE B AS B.v >= LAST(A.v), C AS C.v <> FIRST(A.v) AND C.ts - A.ts
< 5)
;
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts ALL ROWS PER MATCH OMIT EMPTY MATCHES AFTER MATCH SKIP TO FIRST B
ALL MATCHES PATTERN (A* B) DEFINE A AS CASE WHEN A.v > 2 THEN TRUE ELSE A.f < B.f END, B AS NOT (B.v = 2) AND
B.v > 0)
;
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES coalesce(LAST(B.v), A.v, 0) AS c, abs(A.v
- last_value(B.v)) AS d PATTERN (A (B | ())+? ) DEFINE A AS MATCH_NUMBER() < 3, B AS PREV(CLASSIFIER()) = 'A')
;
SELECT * FROM VALUES (1, 2), (3, 4) AS t (ts, v) MATCH_RECOGNIZE (ORDER BY ts MEASURES max(v) AS m PATTERN
(A+))
;
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES bool_and(A.v > 1) AS b, count_if(A.f > 1) AS i,
collect_set(s) AS s2 PATTERN ((A | `b`)+ "c"?) DEFINE `b` AS `b`.v > 1 AND greatest(v, 2) = least(v, 5), A AS
nullif(v, 1) <=> NULL)
;
/* a */ SELECT * -- b
FROM t MATCH_RECOGNIZE (ORDER BY ts -- c
 ALL ROWS PER MATCH PATTERN (A /* d /* e */ */ B) DEFINE B AS s LIKE 'a%' OR upper(s) = 'B' OR length(s) > 2,
A AS A.f = A.f)
;
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS x PATTERN (A)) AS m JOIN t MATCH_RECOGNIZE (ORDER
BY ts MEASURES A.v AS y PATTERN (A B{,2}) DEFINE B AS B.v % 2 = 0 AND B.f / 2 > -1 AND CAST(B.v AS bigint) >
A.v) AS n ON x = y
;
SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY s ORDER BY v, ts MEASURES sqrt(sum(A.f)) AS q, A.v * 1.5 AS w
PATTERN (A{1,} (B C)* D+) DEFINE A AS A.f > 0, B AS B.f > A.f, C AS avg(f) >= 1, D AS isnan(D.f) OR D.f IS
NULL)
;
SELECT k, n FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(B.v) AS n PATTERN (A B*) WITHIN
200 DEFINE A AS v > 0, B AS B.v > 0 AND B.v < 1e3 AND B.s IN ('a', A.s)) WHERE n > 1 GROUP BY k, n ORDER BY 1
LIMIT 3
;
SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES count(*) AS n PATTERN (A B+ C?) DEFINE A AS max_by(A.v, A.f) > 1,
B AS array_contains(array_agg(B.s), 'a') AND exists(collect_set(v), x -> x > A.v) AND size(filter(array_agg(f), (x, i)
-> x > i)) < 3 AND element_at(array_sort(array_agg(B.v)), -1) < 9, C AS aggregate(array_agg(v), 0, (s, x) -> s + x, s
-> s * 2) > 3 AND transform(array_agg(B.v), x -> x + 1)[0] <> min_by(v, f) AND forall(array_agg(A.s), x ->
array_contains(array_agg(s), x)))
