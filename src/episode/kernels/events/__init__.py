"""Compiled loops of event patterns."""
