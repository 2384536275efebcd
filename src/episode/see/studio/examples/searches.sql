-- A look at something, then searches, then something in the cart, within ten minutes.
FROM clicks PARTITION BY user_id ORDER BY ts TYPE BY action
PATTERN SEQ(view a, search+ b[], cart c)
WHERE skip-till-next-match
WITHIN 10 minutes
RETURN a.user_id AS user_id, a.url AS looked_at, count(b[]) AS searches, c.url AS put_in_cart
