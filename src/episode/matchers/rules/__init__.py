"""Many rules over one input: matchers of patterns, run together."""
