-- Somebody went to the checkout, and on to the home page, and bought nothing between the two.
FROM clicks PARTITION BY user_id ORDER BY ts TYPE BY action
PATTERN checkout; !purchase; home
WITHIN 30 minutes
RETURN checkout.user_id AS user_id, checkout.ts AS at_checkout, home.ts AS left_at
