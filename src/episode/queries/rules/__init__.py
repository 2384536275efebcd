"""Sets of rules: many patterns over one input, planned and run together."""
