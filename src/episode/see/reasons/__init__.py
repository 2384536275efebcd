"""Reasons that a pattern has no match: a module for each language."""
