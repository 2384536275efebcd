"""Event patterns (ZStream, SASE): text to syntax trees."""
