"""Many patterns over the same events: one spec, one matcher, and what they share."""
