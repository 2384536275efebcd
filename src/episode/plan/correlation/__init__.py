"""Pattern correlation: plans, and what they cost."""
