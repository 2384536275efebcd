"""Pattern correlation (RECENCY): text to syntax trees."""
