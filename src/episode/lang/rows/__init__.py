"""Row patterns (MATCH_RECOGNIZE): text to syntax trees."""
