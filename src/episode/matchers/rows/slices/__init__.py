"""Row patterns in slices of time."""
